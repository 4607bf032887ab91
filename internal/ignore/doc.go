// Package ignore decides which files of a watched folder are left out.
//
// It is a policy: pure, no I/O, no goroutine. The indexer and the preview of
// rules walk the tree and hand in the contents of the rule files they find;
// [Rules] is immutable, so one value may serve many goroutines.
//
// The rules are those of .gitignore: a pattern without a slash matches at any
// depth, one with a slash is anchored to its directory, a trailing slash means
// directories only, "!" takes back, the last match decides, and nothing inside
// an ignored directory can be taken back. The result agrees with
// "git check-ignore", which a test compares on random trees.
//
// Four sources, each stronger than the one before, whatever their depth:
// the defaults, .gitignore, .ignore, .ondolignore. So a folder's owner can
// bring back in .ondolignore what a repository or the defaults leave out.
// Names and patterns are compared in normal form C, because macOS hands out
// decomposed names.
package ignore
