// Package yielding decides when indexing pauses so that the machine stays
// usable: while other programs need the GPU, the machine is hot or short of
// memory, or runs on its battery.
//
// Only app wires it. Policy is the decision, a plain state machine that is told
// what the machine shows and when. Yielder is the front: its Run watches while
// there is background work, and pauses and resumes the background lane.
//
// It guarantees that clients are never paused, that without background work
// nothing is watched and nothing stays paused, and that what is not known
// pauses nothing.
package yielding
