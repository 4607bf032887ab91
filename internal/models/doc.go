// Package models knows model files: what a GGUF file is (Inspect), which lie
// on this machine already (Discover), and how much memory an engine takes that
// runs one (Estimate, Machine).
//
// app and control import it. It only ever reads, never moves or changes a
// file, and starts no goroutine; what it finds of other programs is used where
// it lies. What is wrong with a model is a Warning, a code with arguments; the
// sentences are in assets/locales.
package models
