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
	c := gpu.Conditions{OnBattery: onBattery(root)}
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

// onBattery is nil on a machine without a battery of its own.
func onBattery(root string) *bool {
	supplies, err := filepath.Glob(filepath.Join(root, "sys/class/power_supply/*"))
	if err != nil {
		return nil
	}
	var discharging, known, mains bool
	for _, supply := range supplies {
		read := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(supply, name)) // what is not there says nothing
			return strings.TrimSpace(string(text))
		}
		switch {
		case read("type") == "Mains" && read("online") == "1":
			mains = true
		case read("type") == "Battery" && read("scope") != "Device": // a mouse has one too
			known = true
			discharging = discharging || read("status") == "Discharging"
		}
	}
	if !known {
		return nil
	}
	battery := discharging && !mains
	return &battery
}
