// Package iokit reads an Apple GPU's counters from the IORegistry, without
// rights and without cgo: the two frameworks are opened through purego.
//
// Only gpu/host imports it. The calls are public, the properties are not
// documented; they are those that ioreg shows:
//
//	IOAccelerator                PerformanceStatistics {Device Utilization %, In use system memory}
//	└ a user client per process  IOUserClientCreator "pid 682, WindowServer" (the name is cut)
//	                             AppUsage [{API, accumulatedGPUTime in ns}]
//
// User clients are no registered services: they are found only as children of
// the accelerator. Their counters die with them, so each is named by its
// registry entry's id, which is never given out again.
//
// Every object that a call creates is released before Read returns; what "get"
// calls return is not. The package builds on Linux too, where its test runs it
// against a library that counts references.
package iokit
