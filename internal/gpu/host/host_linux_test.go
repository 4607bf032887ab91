package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/gpu"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestConditions(t *testing.T) {
	const calm, short, stuck = "some avg10=9.99 avg60=80.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=0\n",
		"some avg10=40.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=10.00 avg60=0.00 avg300=0.00 total=0\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  gpu.Conditions
	}{
		"nothing":         {nil, gpu.Conditions{}},
		"calm":            {map[string]string{"proc/pressure/memory": calm}, gpu.Conditions{MemoryPressure: gpu.PressureNormal}},
		"short of memory": {map[string]string{"proc/pressure/memory": short}, gpu.Conditions{MemoryPressure: gpu.PressureWarning}},
		"stuck":           {map[string]string{"proc/pressure/memory": stuck}, gpu.Conditions{MemoryPressure: gpu.PressureCritical}},
		"another form":    {map[string]string{"proc/pressure/memory": "none\n"}, gpu.Conditions{}},
	} {
		if diff := cmp.Diff(test.want, conditions(tree(t, test.files))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFind(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.so")
	if s := find(t.TempDir(), none); s.Reader != nil || s.Missing != gpu.ReasonNoGPU || s.Err != nil || s.Conditions == nil {
		t.Errorf("a machine without a GPU: %+v", s)
	}
	if s := find(t.TempDir(), "libc.so.6"); s.Reader != nil || s.Missing != gpu.ReasonUnreadable || s.Err == nil {
		t.Errorf("a library that is not NVIDIA's: %+v", s)
	}
	root := tree(t, map[string]string{"sys/class/drm/renderD128/device/gpu_busy_percent": "40", "proc/meminfo": ""})
	s := find(root, none)
	if s.Reader == nil {
		t.Fatalf("a machine with one: %+v", s)
	}
	if reading, err := s.Reader.Read(); err != nil || reading.Utilization == nil || *reading.Utilization != 0.4 {
		t.Errorf("%+v, %v", reading, err)
	}
}

// given is a reader of one reading.
type given struct {
	reading gpu.Reading
	err     error
}

func (g given) Read() (gpu.Reading, error) { return g.reading, g.err }

func TestJoined(t *testing.T) {
	low, high, some, more, both := 0.2, 0.9, int64(3), int64(4), int64(7)
	amd := given{reading: gpu.Reading{Utilization: &low, MemoryInUse: &some, Clients: map[gpu.Client]gpu.Use{{Device: "a", ID: 1}: {PID: 1}}}}
	nvidia := given{reading: gpu.Reading{Utilization: &high, MemoryInUse: &more, WorkingSet: &more, Clients: map[gpu.Client]gpu.Use{{Device: "b", ID: 1}: {PID: 2}}}}
	gone, broken := given{err: gpu.ErrNone}, given{err: errors.New("broken")}
	got, err := joined{amd, gone, nvidia}.Read()
	want := gpu.Reading{Utilization: &high, MemoryInUse: &both, WorkingSet: &more,
		Clients: map[gpu.Client]gpu.Use{{Device: "a", ID: 1}: {PID: 1}, {Device: "b", ID: 1}: {PID: 2}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := (joined{gone}).Read(); !errors.Is(err, gpu.ErrNone) {
		t.Errorf("when all are gone: %v", err)
	}
	if _, err := (joined{nvidia, broken}).Read(); err == nil {
		t.Error("the error of one is lost")
	}
}
