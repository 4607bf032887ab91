// Package extract turns one file into text: it opens the file, decides
// whether it is text at all, finds its character set, and returns UTF-8 in
// normal form C with \n line ends, a title and a kind.
//
// The indexer imports it. It only ever reads: the file is opened read-only,
// never through a symbolic link as its last element, and never when it is
// anything but a regular file, so a fifo or a device cannot hang a scan. It
// starts no goroutine and keeps no state.
//
// A file that is left out on purpose comes back as [*SkipError]; every other
// error is a failure worth another try, and [ReasonOf] names its code.
package extract
