package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/admission"
)

// moment is a time of the tests' own clock.
func moment(d time.Duration) time.Time {
	return time.Date(2026, 4, 10, 9, 0, 0, 0, time.UTC).Add(d)
}

func TestAnOverloadIsOneEpisode(t *testing.T) {
	p := admission.NewPolicy(admission.Limits{Executing: 1, Waiting: 1, Wait: 20 * time.Second})
	p.Arrive(moment(0), 1, admission.LaneClient)
	p.Arrive(moment(time.Second), 2, admission.LaneClient)
	if news := p.Episodes(); len(news) > 0 {
		t.Fatalf("nobody was refused, and yet: %+v", news)
	}
	for i := range 10_000 { // the queue is full
		p.Arrive(moment(2*time.Second+time.Duration(i)*time.Millisecond), admission.Ticket(10+i), admission.LaneClient)
	}
	full, timeout := admission.QueueFull, admission.QueueTimeout
	began := admission.Episode{Began: moment(2 * time.Second), Last: moment(2 * time.Second), Refused: map[admission.Outcome]uint64{full: 1}, LongestWait: time.Second}
	if diff := cmp.Diff([]admission.Episode{began}, p.Episodes()); diff != "" {
		t.Errorf("beginning (-want +got):\n%s", diff)
	}
	p.Advance(moment(21 * time.Second)) // the one that waited is refused too
	if wake, ok := p.Wake(); !ok || !wake.Equal(moment(21*time.Second+admission.EpisodeQuiet)) {
		t.Errorf("wakes at %v, %v", wake, ok)
	}
	p.Advance(moment(21*time.Second + admission.EpisodeQuiet - 1))
	if news := p.Episodes(); len(news) > 0 {
		t.Errorf("over before it was quiet for long enough: %+v", news)
	}
	p.Advance(moment(21*time.Second + admission.EpisodeQuiet))
	ended := admission.Episode{Began: moment(2 * time.Second), Last: moment(21 * time.Second),
		Refused: map[admission.Outcome]uint64{full: 10_000, timeout: 1}, LongestWait: 20 * time.Second, Over: true}
	if diff := cmp.Diff([]admission.Episode{ended}, p.Episodes()); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	if wake, ok := p.Wake(); ok {
		t.Errorf("wakes at %v although nothing is to come", wake)
	}
	p.Arrive(moment(time.Hour), 20_000, admission.LaneClient)
	p.Arrive(moment(time.Hour), 20_001, admission.LaneClient)
	if news := p.Episodes(); len(news) != 1 || !news[0].Began.Equal(moment(time.Hour)) || news[0].Over {
		t.Errorf("the next overload: %+v", news)
	}
}

func TestEpisodesAsEvents(t *testing.T) {
	e := admission.Episode{Began: moment(0), Last: moment(1500 * time.Millisecond), Refused: map[admission.Outcome]uint64{admission.QueueFull: 7}, LongestWait: 3 * time.Second}
	began := e.Event("embed")
	if began.Kind != admission.KindOverloadBegan || !began.At.Equal(moment(0)) {
		t.Errorf("beginning: %+v", began)
	}
	if diff := cmp.Diff(map[string]string{"role": "embed", "reason": "queue_full"}, began.Args); diff != "" {
		t.Errorf("beginning (-want +got):\n%s", diff)
	}
	e.Over = true
	ended := e.Event("chat")
	want := map[string]string{"role": "chat", "seconds": "1.5", "queue_full": "7", "queue_timeout": "0", "longest_wait_ms": "3000"}
	if diff := cmp.Diff(want, ended.Args); diff != "" || ended.Kind != admission.KindOverloadEnded {
		t.Errorf("%s (-want +got):\n%s", ended.Kind, diff)
	}
}

// The gate tells of an overload when it begins, and of its end although nobody
// comes any more, or because the gate ends.
func TestTheGateTellsOfOverloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := admission.NewGate(admission.Limits{Executing: 1, Waiting: 0, Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan admission.Episode, 1)
		g.Watch(func(e admission.Episode) { told <- e })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		permit, err := g.Acquire(ctx, admission.LaneClient)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-g.Busy():
		default:
			t.Error("nobody was told that the gate is busy")
		}
		refuse := func(n int) {
			for range n {
				var refused *admission.RejectedError
				if _, err := g.Acquire(ctx, admission.LaneClient); !errors.As(err, &refused) {
					t.Fatalf("a request too many: %v", err)
				}
			}
		}
		refuse(100)
		if e := <-told; e.Over {
			t.Errorf("an overload begins with %+v", e)
		}
		// The bubble's clock goes on while all wait.
		if e := <-told; !e.Over || e.Refused[admission.QueueFull] != 100 {
			t.Errorf("it ends with %+v", e)
		}
		refuse(3)
		permit.Release(admission.Served)
		<-told
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if e := <-told; !e.Over || e.Refused[admission.QueueFull] != 3 {
			t.Errorf("at the gate's end it ends with %+v", e)
		}
	})
}
