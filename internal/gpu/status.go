package gpu

import "time"

// Reason is why there are no figures of a GPU.
type Reason string

const (
	ReasonNoGPU      Reason = "no_gpu"      // there is none
	ReasonNoCounters Reason = "no_counters" // its driver tells nothing
	ReasonUnreadable Reason = "unreadable"  // reading it failed; the log says how
	ReasonUnread     Reason = "unread"      // nobody has looked yet
)

func (r Reason) String() string { return string(r) }

// Thermal is how hot the machine is, by its own judgement.
type Thermal string

const (
	ThermalNominal  Thermal = "nominal"
	ThermalFair     Thermal = "fair"
	ThermalSerious  Thermal = "serious"  // it slows itself down
	ThermalCritical Thermal = "critical" // it must cool down
)

func (t Thermal) String() string { return string(t) }

// Pressure is how short of memory the machine is, by its own judgement.
type Pressure string

const (
	PressureNormal   Pressure = "normal"
	PressureWarning  Pressure = "warning"
	PressureCritical Pressure = "critical"
)

func (p Pressure) String() string { return string(p) }

// Conditions are the machine's own state; what is empty or nil is not told.
type Conditions struct {
	Thermal        Thermal  `json:"thermal,omitempty"`
	MemoryPressure Pressure `json:"memory_pressure,omitempty"`
	LowPower       *bool    `json:"low_power,omitempty"`  // its owner asked it to save power
	OnBattery      *bool    `json:"on_battery,omitempty"` // no mains; see power
}

// Status is the GPU at one moment. Shares are GPU seconds a second, of the last
// three seconds; what is absent is not known.
type Status struct {
	Available bool       `json:"available"`
	Reason    Reason     `json:"reason,omitempty"` // why it is not available
	At        *time.Time `json:"at,omitempty"`     // of the figures; absent when nobody looked lately

	Utilization *float64 `json:"utilization,omitempty"` // of the busiest GPU, whoever uses it; 0 to 1
	Ours        *float64 `json:"ours,omitempty"`        // share of the app's engines
	Others      *float64 `json:"others,omitempty"`      // share of all others that can be seen
	Contention  *float64 `json:"contention,omitempty"`  // others' share while we executed; absent when we did not

	MemoryInUse *int64 `json:"memory_in_use,omitempty"` // bytes
	WorkingSet  *int64 `json:"working_set,omitempty"`   // bytes that can be in use without harm

	Conditions
}
