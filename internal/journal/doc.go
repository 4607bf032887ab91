// Package journal is the way into the journal of events and the way out of it.
//
// A Recorder takes events from parts that may not wait and writes them in
// order. A Stream hands what is recorded, by a Recorder or by a transaction of
// the index, to any number of readers. Both stand on a Store, which numbers
// events in the order in which they are committed; sqlite.DB is one. app wires
// them, control reads the Stream.
//
// # Guarantees
//
//   - Notify returns at once, whatever the Store and the readers do.
//   - An event is in the journal once Recorder has written it, and lost before
//     that only with the process. What does not fit the Recorder's bounded
//     queue is counted, and the counts are an event of their own.
//   - A reader that names the number it saw last gets everything after it, in
//     order, each once, or ErrGone when that cannot be had.
//   - Readers never slow a writer down: nothing a writer does depends on how
//     many there are or whether they read.
//   - Readers at the same place share the reading and the encoding.
package journal
