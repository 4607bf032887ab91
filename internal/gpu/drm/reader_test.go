package drm_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/gpu/drm"
)

// machine is a root with processes and cards.
type machine struct {
	t    *testing.T
	root string
}

func newMachine(t *testing.T, drivers ...string) *machine {
	t.Helper()
	m := &machine{t, t.TempDir()}
	m.write("proc/meminfo", "")
	for i, driver := range drivers {
		card := fmt.Sprintf("sys/class/drm/renderD%d/device", 128+i)
		m.write(card+"/vendor", "")
		m.link(card+"/driver", "../../../bus/pci/drivers/"+driver)
	}
	return m
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(path, target string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	_ = os.Remove(path) // there may be none
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err = errors.Join(err, os.Symlink(target, path)); err != nil {
		m.t.Fatal(err)
	}
}

// opens gives a process a descriptor.
func (m *machine) opens(pid, fd int, target, fdinfo string) {
	m.t.Helper()
	m.link(fmt.Sprintf("proc/%d/fd/%d", pid, fd), target)
	m.write(fmt.Sprintf("proc/%d/fdinfo/%d", pid, fd), fdinfo)
}

func (m *machine) read(r *drm.Reader) gpu.Reading {
	m.t.Helper()
	reading, err := r.Read()
	if err != nil {
		m.t.Fatal(err)
	}
	return reading
}

func amdgpu(client int, ns uint64) string {
	return "drm-driver:\tamdgpu\ndrm-pdev:\t0000:0c:00.0\ndrm-client-id:\t" + strconv.Itoa(client) + "\ndrm-engine-compute:\t" + strconv.FormatUint(ns, 10) + " ns\n"
}

const ours, others = 4242, 300

func shares(t *testing.T, a, b gpu.Reading) gpu.Shares {
	t.Helper()
	s, ok := gpu.Between(a, b, time.Second, func(pid int) bool { return pid == ours })
	if !ok {
		t.Fatalf("no shares between %+v and %+v", a, b)
	}
	return s
}

func TestSharesOfProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock stands still: the first walk is the only one
		m := newMachine(t, "amdgpu")
		card := "sys/class/drm/renderD128/device/"
		m.write(card+"gpu_busy_percent", "87\n")
		m.write(card+"mem_info_vram_used", "5000\n")
		m.write(card+"mem_info_vram_total", "8000\n")
		m.opens(ours, 9, "/dev/dri/renderD128", amdgpu(1, 0))
		m.opens(others, 4, "/dev/dri/card0", amdgpu(2, 1e9))
		m.opens(others, 5, "/dev/dri/renderD128", amdgpu(2, 1e9)) // the same client again
		m.opens(others, 6, "socket:[1]", "pos: 0\n")
		r, err := drm.New(m.root)
		if err != nil {
			t.Fatal(err)
		}
		first := m.read(r)
		if *first.Utilization != 0.87 || *first.MemoryInUse != 5000 || *first.WorkingSet != 8000 || len(first.Clients) != 2 {
			t.Errorf("%+v", first)
		}
		m.opens(ours, 9, "/dev/dri/renderD128", amdgpu(1, 6e8))
		m.opens(others, 4, "/dev/dri/card0", amdgpu(2, 13e8))
		m.opens(others, 5, "/dev/dri/renderD128", amdgpu(2, 13e8))
		if s := shares(t, first, m.read(r)); math.Abs(s.Ours-0.6) > 1e-9 || math.Abs(s.Others-0.3) > 1e-9 {
			t.Errorf("%+v", s)
		}
		m.opens(others+1, 3, "/dev/dri/renderD128", amdgpu(3, 7)) // found by the next walk
		if n := len(m.read(r).Clients); n != 2 {
			t.Errorf("%d clients before another walk", n)
		}
		time.Sleep(5 * time.Second)
		if n := len(m.read(r).Clients); n != 3 {
			t.Errorf("%d clients after it", n)
		}
	})
}

func TestCyclesAreSharesOfCycles(t *testing.T) {
	m := newMachine(t, "xe")
	cycles := func(busy, total int) string {
		return fmt.Sprintf("drm-driver: xe\ndrm-client-id: 7\ndrm-pdev: p\ndrm-cycles-ccs: %d\ndrm-total-cycles-ccs: %d\ndrm-engine-capacity-ccs: 2\n", busy, total)
	}
	m.opens(ours, 1, "/dev/dri/renderD128", cycles(1000, 50_000))
	r, err := drm.New(m.root)
	if err != nil {
		t.Fatal(err)
	}
	first := m.read(r)
	m.opens(ours, 1, "/dev/dri/renderD128", cycles(9000, 60_000))
	if s := shares(t, first, m.read(r)); math.Abs(s.Ours-0.4) > 1e-9 {
		t.Errorf("%+v, want 0.4 of two engines", s)
	}
}

// What tells no times is not idle; what nobody uses is.
func TestSilence(t *testing.T) {
	nouveau, err := os.ReadFile("testdata/nouveau.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		driver, fdinfo string
		told           bool
	}{
		"nobody on nouveau":  {"nouveau", "", false},
		"nouveau":            {"nouveau", string(nouveau), false},
		"nobody on i915":     {"i915", "", true},
		"i915 of old kernel": {"i915", "drm-driver: i915\ndrm-client-id: 1\n", false},
	} {
		m := newMachine(t, test.driver)
		if test.fdinfo != "" {
			m.opens(others, 3, "/dev/dri/renderD128", test.fdinfo)
		}
		r, err := drm.New(m.root)
		if err != nil {
			t.Fatal(err)
		}
		if reading := m.read(r); (reading.Clients != nil) != test.told || reading.Utilization != nil {
			t.Errorf("%s: %+v", name, reading)
		}
	}
	if _, err := drm.New(newMachine(t).root); !errors.Is(err, gpu.ErrNone) {
		t.Errorf("without a card: %v", err)
	}
}
