// Package gpu tells how busy the machine's GPUs are, and whose work that is:
// ours is what the app's own engines compute, others' is the rest. Beside it
// stand the machine's conditions: heat, memory pressure, power.
//
//	host ── iokit (macOS) · drm, nvml (Linux) ──Reading──► Sampler ──Status──► who looks
//
// A Reader hands out counters as the system keeps them; Between makes shares of
// two readings; Sampler reads once a second while somebody wants to know, and
// not at all otherwise. The readers live below: host chooses the one of this
// system. Only app wires them; policies are handed a Status.
//
// It guarantees that no figure is made up: what a system does not tell is
// absent, a share without two readings is absent, and a machine without a GPU
// says so by a code.
package gpu
