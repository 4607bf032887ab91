// Package pull brings models from a hub into the models folder: a queue of
// downloads that outlives the app.
//
// app wires it, control steers it. It stands on download for the bytes, on hub
// for what a file is, and on catalog for the models known by name.
//
//	queued ─► downloading ─► verifying ─► done
//	   ▲           │ ▲           │
//	   │        pause │          ├─► failed(reason)
//	resume ◄── paused ┘ ◄────────┘
//
// One goroutine (Run) owns every pull; List is a snapshot for display. The
// list lies in pulls.json beside the models and is replaced in one step
// whenever a pull changes its state: after a kill -9 what was running is queued
// again and goes on at the byte, what was paused stays paused.
//
// A model is visible only under OWNER/REPO/FILE below the folder, whole,
// verified, and with the magic of GGUF. It is not used until somebody chooses
// it.
package pull
