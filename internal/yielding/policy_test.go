package yielding_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/yielding"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func share(of float64) gpu.Status { return gpu.Status{Available: true, Others: &of} }

func hot(t gpu.Thermal) gpu.Status { return gpu.Status{Conditions: gpu.Conditions{Thermal: t}} }

func short(p gpu.Pressure) gpu.Status {
	return gpu.Status{Conditions: gpu.Conditions{MemoryPressure: p}}
}

func power(battery, low bool) gpu.Status {
	return gpu.Status{Conditions: gpu.Conditions{OnBattery: &battery, LowPower: &low}}
}

// both is one status with the conditions of the other.
func both(a, b gpu.Status) gpu.Status {
	a.Conditions = b.Conditions
	return a
}

func TestDefaultLimitsAreTheContracts(t *testing.T) {
	want := yielding.Limits{Busy: 0.25, Quiet: 0.10, Onset: 3 * time.Second, Calm: 15 * time.Second, Battery: true, Low: true}
	if got := yielding.DefaultLimits(); got != want {
		t.Errorf("%+v", got)
	}
}

func TestValidate(t *testing.T) {
	for _, change := range []func(*yielding.Limits){
		func(l *yielding.Limits) { l.Busy = 0 }, func(l *yielding.Limits) { l.Busy = 1.1 },
		func(l *yielding.Limits) { l.Quiet = 0 }, func(l *yielding.Limits) { l.Quiet = l.Busy },
		func(l *yielding.Limits) { l.Onset = -1 }, func(l *yielding.Limits) { l.Calm = -1 },
	} {
		l := yielding.DefaultLimits()
		change(&l)
		if l.Validate() == nil {
			t.Errorf("%+v accepted", l)
		}
	}
	if err := yielding.DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
}

// leg is what a machine shows for a while, once a second.
type leg struct {
	seconds int
	shows   gpu.Status
}

// turn is when a pause begins or ends, and why.
type turn struct {
	second  int
	reasons string // empty = it ends
}

func TestTraces(t *testing.T) {
	idle := share(0.02)
	for name, test := range map[string]struct {
		change func(*yielding.Limits)
		trace  []leg
		want   []turn
	}{
		"others' work of three seconds":       {nil, []leg{{5, idle}, {3, share(0.9)}, {30, idle}}, nil},
		"others' work of more":                {nil, []leg{{5, idle}, {4, share(0.9)}, {30, idle}}, []turn{{8, "gpu"}, {24, ""}}},
		"exactly a quarter is not more":       {nil, []leg{{60, share(0.25)}}, nil},
		"just above a quarter":                {nil, []leg{{10, share(0.2501)}}, []turn{{3, "gpu"}}},
		"a dip begins the three seconds anew": {nil, []leg{{3, share(0.9)}, {1, share(0.2)}, {3, share(0.9)}, {1, share(0.2)}}, nil},
		"between the two figures nothing turns": {nil, []leg{{4, share(0.9)}, {60, share(0.24)}, {60, share(0.1)}, {16, share(0.0999)}},
			[]turn{{3, "gpu"}, {139, ""}}},
		"a peak begins the fifteen seconds anew": {nil, []leg{{4, share(0.9)}, {14, idle}, {1, share(0.11)}, {16, idle}},
			[]turn{{3, "gpu"}, {34, ""}}},
		"more than a whole GPU":         {nil, []leg{{4, share(2.5)}}, []turn{{3, "gpu"}}},
		"not known":                     {nil, []leg{{60, gpu.Status{}}}, nil},
		"not known any more":            {nil, []leg{{4, share(0.9)}, {20, gpu.Status{}}}, []turn{{3, "gpu"}, {19, ""}}},
		"fair is warm":                  {nil, []leg{{60, hot(gpu.ThermalFair)}}, nil},
		"serious is hot":                {nil, []leg{{2, hot(gpu.ThermalNominal)}, {1, hot(gpu.ThermalSerious)}, {20, hot(gpu.ThermalFair)}}, []turn{{2, "thermal"}, {18, ""}}},
		"critical is hotter":            {nil, []leg{{1, hot(gpu.ThermalCritical)}}, []turn{{0, "thermal"}}},
		"a warning of memory":           {nil, []leg{{1, short(gpu.PressureNormal)}, {1, short(gpu.PressureWarning)}, {20, gpu.Status{}}}, []turn{{1, "memory"}, {17, ""}}},
		"critically short of memory":    {nil, []leg{{1, short(gpu.PressureCritical)}}, []turn{{0, "memory"}}},
		"on battery":                    {nil, []leg{{3, power(true, false)}, {20, power(false, false)}}, []turn{{0, "battery"}, {18, ""}}},
		"on battery, and that is fine":  {func(l *yielding.Limits) { l.Battery = false }, []leg{{60, power(true, false)}}, nil},
		"saving power":                  {nil, []leg{{1, power(false, true)}}, []turn{{0, "low_power"}}},
		"saving power, and that's fine": {func(l *yielding.Limits) { l.Low = false }, []leg{{60, power(false, true)}}, nil},
		"never for the GPU":             {func(l *yielding.Limits) { l.Busy = 1 }, []leg{{60, share(3)}}, nil},
		"other figures": {func(l *yielding.Limits) { l.Busy, l.Quiet, l.Onset, l.Calm = 0.5, 0.4, 0, time.Second }, []leg{{2, share(0.45)}, {1, share(0.6)}, {3, share(0.3)}},
			[]turn{{2, "gpu"}, {4, ""}}},
		"one reason after the other": {nil, []leg{{4, share(0.9)}, {10, both(idle, hot(gpu.ThermalSerious))}, {20, idle}},
			[]turn{{3, "gpu"}, {29, ""}}}, // from the last sign of either
	} {
		limits := yielding.DefaultLimits()
		if test.change != nil {
			test.change(&limits)
		}
		p := yielding.NewPolicy(limits)
		var got []turn
		second := 0
		for _, l := range test.trace {
			for range l.seconds {
				before := reasons(p)
				p.Observe(epoch.Add(time.Duration(second)*time.Second), l.shows)
				if now := reasons(p); (now == "") != (before == "") {
					got = append(got, turn{second, now})
				}
				second++
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: turns %+v, want %+v", name, got, test.want)
		}
	}
}

func reasons(p *yielding.Policy) string {
	var list []string
	for _, r := range p.Reasons() {
		list = append(list, r.String())
	}
	return strings.Join(list, " ")
}

func TestAllReasonsAtOnce(t *testing.T) {
	p := yielding.NewPolicy(yielding.DefaultLimits())
	yes := true
	all := share(0.9)
	all.Conditions = gpu.Conditions{Thermal: gpu.ThermalSerious, MemoryPressure: gpu.PressureWarning, LowPower: &yes, OnBattery: &yes}
	for second := range 4 {
		p.Observe(epoch.Add(time.Duration(second)*time.Second), all)
	}
	if got := reasons(p); got != "memory thermal gpu low_power battery" {
		t.Errorf("%q", got)
	}
	p.Reset()
	if len(p.Reasons()) > 0 {
		t.Errorf("after a reset: %v", p.Reasons())
	}
	p.Observe(epoch.Add(time.Hour), all)
	if got := reasons(p); got != "memory thermal low_power battery" { // the GPU's takes time
		t.Errorf("the next work: %q", got)
	}
}
