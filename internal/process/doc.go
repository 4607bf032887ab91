// Package process starts helper programs so that none of them outlives us.
//
// It is the only package that may import os/exec. Anybody from layer 3 up may
// use it; the program's main function must call GuardMain before anything else.
//
//	app ──pipe──► guard (this binary, "__guard") ──► child, in its own process group
//	    ◄─pipe──
//
// The guard holds the read end of a pipe whose only write end is in the app.
// End of file there means that the app is gone, however it died; the guard
// then ends the child's whole group (SIGTERM, 200 ms, SIGKILL). Orders (stop,
// kill) go down the same pipe, because only the guard is the child's parent
// and knows that its process id has not been given to somebody else.
//
// When the guard itself is killed, Linux kills the child by its parent-death
// signal. macOS has no such signal: there the app, which sees the other pipe
// end, finishes the child off by its recorded identity. If app and guard are
// both killed at one blow on macOS the child stays, and the next start's Sweep
// finds it by the record.
//
// Identity is process id + start time + executable, so a record never leads to
// a kill of a stranger that was given the same process id later.
//
// Guarantees: Stop and Kill return after the exit was seen (or say that it was
// not); the pipes are close-on-exec and never reach the child; a Record is
// written with mode 0600 before Start returns and removed once the exit was seen.
package process
