package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/upstream"
)

const measured = "0.7.0 (build 11669, commit Debian)"

func groundOf(t *testing.T, machine models.Machine) *ground {
	t.Helper()
	dir := t.TempDir()
	return newGround(machine, locations.Paths{Data: dir}, filepath.Join(dir, "ondol"), func() string { return measured })
}

// asDelivered is the settings with values in them, each as the command line
// takes it; they need not hold together.
func asDelivered(t *testing.T, pairs map[string]string) *settings.Loaded {
	t.Helper()
	config := settings.Config{File: filepath.Join(t.TempDir(), "settings.toml"), Getenv: func(string) string { return "" }}
	if len(pairs) > 0 {
		if _, err := settings.Update(config, pairs, nil); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := settings.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// Every profile that is delivered must hold with the settings as delivered.
func TestProfilesHoldTheChain(t *testing.T) {
	g := groundOf(t, models.Machine{Total: 64 << 30, WorkingSet: 48 << 30})
	for _, name := range []string{"reference", "standard", "small", "starter"} {
		for _, model := range []string{"", enginetest.Qwen3Shaped(t), enginetest.StarterModel(t)} {
			s := asDelivered(t, map[string]string{"engine.profile": name, "engine.model": model})
			facts, err := g.facts(&s.Settings)
			if err != nil {
				t.Fatal(err)
			}
			if err := settings.Refusal(nil, settings.Chain(&s.Settings, facts)); err != nil {
				t.Errorf("%s with %s: %v", name, model, err)
			}
		}
	}
	if err := g.holds(&asDelivered(t, map[string]string{"engine.profile": "small", "admission.executing": "3"}).Settings); err == nil ||
		!strings.Contains(err.Error(), "admission.executing (3) must be ≤ -np (2)") {
		t.Errorf("three permits on two slots: %v", err)
	}
	small := asDelivered(t, map[string]string{"engine.flags": "-c 2048 -b 512 -ub 512", "engine.model": enginetest.StarterModel(t)})
	if err := g.holds(&small.Settings); err != nil {
		t.Errorf("a model that takes no whole passage keeps the app from starting: %v", err)
	}
	if _, err := settings.Judge(g.facts, asDelivered(t, nil), small, nil); err == nil || !strings.Contains(err.Error(), "index.chunk_max (600) must be ≤ input (512)") {
		t.Errorf("and may be chosen: %v", err)
	}
	for flags, want := range map[string]string{"-np none": "engine flag -np none", "-c": "engine flag -c", "-b 0": "engine flag -b 0"} {
		if err := g.holds(&asDelivered(t, map[string]string{"engine.flags": flags}).Settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

// The facts of a model come from its header: what it can split, what it was
// made for, what it takes, and what would fit instead.
func TestFactsOfTheGround(t *testing.T) {
	g := groundOf(t, models.Machine{Total: 6 << 30})
	s := asDelivered(t, map[string]string{"engine.model": enginetest.Qwen3Shaped(t), "engine.profile": "reference", "cache.memory": "100"})
	facts, err := g.facts(&s.Settings)
	if err != nil {
		t.Fatal(err)
	}
	e := facts.Engines[upstream.RoleEmbed]
	if e.Slots != 4 || e.Context != 131072 || e.Whole || e.Trained == 0 || e.Need == 0 || e.Smaller != "standard" || e.Input() != 32768 {
		t.Errorf("shaped: %+v", e)
	}
	if again, _ := g.facts(&s.Settings); again.Engines[upstream.RoleEmbed] != e {
		t.Error("the second look differs")
	}
	s = asDelivered(t, map[string]string{"engine.model": enginetest.StarterModel(t)})
	if facts, err = g.facts(&s.Settings); err != nil || !facts.Engines[upstream.RoleEmbed].Whole {
		t.Errorf("starter: %+v, %v", facts, err)
	}
	s = asDelivered(t, map[string]string{"roles.embed.kind": "openai", "roles.embed.url": "http://127.0.0.1:1", "roles.embed.model": "m"})
	if facts, err = g.facts(&s.Settings); err != nil || len(facts.Engines) != 0 {
		t.Errorf("remote: %+v, %v", facts, err)
	}
	missing := filepath.Join(t.TempDir(), "none.gguf")
	s = asDelivered(t, map[string]string{"engine.model": missing})
	if facts, err = g.facts(&s.Settings); err != nil || facts.Engines[upstream.RoleEmbed].Need != 0 || facts.Engines[upstream.RoleEmbed].Slots != 4 {
		t.Errorf("missing: %+v, %v", facts, err)
	}
}

// A change of settings that is accepted, whatever it is, can neither make the
// gate and the engine wait for each other nor let a client wait behind
// indexing, nor take more memory than the engines' supervisors allow.
func TestAcceptedSettingsNeitherDeadlockNorExceedMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ONDOL_TEST_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("ONDOL_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	// Reading settings is not what is tried here: one file serves for all.
	base := asDelivered(t, map[string]string{"engine.model": enginetest.Qwen3Shaped(t)})
	accepted, refused := 0, 0
	for range 800 {
		machine := models.Machine{Total: int64(1+random.IntN(16)) << 30}
		if random.IntN(2) == 0 {
			machine.WorkingSet = models.MetalWorkingSet(machine.Total)
		}
		g := groundOf(t, machine)
		after := *base
		draw(t, random, &after.Settings)
		if _, err := settings.Judge(g.facts, base, &after, nil); err != nil {
			refused++
			continue
		}
		// What was broken on this machine before the change excuses nothing here.
		if facts, _ := g.facts(&after.Settings); settings.Refusal(nil, settings.Chain(&after.Settings, facts)) != nil {
			continue
		}
		accepted++
		slots := engineSlots(t, &after.Settings)
		if err := works(t, gateLimits(&after.Settings), slots); err != nil {
			t.Fatalf("%v with slots %d, %+v, flags %v", err, slots, after.Admission, after.Engine.Flags)
		}
		if err := memoryHolds(t, machine, &after.Settings); err != nil {
			t.Fatalf("%v on %+v with %+v", err, machine, after.Engine)
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted < 50 || refused < 50 {
		t.Errorf("%d accepted and %d refused show little", accepted, refused)
	}
}

// Settings that the chain refuses do what it says they would: so the property
// above can fail.
func TestWhatTheChainRefusesDoesHarm(t *testing.T) {
	good := admission.Limits{Executing: 2, Waiting: 8, Wait: time.Minute, Background: 1}
	if err := works(t, good, 2); err != nil {
		t.Errorf("good settings: %v", err)
	}
	allBackground := good
	allBackground.Background = 2
	if err := works(t, allBackground, 2); err == nil || !strings.Contains(err.Error(), "behind indexing") {
		t.Errorf("indexing may hold every permit: %v", err)
	}
	if err := works(t, good, 1); err == nil || !strings.Contains(err.Error(), "inside the engine") {
		t.Errorf("two permits, one slot: %v", err)
	}
	s := asDelivered(t, map[string]string{"engine.model": enginetest.Qwen3Shaped(t), "engine.profile": "reference"})
	if err := memoryHolds(t, models.Machine{Total: 1 << 30}, &s.Settings); err == nil {
		t.Error("the reference profile fits 1 GiB")
	}
}

// draw turns some of the knobs that the chain links.
func draw(t *testing.T, random *rand.Rand, s *settings.Settings) {
	pick := func(values ...int) int { return values[random.IntN(len(values))] }
	turn := func(f func()) {
		if random.IntN(3) == 0 {
			f()
		}
	}
	turn(func() { s.Admission.Executing = pick(1, 2, 3, 4, 5, 8) })
	turn(func() { s.Admission.Background = pick(0, 1, 2, 3, 7) })
	turn(func() { s.Admission.Waiting = pick(0, 1, 5, 64) })
	turn(func() { s.Admission.Wait = time.Duration(pick(1, 10, 120)) * time.Second })
	turn(func() { s.Engine.Profile = []string{"", "reference", "standard", "small"}[random.IntN(4)] })
	turn(func() { s.Cache.Memory = pick(1, 64, 1024, 8192, 65536) })
	turn(func() { s.Index.ChunkMax = pick(600, 1024, 8192) })
	turn(func() { s.Engine.LongestInput = pick(0, 600, 4096, 16384, 40000) })
	turn(func() {
		for range 1 + random.IntN(3) {
			s.Engine.Flags = append(s.Engine.Flags, []string{"-np", "-c", "-b", "-ub"}[random.IntN(4)], strconv.Itoa(pick(1, 2, 4, 8, 512, 2048, 8192, 65536)))
		}
	})
	if random.IntN(4) == 0 {
		s.Roles.Chat.Kind, s.Roles.Chat.Model = settings.KindLocal, enginetest.Qwen3Shaped(t)
		s.Roles.Chat.Executing = pick(1, 2, 4)
	}
}

// engineSlots is what llama-server would be started with.
func engineSlots(t *testing.T, s *settings.Settings) int {
	t.Helper()
	profile, err := chooseProfile(s.Engine, s.Engine.Model)
	if err != nil {
		t.Fatal(err)
	}
	slots := 0
	for i, flag := range profile.Flags[:len(profile.Flags)-1] {
		if flag == "-np" {
			slots, _ = strconv.Atoi(profile.Flags[i+1])
		}
	}
	return slots
}

// memoryHolds asks the supervisors of all engines, each of which knows what
// the others take.
func memoryHolds(t *testing.T, machine models.Machine, s *settings.Settings) error {
	t.Helper()
	profile, err := chooseProfile(s.Engine, s.Engine.Model)
	if err != nil {
		t.Fatal(err)
	}
	engines := map[string][]string{s.Engine.Model: profile.Flags}
	total := int64(s.Cache.Memory) << 20
	if s.Roles.Chat.Kind == settings.KindLocal {
		chat, err := roleProfile(upstream.RoleChat, s.Roles.Chat)
		if err != nil {
			t.Fatal(err)
		}
		engines["chat"] = chat.Flags
	}
	for _, flags := range engines { // both run the same file
		memory, p := memoryCheck(machine, true, nil)(s.Engine.Model, flags, measured)
		if p != nil {
			return p
		}
		total += memory.Need
	}
	if total > machine.Total-min(machine.Total/4, 4<<30) {
		return fmt.Errorf("engines and cache take %d bytes of %d", total, machine.Total)
	}
	return nil
}

// works runs the real gate in front of an engine with so many slots, under
// more clients than fit and with indexing that wants all it can get, for a
// while of time that costs nothing.
func works(t *testing.T, limits admission.Limits, slots int) (failure error) {
	synctest.Test(t, func(t *testing.T) {
		gate, err := admission.NewGate(limits)
		if err != nil {
			failure = err
			return
		}
		w := &workload{gate: gate, slots: int64(slots)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() { gate.Run(ctx) })
		for range 2 * limits.Executing { // indexing comes first and never rests
			running.Go(func() { w.index(ctx) })
		}
		time.Sleep(time.Second / 2) // in the middle of their work
		failure = w.try(ctx, limits)
		cancel()
		running.Wait()
	})
	return failure
}

// workload is an engine behind the gate, and what it saw.
type workload struct {
	gate    *admission.Gate
	slots   int64
	busy    atomic.Int64
	crowded atomic.Bool // more requests than slots were in the engine at once
	indexed atomic.Int64

	mu     sync.Mutex
	served int
	failed []error
}

// compute is one request of a second in the engine.
func (w *workload) compute() {
	if w.busy.Add(1) > w.slots {
		w.crowded.Store(true)
	}
	time.Sleep(time.Second)
	w.busy.Add(-1)
}

func (w *workload) index(ctx context.Context) {
	for {
		permit, err := w.gate.Acquire(ctx, admission.LaneBackground)
		if err != nil {
			return
		}
		w.compute()
		w.indexed.Add(1)
		permit.Release(admission.Served)
	}
}

func (w *workload) client(ctx context.Context) {
	permit, err := w.gate.Acquire(ctx, admission.LaneClient)
	if err == nil {
		w.compute()
		permit.Release(admission.Served)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failed = append(w.failed, err)
		return
	}
	w.served++
}

func (w *workload) try(ctx context.Context, limits admission.Limits) error {
	// One client, while indexing is at work: it is served at once.
	came := time.Now()
	permit, err := w.gate.Acquire(ctx, admission.LaneClient)
	if err != nil || time.Since(came) > 0 {
		return fmt.Errorf("a client waits %v behind indexing (%v)", time.Since(came), err)
	}
	w.compute()
	permit.Release(admission.Served)
	// A crowd: everybody is served or refused, in the time that the limits promise.
	clients := limits.Executing + limits.Waiting + 3
	var crowd sync.WaitGroup
	for range clients {
		crowd.Go(func() { w.client(ctx) })
	}
	ended := make(chan struct{})
	go func() {
		crowd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limits.Wait + time.Duration(clients+10)*time.Second):
		return errors.New("clients got no answer")
	}
	for _, err := range w.failed {
		if _, ok := errors.AsType[*admission.RejectedError](err); !ok {
			return fmt.Errorf("a client failed: %w", err)
		}
	}
	if w.served == 0 || w.served+len(w.failed) != clients {
		return fmt.Errorf("%d clients: %d served, %d refused", clients, w.served, len(w.failed))
	}
	// A trial takes every permit, as somebody who looks after the engine may.
	var held []*admission.Permit
	for range limits.Executing {
		part, stop := context.WithTimeout(ctx, time.Minute)
		permit, err := w.gate.Acquire(part, admission.LaneUpkeep)
		stop()
		if err != nil {
			return fmt.Errorf("permits cannot all be had: %w", err)
		}
		held = append(held, permit)
	}
	for _, permit := range held {
		permit.Release(admission.Uncounted)
	}
	before := w.indexed.Load()
	time.Sleep(time.Minute)
	switch {
	case limits.Background > 0 && w.indexed.Load() == before:
		return errors.New("indexing stands still while nobody else wants anything")
	case w.crowded.Load():
		return errors.New("requests wait inside the engine, where nobody sees them")
	}
	return nil
}
