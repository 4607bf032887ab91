// Package llamaserver supervises one llama-server: it finds the program,
// starts it on a unix socket with a random key, decides when its vectors may
// be used, restarts it when it breaks, and ends it for sure.
//
// Only the composition root builds a Server; surfaces see its Status. The
// states, who may cause which change, and the restart budget are drawn in
// design.md beside this file.
//
// Layout: machine.go and restart.go decide and touch nothing (no clock, no
// goroutine); engine.go does, one goroutine for each start; server.go is the
// owner of both, the one goroutine of Run.
//
// Guarantees:
//   - ready means that /health said ok and the canaries were embedded by this
//     very process into valid vectors that are the reference's;
//   - no llama-server outlives the app (see package process), and Stop,
//     Restart, Replace and Run return after the old process's exit was seen;
//   - the key is never in an argument, and only the owner of the run folder
//     can reach the socket;
//   - Snapshot, Current and Changed never wait.
package llamaserver
