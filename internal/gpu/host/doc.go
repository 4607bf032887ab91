// Package host chooses what tells of this machine's GPUs and conditions: the
// IORegistry, Metal and NSProcessInfo on macOS, the Direct Rendering Manager,
// NVML, /proc and /sys on Linux.
//
// What it lives on is power's to tell. Only app imports it. Open may load frameworks and takes some hundred
// milliseconds at worst; what it returns is for one goroutine.
package host
