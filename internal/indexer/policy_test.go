package indexer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// However fast or slow the engine is, batches come to hold it for about the
// time allowed, and one measurement that waited for clients does not undo that.
func TestPacer(t *testing.T) {
	for _, speed := range []float64{300, 1000, 5000, 20_000} { // tokens a second
		p := pacer{hold: time.Second}
		if p.budget() != paceStart {
			t.Errorf("first batch of %d tokens, want %d", p.budget(), paceStart)
		}
		took := func(tokens int) time.Duration { return time.Duration(float64(tokens) / speed * float64(time.Second)) }
		for range 20 {
			p.observe(p.budget(), took(p.budget()))
		}
		if hold := took(p.budget()); hold > time.Second && p.budget() > paceMin {
			t.Errorf("at %.0f tokens a second a batch of %d holds %v", speed, p.budget(), hold)
		}
		steady := p.budget()
		p.observe(steady, 100*time.Second)
		if got := p.budget(); float64(got) < float64(steady)*paceLosing-1 {
			t.Errorf("one slow measurement took the batch from %d to %d", steady, got)
		}
		for range 3 {
			p.observe(p.budget(), took(p.budget()))
		}
		if got := p.budget(); got != steady {
			t.Errorf("batch of %d tokens after recovery, was %d", got, steady)
		}
	}
	p := pacer{hold: time.Second}
	for range 100 {
		p.observe(p.budget(), time.Microsecond)
	}
	if p.budget() != paceMax {
		t.Errorf("budget %d, want at most %d", p.budget(), paceMax)
	}
	p.observe(0, time.Second)
	p.observe(10, 0)
}

func TestEngineGateBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newEngineGate()
		for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
			start := time.Now()
			if err := g.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != want {
				t.Errorf("waited %v, want %v", got, want)
			}
		}
		if !g.waiting() {
			t.Error("not waiting")
		}

		start := time.Now()
		ended := make(chan error)
		for range 3 {
			go func() { ended <- g.wait(t.Context()) }()
		}
		synctest.Wait()
		g.changed()
		for range 3 {
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("news of the engine came %v late", got)
		}
		if g.waiting() {
			t.Error("still waiting after the news")
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.wait(ctx); err != context.Canceled {
			t.Errorf("wait with a done context: %v", err)
		}
		g.served()
		if g.waiting() {
			t.Error("still waiting after an answer")
		}
	})
}

func TestRetryDelay(t *testing.T) {
	for tries, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		if got := retryDelay(tries); got != want {
			t.Errorf("after %d failures: %v, want %v", tries, got, want)
		}
	}
	if got := retryDelay(1000); got != time.Hour {
		t.Errorf("after 1000 failures: %v", got)
	}
}

func TestSpeeds(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	s := newSpeeds()
	if _, ok := s.left("a", 100, now); ok {
		t.Error("a time is foretold before anything was measured")
	}
	s.observe("a", 64, now)
	if _, ok := s.left("a", 100, now); ok {
		t.Error("a time is foretold by one moment")
	}
	for range 30 { // 16 a second
		now = now.Add(4 * time.Second)
		s.observe("a", 64, now)
	}
	if left, ok := s.left("a", 1600, now); !ok || left.Round(time.Second) != 100*time.Second {
		t.Errorf("%v left, %v; want 100 s", left, ok)
	}
	for range 30 { // the machine is busy: 4 a second
		now = now.Add(16 * time.Second)
		s.observe("a", 64, now)
	}
	if left, ok := s.left("a", 400, now); !ok || left.Round(10*time.Second) != 100*time.Second {
		t.Errorf("%v left, %v; want about 100 s", left, ok)
	}
	if _, ok := s.left("a", 0, now); ok {
		t.Error("a time is foretold for nothing")
	}
	if _, ok := s.left("b", 100, now); ok {
		t.Error("one kind's speed is taken for another's")
	}
	if _, ok := s.left("a", 100, now.Add(3*time.Minute)); ok {
		t.Error("a time is foretold though nothing goes on")
	}
}
