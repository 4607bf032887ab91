// Package drm reads GPU counters that Linux drivers tell through the Direct
// Rendering Manager: per process from /proc/PID/fdinfo (drm-usage-stats of the
// kernel's documentation), per device from amdgpu's files in /sys.
//
// Only gpu/host imports it. Other users' processes are seen with their rights
// only, so others' share is a lower bound there. A driver that tells no times
// (nouveau) leaves the clients out, rather than making them idle.
package drm
