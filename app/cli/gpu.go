package cli

import (
	"fmt"
	"strings"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/yielding"
)

// gpuLine is what is known of the GPU and the machine's conditions, with what
// is as it should be left out.
func gpuLine(say sayer, now gpu.Status) string {
	var parts []string
	add := func(key string, pairs ...any) { parts = append(parts, say(key, pairs...)) }
	share := func(key string, of *float64) {
		if of != nil {
			add(key, "percent", fmt.Sprintf("%.0f", 100**of))
		}
	}
	if !now.Available {
		add("status.gpu.none", "reason", say("status.gpu.reason."+now.Reason.String()))
	}
	share("status.gpu.busy", now.Utilization)
	share("status.gpu.ours", now.Ours)
	share("status.gpu.others", now.Others)
	switch {
	case now.MemoryInUse != nil && now.WorkingSet != nil:
		add("status.gpu.memory", "used", size(*now.MemoryInUse), "size", size(*now.WorkingSet))
	case now.MemoryInUse != nil:
		add("status.gpu.used", "used", size(*now.MemoryInUse))
	}
	if now.Thermal != "" && now.Thermal != gpu.ThermalNominal {
		add("status.gpu.thermal." + now.Thermal.String())
	}
	if now.MemoryPressure != "" && now.MemoryPressure != gpu.PressureNormal {
		add("status.gpu.pressure." + now.MemoryPressure.String())
	}
	if now.LowPower != nil && *now.LowPower {
		add("status.yield.reason.low_power")
	}
	if now.OnBattery != nil && *now.OnBattery {
		add("status.yield.reason.battery")
	}
	return strings.Join(parts, " · ")
}

// yieldLine is why indexing waits.
func yieldLine(say sayer, state yielding.State) string {
	var reasons []string
	for _, r := range state.Reasons {
		reasons = append(reasons, say("status.yield.reason."+r.String()))
	}
	return say("status.yield.waits", "time", local(state.Since), "reasons", strings.Join(reasons, ", "))
}
