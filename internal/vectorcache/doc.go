// Package vectorcache keeps vectors by what they were made of: a bounded
// memory over a bounded store on disk, both giving up what was used least
// recently.
//
// The embedding door reads and fills it; app wires it. It knows no engine and
// no SQL: the store on disk is the small interface Store.
//
// What it guarantees:
//
//   - A hit is the very vector that was put in, to the bit, under the same
//     fingerprint and the same text. It is never written to.
//   - A text that the store does not have costs no look-up on disk: which texts
//     it has is known in memory.
//   - Put never waits for the disk: one goroutine, Run's, writes behind. What
//     would make its queue too long is kept in memory alone. A process that is
//     killed loses what came in the last two seconds, and nothing else.
//   - A store that fails (damaged, deleted, disk full) is emptied and begun
//     anew; while that does not help, memory alone serves. It is said once in
//     the log, and no caller sees an error.
//   - Memory and disk stay within their limits.
package vectorcache
