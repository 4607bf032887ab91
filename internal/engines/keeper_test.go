package engines_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/process"
	"github.com/ondol-app/ondol/internal/vector"
)

func TestMain(m *testing.M) {
	process.GuardMain()
	fakellama.Main()
	os.Exit(m.Run())
}

// patience is how long real processes get; it matters when something is broken.
const patience = time.Minute

// bench is a keeper at work, its live engine a program that does as it is told.
type bench struct {
	*engines.Keeper
	t      *testing.T
	live   *fakellama.Fake
	other  *fakellama.Fake // what candidates run
	places [2]engines.Place
	stop   func() error // ends the keeper; once

	mu       sync.Mutex
	saved    []engines.Setup // guarded by mu
	events   []event.Kind    // guarded by mu
	saveErr  error           // guarded by mu
	sampling func()          // guarded by mu; called when a trial chooses its texts: both engines are ready then
}

func newBench(t *testing.T, change func(*engines.Config)) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "eng") // short enough for a unix socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bench{t: t, live: fakellama.Install(t, fakellama.Faults{}), other: fakellama.Install(t, fakellama.Faults{}), places: [2]engines.Place{
		{RunDir: filepath.Join(dir, "1"), LogDir: filepath.Join(dir, "l1")}, {RunDir: filepath.Join(dir, "2"), LogDir: filepath.Join(dir, "l2")},
	}}
	config := engines.Config{
		Live: engines.Setup{Server: b.live.Path, Model: b.live.Model},
		Build: func(s engines.Setup, _ engines.Place) (llamaserver.Config, error) {
			return llamaserver.Config{Binary: s.Server, Model: s.Model,
				Profile: llamaserver.Profile{Name: "fake", Flags: append([]string{"--embeddings"}, s.Flags...)},
				Restart: llamaserver.RestartPolicy{First: 50 * time.Millisecond, Max: time.Second, Budget: 4, Window: time.Minute}}, nil
		},
		Places: b.places,
		Bench: engines.Bench{
			Passages: func(context.Context, int) ([]string, error) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if b.sampling != nil {
					b.sampling()
				}
				return []string{"a passage of the index", "and one more of it"}, nil
			},
			Turn:   func(context.Context) (func(), error) { return func() {}, nil },
			Slower: 1000, // the machine that runs tests may be busy
		},
		Save: func(s engines.Setup) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.saved = append(b.saved, s)
			return b.saveErr
		},
		File: filepath.Join(dir, "candidates.json"), Probation: 300 * time.Millisecond,
		Notify: func(e event.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, e.Kind)
		},
	}
	if change != nil {
		change(&config)
	}
	b.run(config)
	b.waitLive()
	return b
}

// run starts a keeper.
func (b *bench) run(config engines.Config) {
	b.t.Helper()
	keeper, err := engines.New(config)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Run(ctx) }()
	b.Keeper, b.stop = keeper, sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	b.t.Cleanup(func() {
		if err := b.stop(); err != nil {
			b.t.Errorf("Run: %v", err)
		}
	})
}

// await waits until the keeper's state is as wanted.
func (b *bench) await(what string, is func() bool) {
	b.t.Helper()
	changed, stop := b.Changed()
	defer stop()
	over := time.After(patience)
	for !is() {
		select {
		case <-changed:
		case <-over:
			b.t.Fatalf("%s: never; state %+v, candidate %+v, live %+v", what, b.State(), b.State().Candidate, b.Snapshot())
		}
	}
}

func (b *bench) waitLive() {
	b.t.Helper()
	b.await("a live engine", func() bool { return b.Snapshot().State == llamaserver.Ready })
}

func (b *bench) phase(want engines.Phase) engines.State {
	b.t.Helper()
	b.await("phase "+want.String(), func() bool { return b.State().Phase == want })
	return b.State()
}

// order is a candidate of the other program, as like the live one as the faults let it.
func (b *bench) order() engines.Order { return engines.Order{Server: b.other.Path, Quick: true} }

func (b *bench) try(order engines.Order) {
	b.t.Helper()
	if _, err := b.Try(b.t.Context(), order); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) kinds() []event.Kind {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

// traffic asks the live engine again and again until it is stopped; it returns
// how many answers there were, and every error.
func (b *bench) traffic() (stop func() (answers int64, errs []error)) {
	var n atomic.Int64
	var errs []error
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := b.ask(fmt.Sprintf("request %d", i)); err != nil {
				errs = append(errs, err)
			} else {
				n.Add(1)
			}
		}
	}()
	return func() (int64, []error) {
		close(done)
		<-ended
		return n.Load(), errs
	}
}

func (b *bench) ask(text string) error {
	instance, done, err := b.Borrow()
	if err != nil {
		return err
	}
	defer done()
	_, err = instance.Client.Embed(b.t.Context(), []string{text}, vector.Expect{Count: 1, Dim: instance.Dim, Normalized: true})
	return err
}

func finding(v *engines.Verdict, check engines.Check) engines.Finding {
	for _, f := range v.Findings {
		if f.Check == check {
			return f
		}
	}
	return engines.Finding{}
}

func TestPromoteProvesItself(t *testing.T) {
	b := newBench(t, nil)
	before := b.Snapshot()
	stop := b.traffic()
	b.try(b.order())
	state := b.phase(engines.Checked)
	if v := state.Candidate.Verdict; !v.Pass || !v.SameModel || state.Candidate.Outcome != engines.Passed || *finding(v, engines.CheckVectors).Value < 0.999 {
		t.Errorf("verdict %+v", v)
	}
	if _, err := b.Promote(t.Context(), engines.Promotion{}); err != nil {
		t.Fatal(err)
	}
	now := b.Snapshot()
	if now.PID == before.PID || now.Generation <= before.Generation || b.State().Phase != engines.Probation || b.State().Live.Server != b.other.Path {
		t.Errorf("after the switch: %+v, %+v", now, b.State())
	}
	b.phase(engines.Idle)
	answers, errs := stop()
	if len(errs) > 0 || answers == 0 {
		t.Errorf("%d answers, errors %v", answers, errs)
	}
	if process.Identify(before.PID).Alive() {
		t.Errorf("the old engine, process %d, is still there", before.PID)
	}
	state = b.State()
	if state.Candidate.Outcome != engines.Proved || state.Earlier == nil || state.Earlier.Setup.Server != b.live.Path || len(b.saved) != 1 || b.saved[0].Server != b.other.Path {
		t.Errorf("in the end %+v, saved %v", state, b.saved)
	}
	want := []event.Kind{engines.KindStarted, engines.KindChecked, engines.KindPromoted, engines.KindProved}
	if got := b.kinds(); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}

	// And back.
	if _, err := b.Rollback(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	b.await("the earlier engine", func() bool { return b.State().Phase == engines.Idle && b.State().Live.Server == b.live.Path })
	if len(b.saved) != 2 || b.saved[1].Server != b.live.Path || b.Snapshot().Generation <= now.Generation {
		t.Errorf("after the rollback: saved %v, live %+v", b.saved, b.Snapshot())
	}
}

// Every candidate that is not good is refused, and the live engine does not
// notice: the same process serves every request meanwhile.
func TestBadCandidates(t *testing.T) {
	for _, tt := range []struct {
		name         string
		start, trial fakellama.Faults // how it behaves when it is started, and once the trial begins
		slower       float64
		outcome      engines.Outcome
		check        engines.Check // that does not pass; empty: it does not come to that
		code         llamaserver.Code
		force        bool // helps
	}{
		{name: "exits at load", start: fakellama.Faults{ExitAtLoad: true}, outcome: engines.Failed, code: llamaserver.CodeLoadExit},
		{name: "null at the start", start: fakellama.Faults{Vectors: fakellama.Null}, outcome: engines.Failed, code: llamaserver.CodeProbe},
		{name: "refused flag", start: fakellama.Faults{RefuseFlag: "--embeddings"}, outcome: engines.Failed, code: llamaserver.CodeFlagsRejected},
		{name: "wrong dimension", start: fakellama.Faults{Vectors: fakellama.Short}, trial: fakellama.Faults{Vectors: fakellama.Short}, outcome: engines.Refused, check: engines.CheckDimension},
		{name: "NaN in the trial", outcome: engines.Refused, check: engines.CheckValid, trial: fakellama.Faults{Vectors: fakellama.NaN}},
		{name: "null in the trial", outcome: engines.Refused, check: engines.CheckValid, trial: fakellama.Faults{Vectors: fakellama.Null}},
		{name: "zero in the trial", outcome: engines.Refused, check: engines.CheckValid, trial: fakellama.Faults{Vectors: fakellama.Zero}},
		{name: "one vector too few", outcome: engines.Refused, check: engines.CheckValid, trial: fakellama.Faults{Vectors: fakellama.Count}},
		{name: "crash in the trial", outcome: engines.Failed, code: llamaserver.CodeCrash, trial: fakellama.Faults{Crash: true}},
		{name: "too slow", outcome: engines.Refused, check: engines.CheckSpeed, trial: fakellama.Faults{DelayMS: 150}, slower: 1.1, force: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, func(c *engines.Config) {
				if tt.slower > 0 {
					c.Bench.Slower = tt.slower
				}
			})
			b.other.Set(t, tt.start)
			b.sampling = func() { b.other.Set(t, tt.trial) }
			before, stop := b.Snapshot(), b.traffic()
			b.try(b.order())
			b.await("an outcome", func() bool {
				s := b.State()
				return s.Candidate.Outcome != engines.Pending && (s.Phase == engines.Idle || s.Phase == engines.Checked)
			})
			c := b.State().Candidate
			if c.Outcome != tt.outcome {
				t.Fatalf("outcome %s, want %s: %+v, %+v", c.Outcome, tt.outcome, c.Problem, c.Verdict)
			}
			if tt.code != "" && (c.Problem == nil || c.Problem.Code != tt.code) {
				t.Errorf("problem %+v, want %s", c.Problem, tt.code)
			}
			if tt.check != "" {
				if f := finding(c.Verdict, tt.check); f.Pass || f.Fatal == tt.force {
					t.Errorf("%+v", f)
				}
			}
			refusal := &engines.RefusedError{}
			for _, force := range []bool{false, true} {
				if force && tt.force {
					continue
				}
				if _, err := b.Promote(t.Context(), engines.Promotion{Force: force}); !errors.As(err, &refusal) {
					t.Errorf("promote, force %v: %v", force, err)
				}
			}
			if b.State().Phase == engines.Checked {
				if _, err := b.Drop(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if answers, errs := stop(); len(errs) > 0 || answers == 0 {
				t.Errorf("%d answers meanwhile, errors %v", answers, errs)
			}
			after := b.Snapshot()
			if after.PID != before.PID || after.Generation != before.Generation || after.Restarts != 0 || len(b.saved) != 0 {
				t.Errorf("the live engine was touched: %+v, saved %v", after, b.saved)
			}
			if c := c.Engine; c != nil && c.PID > 0 && process.Identify(c.PID).Alive() {
				t.Errorf("the candidate, process %d, is still there", c.PID)
			}
		})
	}
}

// One that breaks as soon as it is live gives way to the earlier engine, which
// was kept warm: it never ended.
func TestBreaksAfterPromotion(t *testing.T) {
	b := newBench(t, func(c *engines.Config) { c.Probation = patience })
	before := b.Snapshot()
	b.try(b.order())
	b.phase(engines.Checked)
	if _, err := b.Promote(t.Context(), engines.Promotion{}); err != nil {
		t.Fatal(err)
	}
	promoted := b.Snapshot()
	b.other.Set(t, fakellama.Faults{Crash: true})
	if err := b.ask("the one it dies of"); err == nil {
		t.Error("an engine that has ended answers")
	}
	b.phase(engines.Idle)
	after := b.Snapshot()
	// The same process under a new number: generations of the live engine rise.
	if after.PID != before.PID || after.Generation <= promoted.Generation || after.State != llamaserver.Ready {
		t.Errorf("live is %+v, was %+v", after, before)
	}
	if err := b.Replace(t.Context(), promoted.Generation, "it is gone"); err != nil || b.Snapshot().PID != before.PID {
		t.Errorf("replace of the one that is gone: %v, live %+v", err, b.Snapshot())
	}
	if err := b.ask("afterwards"); err != nil {
		t.Error(err)
	}
	c := b.State().Candidate
	if c.Outcome != engines.RolledBack || c.Problem == nil || c.Problem.Code != llamaserver.CodeCrash || len(b.saved) != 0 || b.State().Live.Server != b.live.Path {
		t.Errorf("%+v, %+v, saved %v", c, c.Problem, b.saved)
	}
	if got := b.kinds(); got[len(got)-1] != engines.KindRolledBack {
		t.Errorf("events %v", got)
	}
}

// Settings that cannot be written undo the promotion: the next start would
// run another engine than this one.
func TestUnsavedGivesWay(t *testing.T) {
	b := newBench(t, nil)
	b.saveErr = errors.New("disk full")
	before := b.Snapshot()
	b.try(b.order())
	b.phase(engines.Checked)
	if _, err := b.Promote(t.Context(), engines.Promotion{}); err != nil {
		t.Fatal(err)
	}
	b.phase(engines.Idle)
	if c := b.State().Candidate; c.Outcome != engines.RolledBack || !strings.Contains(c.Problem.Message, "disk full") || b.Snapshot().PID != before.PID {
		t.Errorf("%+v, %+v", c, c.Problem)
	}
}

// An engine that somebody has borrowed is not ended by its successor.
func TestBorrowedIsNotEnded(t *testing.T) {
	b := newBench(t, nil)
	before := b.Snapshot()
	instance, done, err := b.Borrow()
	if err != nil {
		t.Fatal(err)
	}
	b.try(b.order())
	b.phase(engines.Checked)
	if _, err := b.Promote(t.Context(), engines.Promotion{}); err != nil {
		t.Fatal(err)
	}
	b.phase(engines.Retiring)
	if _, err := instance.Client.Embed(t.Context(), []string{"late"}, vector.Expect{Count: 1, Dim: instance.Dim, Normalized: true}); err != nil {
		t.Errorf("the borrowed engine: %v", err)
	}
	if b.State().Phase != engines.Retiring || !process.Identify(before.PID).Alive() {
		t.Error("it was ended while it was borrowed")
	}
	done()
	b.phase(engines.Idle)
	if process.Identify(before.PID).Alive() {
		t.Error("it is still there")
	}
}

// In place, at no time do two engines run.
func TestInPlace(t *testing.T) {
	b := newBench(t, func(c *engines.Config) {
		c.Fits = func(_ engines.Setup, beside bool) error {
			if !beside {
				return nil
			}
			return &engines.RefusedError{Code: engines.CodeMemory, Message: "memory does not hold two"}
		}
	})
	refusal := &engines.RefusedError{}
	if _, err := b.Try(t.Context(), b.order()); !errors.As(err, &refusal) || refusal.Code != engines.CodeMemory {
		t.Fatalf("beside: %v", err)
	}
	before := b.Snapshot()
	b.other.Set(t, fakellama.Faults{DelayMS: 30}) // so that the trial is seen
	order := b.order()
	order.InPlace = true
	b.try(order)
	b.phase(engines.Checking)
	if process.Identify(before.PID).Alive() {
		t.Error("both run")
	}
	if err := b.Start(t.Context()); !errors.As(err, &refusal) || refusal.Code != engines.CodeHeld {
		t.Errorf("start of the held engine: %v", err)
	}
	b.phase(engines.Checked)
	b.waitLive()
	if v := b.State().Candidate.Verdict; !v.Pass || !v.InPlace || b.State().Live.Server != b.live.Path {
		t.Errorf("verdict %+v", v)
	}
	if _, err := b.Promote(t.Context(), engines.Promotion{}); err != nil {
		t.Fatal(err)
	}
	b.await("the promoted engine", func() bool { return b.State().Phase == engines.Idle && b.State().Candidate.Outcome == engines.Proved })
	b.waitLive()
	if b.State().Live.Server != b.other.Path || len(b.saved) != 1 {
		t.Errorf("%+v", b.State())
	}
}

// A keeper that ends takes everything with it, in the middle of a trial too;
// the verdict of an earlier trial outlives it.
func TestEndsInTheMiddle(t *testing.T) {
	var config engines.Config
	b := newBench(t, func(c *engines.Config) { config = *c })
	b.try(b.order())
	b.phase(engines.Checked)
	pids := []int{b.Snapshot().PID, b.State().Candidate.Engine.PID}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if pid == 0 || process.Identify(pid).Alive() {
			t.Errorf("process %d is still there", pid)
		}
	}
	if _, err := b.Try(t.Context(), b.order()); !errors.Is(err, engines.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	b.run(config)
	b.waitLive()
	state := b.State()
	if state.Phase != engines.Idle || state.Candidate == nil || state.Candidate.Verdict == nil || !state.Candidate.Verdict.Pass {
		t.Errorf("after another start: %+v", state)
	}
}
