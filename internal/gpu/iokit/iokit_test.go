//go:build linux

package iokit_test

import (
	"context"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebitengine/purego"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/gpu/iokit"
)

// fake is the scripted library and what the test steers it with.
type fake struct {
	path         string
	client       func(at, pid int32, ns uint64)
	silent, odd  func(at, pid int32)
	gone         func(at int32)
	share        func(at int32, perMille uint64)
	device       func(percent, bytes int64)
	accelerators func(n int32)
	advance      func(ns uint64)
	objects      func() int64
	entries      func() int64
}

// build compiles the library anew: its state is that of one test.
// Each build calls itself, not the one an earlier test has opened (-Bsymbolic).
func build(t *testing.T) *fake {
	t.Helper()
	f := &fake{path: filepath.Join(t.TempDir(), "libfake.so")}
	out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-Wall", "-Werror", "-O1", "-Wl,-Bsymbolic", "-o", f.path, "testdata/fake.c").CombinedOutput()
	if err != nil {
		t.Fatalf("compile the fake frameworks: %v\n%s", err, out)
	}
	handle, err := purego.Dlopen(f.path, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	for name, function := range map[string]any{
		"FakeClient": &f.client, "FakeSilent": &f.silent, "FakeOdd": &f.odd, "FakeGone": &f.gone, "FakeShare": &f.share, "FakeDevice": &f.device,
		"FakeAccelerators": &f.accelerators, "FakeAdvance": &f.advance, "FakeObjects": &f.objects, "FakeEntries": &f.entries,
	} {
		purego.RegisterLibFunc(function, handle, name)
	}
	return f
}

func open(t *testing.T, f *fake) *iokit.Registry {
	t.Helper()
	r, err := iokit.Open(f.path, f.path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const ours, others, late = 4242, 391, 977

// clocked lets the fake's time pass with the bubble's before each reading.
type clocked struct {
	*iokit.Registry
	fake  *fake
	until time.Time
	reads int
}

func (c *clocked) Read() (gpu.Reading, error) {
	c.fake.advance(uint64(time.Since(c.until)))
	c.until = time.Now()
	c.reads++
	return c.Registry.Read()
}

// Scripted shares come out right to one per cent, through the sampler that the
// app runs; two thousand samples leave nothing behind.
func TestSharesAndNothingLeft(t *testing.T) {
	f := build(t)
	registry := open(t, f)
	f.client(0, ours, 5e9)
	f.client(1, ours, 0) // one process, two clients
	f.client(2, others, 9e15)
	f.silent(3, 100) // a user client without counters
	f.odd(4, 101)    // a property of another type
	f.client(5, 0, 7)
	f.device(104, 5_300_000_000)
	kept := f.objects()
	synctest.Test(t, func(t *testing.T) {
		reader := &clocked{Registry: registry, fake: f, until: time.Now()}
		s, err := gpu.New(gpu.Config{
			Open:      func() gpu.Source { return gpu.Source{Reader: reader} },
			Ours:      func() ([]int, bool) { return []int{ours}, true },
			Executing: func() bool { return true },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer s.Join()()
		for step, want := range []struct {
			ours, more, others uint64 // thousandths of the clients
		}{
			{0, 0, 0}, {700, 0, 150}, {300, 400, 50}, {1000, 0, 0}, {0, 0, 1000}, {995, 3, 2}, {1, 1, 1}, {500, 500, 500},
		} {
			f.share(0, want.ours)
			f.share(1, want.more)
			f.share(2, want.others)
			time.Sleep(250*time.Second + 10*time.Millisecond)
			now := s.Latest()
			if now.Ours == nil || now.Others == nil || now.Contention == nil || now.Utilization == nil || now.MemoryInUse == nil {
				t.Fatalf("step %d: %+v", step, now)
			}
			near(t, step, "ours", *now.Ours, float64(want.ours+want.more)/1000)
			near(t, step, "others", *now.Others, float64(want.others)/1000)
			near(t, step, "contention", *now.Contention, float64(want.others)/1000)
			near(t, step, "utilization", *now.Utilization, 1) // 104 % is clamped
			if *now.MemoryInUse != 5_300_000_000 {
				t.Errorf("step %d: %d bytes in use", step, *now.MemoryInUse)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if reader.reads < 2000 {
			t.Errorf("%d samples", reader.reads)
		}
	})
	if n := f.objects(); n != kept {
		t.Errorf("%d objects of CoreFoundation after it, %d before", n, kept)
	}
	if n := f.entries(); n != 0 {
		t.Errorf("%d objects of IOKit are left", n)
	}
}

func near(t *testing.T, step int, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.01 {
		t.Errorf("step %d: %s %.4f, want %.4f", step, what, got, want)
	}
}

// A counter begins anew with its client, and what a client had used before it
// was first seen is of no interval.
func TestClientsComeAndGo(t *testing.T) {
	f := build(t)
	r := open(t, f)
	read := func() gpu.Reading {
		t.Helper()
		reading, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		return reading
	}
	between := func(a, b gpu.Reading) gpu.Shares {
		t.Helper()
		s, ok := gpu.Between(a, b, time.Second, func(pid int) bool { return pid == ours })
		if !ok {
			t.Fatal("no shares")
		}
		return s
	}
	f.client(0, ours, 1e9)
	first := read()
	f.client(1, late, 50e9) // long-lived elsewhere, seen now
	f.share(0, 200)
	f.advance(1e9)
	second := read()
	if s := between(first, second); math.Abs(s.Ours-0.2) > 1e-9 || s.Others != 0 {
		t.Errorf("with a new client: %+v", s)
	}
	f.share(1, 600)
	f.advance(1e9)
	third := read()
	if s := between(second, third); math.Abs(s.Ours-0.2) > 1e-9 || math.Abs(s.Others-0.6) > 1e-9 {
		t.Errorf("a second later: %+v", s)
	}
	f.client(0, ours, 10) // the process started again
	f.gone(1)
	if s := between(third, read()); s != (gpu.Shares{}) {
		t.Errorf("after both have gone: %+v", s)
	}
}

func TestMachinesThatTellLess(t *testing.T) {
	f := build(t)
	r := open(t, f)
	f.device(12, 34)
	f.silent(0, 100)
	if reading, err := r.Read(); err != nil || reading.Clients != nil || reading.Utilization == nil || *reading.Utilization != 0.12 {
		t.Errorf("without counters of processes: %+v, %v", reading, err)
	}
	f.accelerators(0)
	if _, err := r.Read(); err != gpu.ErrNone {
		t.Errorf("without an accelerator: %v", err)
	}
	if _, err := iokit.Open(filepath.Join(t.TempDir(), "none"), f.path); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a framework that is not there: %v", err)
	}
	if _, err := iokit.Open("libc.so.6", f.path); err == nil || !strings.Contains(err.Error(), "find CF") {
		t.Errorf("a framework without its functions: %v", err)
	}
}
