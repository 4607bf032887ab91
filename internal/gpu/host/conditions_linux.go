package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ondol-app/ondol/internal/gpu"
)

// stalled is the share of time, percent, from which waiting for memory is
// pressure: what systemd warns its services at (MemoryPressureThresholdSec,
// 200 ms of 2 s). It is critical when everything stood still for so long.
const stalled = 10

// conditions are what Linux tells alike on all machines; heat and the wish to
// save power it tells in as many ways as there are drivers.
func conditions(root string) gpu.Conditions {
	var c gpu.Conditions
	if text, err := os.ReadFile(filepath.Join(root, "proc/pressure/memory")); err == nil {
		c.MemoryPressure = pressure(string(text))
	}
	return c
}

// pressure reads the kernel's pressure stall information; empty when it is none.
func pressure(text string) gpu.Pressure {
	shares := make(map[string]float64)
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		first, _, _ := strings.Cut(rest, " ")
		if share, err := strconv.ParseFloat(strings.TrimPrefix(first, "avg10="), 64); err == nil {
			shares[kind] = share
		}
	}
	some, known := shares["some"]
	switch {
	case !known:
		return ""
	case shares["full"] >= stalled:
		return gpu.PressureCritical
	case some >= stalled:
		return gpu.PressureWarning
	}
	return gpu.PressureNormal
}
