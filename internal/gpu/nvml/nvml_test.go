//go:build linux

package nvml_test

import (
	"errors"
	"math"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebitengine/purego"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/gpu/nvml"
)

func TestReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libfake.so")
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", path, "testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("compile the fake library: %v\n%s", err, out)
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	var share func(at, percent uint32)
	var advance func(us uint64)
	var refuse func(yes int32)
	var gpus func(n uint32)
	for name, f := range map[string]any{"FakeShare": &share, "FakeAdvance": &advance, "FakeRefuse": &refuse, "FakeGPUs": &gpus} {
		purego.RegisterLibFunc(f, handle, name)
	}
	r, err := nvml.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		read := func() gpu.Reading {
			t.Helper()
			reading, err := r.Read()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			advance(1_000_000)
			return reading
		}
		share(0, 60)
		share(1, 20)
		first := read()
		if *first.Utilization != 0.75 || *first.MemoryInUse != 900 || *first.WorkingSet != 2000 {
			t.Errorf("%+v", first)
		}
		second := read()
		share(0, 10)
		share(1, 0)
		third := read()
		for i, want := range []gpu.Shares{{Ours: 0.6, Others: 0.2}, {Ours: 0.1}} {
			before, now := []gpu.Reading{first, second}[i], []gpu.Reading{second, third}[i]
			s, ok := gpu.Between(before, now, time.Second, func(pid int) bool { return pid == 100 })
			if !ok || math.Abs(s.Ours-want.Ours) > 1e-9 || math.Abs(s.Others-want.Others) > 1e-9 {
				t.Errorf("step %d: %+v %v, want %+v", i, s, ok, want)
			}
		}
		refuse(1)
		if reading := read(); reading.Clients != nil || reading.Utilization == nil {
			t.Errorf("a driver that does not tell of processes: %+v", reading)
		}
	})
	gpus(0)
	if _, err := nvml.Open(path); !errors.Is(err, gpu.ErrNone) {
		t.Errorf("without a GPU: %v", err)
	}
	if _, err := nvml.Open(filepath.Join(t.TempDir(), "none.so")); !errors.Is(err, gpu.ErrNone) {
		t.Errorf("without the library: %v", err)
	}
	if _, err := nvml.Open("libc.so.6"); err == nil || errors.Is(err, gpu.ErrNone) {
		t.Errorf("another library: %v", err)
	}
}
