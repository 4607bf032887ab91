// Package app is the composition root: it builds every part by hand, starts
// them as one group and ends them in order.
//
// main imports it, nothing else does. wire.go says what is handed to whom,
// services.go what starts and ends when, the adapter files join parts that
// must not know each other. It is the only package that imports Wails, and
// that only with the build tag desktop.
package app
