package power

import (
	"testing"
	"testing/fstest"
)

func TestSupplies(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  Source
	}{
		{"no supply at all", nil, Mains},
		{"a laptop, unplugged", map[string]string{"AC/type": "Mains\n", "AC/online": "0\n", "BAT0/type": "Battery\n", "BAT0/status": "Discharging\n"}, Battery},
		{"plugged in and charging", map[string]string{"AC/type": "Mains", "AC/online": "1", "BAT0/type": "Battery", "BAT0/status": "Charging"}, Mains},
		{"plugged in, and yet discharged under load", map[string]string{"BAT0/type": "Battery", "BAT0/status": "Discharging", "USBC000:001/type": "USB", "USBC000:001/online": "1"}, Mains},
		{"full, and no word of mains", map[string]string{"BAT0/type": "Battery", "BAT0/status": "Full"}, Mains},
		{"two batteries, one in use", map[string]string{"BAT0/type": "Battery", "BAT0/status": "Unknown", "BAT1/type": "Battery", "BAT1/status": "Discharging"}, Battery},
		{"a mouse's battery", map[string]string{"hidpp_battery_0/type": "Battery", "hidpp_battery_0/status": "Discharging", "hidpp_battery_0/scope": "Device"}, Mains},
		{"a UPS without mains", map[string]string{"ups/type": "UPS", "ups/status": "Discharging"}, Battery},
		{"a supply that tells nothing", map[string]string{"odd/uevent": "x"}, Mains},
	} {
		sys := fstest.MapFS{}
		for path, text := range tt.files {
			sys[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, err := supplies(sys); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestProviding(t *testing.T) {
	for name, want := range map[string]Source{"AC Power": Mains, "Battery Power": Battery, "UPS Power": Battery, "": Mains} {
		if got := providing(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func TestThisMachine(t *testing.T) {
	if source := Now(); source != Mains && source != Battery {
		t.Errorf("source %q", source)
	}
}
