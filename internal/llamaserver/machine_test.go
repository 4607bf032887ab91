package llamaserver

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/trust"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// drive sends events to a machine at given moments after began.
type drive struct {
	t   *testing.T
	m   *machine
	now time.Time
}

func newDrive(t *testing.T) *drive {
	return &drive{t: t, m: newMachine(DefaultRestartPolicy(), nil, began), now: began}
}

// do sends an event and checks what the machine wants done and where it stands then.
func (d *drive) do(e event, want effect, state State, cause Cause) {
	d.t.Helper()
	if got := d.m.step(e, d.now); got != want {
		d.t.Fatalf("effect of event %d = %d, want %d", e.kind, got, want)
	}
	if d.m.state != state || d.m.cause != cause {
		d.t.Fatalf("after event %d: %s (%s), want %s (%s)", e.kind, d.m.state, d.m.cause, state, cause)
	}
}

func (d *drive) sleep(by time.Duration) { d.now = d.now.Add(by) }

func (d *drive) toReady() {
	d.t.Helper()
	d.do(event{kind: eventLoading}, doNothing, Loading, CauseProgress)
	d.do(event{kind: eventChecking}, doNothing, Checking, CauseProgress)
	d.do(event{kind: eventReady}, doNothing, Ready, CauseProgress)
}

func crash() event { return event{kind: eventEnded, problem: problem(CodeCrash, "ended")} }

func TestStartStop(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventStop}, doNothing, Stopped, CauseRequested)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.do(event{kind: eventStart}, doNothing, Starting, CauseRequested)
	d.toReady()
	d.do(event{kind: eventStop}, doEnd, Draining, CauseRequested)
	d.do(event{kind: eventStop}, doNothing, Draining, CauseRequested)
	d.do(event{kind: eventReady}, doNothing, Draining, CauseRequested) // overtaken
	d.do(event{kind: eventEnded}, doNothing, Stopped, CauseRequested)
	if d.m.generation != 1 || d.m.count != 0 || d.m.lastError != nil {
		t.Errorf("generation %d, restarts %d, last error %v", d.m.generation, d.m.count, d.m.lastError)
	}
}

func TestStopDuringEveryStep(t *testing.T) {
	for steps := range 4 {
		d := newDrive(t)
		d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
		for _, kind := range []eventKind{eventLoading, eventChecking, eventReady}[:steps] {
			d.m.step(event{kind: kind}, d.now)
		}
		d.do(event{kind: eventStop}, doEnd, Draining, CauseRequested)
		d.do(event{kind: eventEnded}, doNothing, Stopped, CauseRequested)
	}
}

func TestStartWhileDraining(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.do(event{kind: eventStop}, doEnd, Draining, CauseRequested)
	d.do(event{kind: eventStart}, doNothing, Draining, CauseRequested) // never two at once
	d.do(event{kind: eventEnded}, doLaunch, Starting, CauseRequested)
}

func TestRestart(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventRestart}, doLaunch, Starting, CauseRequested)
	d.toReady()
	d.do(event{kind: eventRestart}, doEnd, Draining, CauseRequested)
	d.do(event{kind: eventEnded}, doLaunch, Starting, CauseRequested)
	if d.m.generation != 2 || d.m.count != 0 {
		t.Errorf("generation %d, automatic restarts %d, want 2 and 0", d.m.generation, d.m.count)
	}
}

func TestCrashesSpendTheBudget(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	for _, backoff := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
		d.toReady()
		d.sleep(time.Second)
		d.do(crash(), doNothing, Failed, CauseProblem)
		if got := d.m.retryAt.Sub(d.now); got != backoff {
			t.Fatalf("back-off = %v, want %v", got, backoff)
		}
		d.do(event{kind: eventRetry}, doNothing, Failed, CauseProblem) // too soon
		d.sleep(backoff)
		d.do(event{kind: eventRetry}, doLaunch, Starting, CauseRetry)
	}
	d.do(crash(), doNothing, Failed, CauseBudget)
	if !d.m.retryAt.IsZero() || d.m.count != 4 || d.m.lastError.Code != CodeCrash {
		t.Errorf("retry at %v, restarts %d, last error %v", d.m.retryAt, d.m.count, d.m.lastError)
	}
	d.do(event{kind: eventRetry}, doNothing, Failed, CauseBudget)

	// A person's start begins anew.
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.do(crash(), doNothing, Failed, CauseProblem)
	if got := d.m.retryAt.Sub(d.now); got != 500*time.Millisecond {
		t.Errorf("back-off after a person's start = %v, want 500ms", got)
	}
}

func TestPermanentProblemIsNotRetried(t *testing.T) {
	for code := range permanent {
		d := newDrive(t)
		d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
		d.do(event{kind: eventEnded, problem: problem(code, "wrong")}, doNothing, Failed, CauseProblem)
		if !d.m.retryAt.IsZero() {
			t.Errorf("%s is tried again", code)
		}
	}
}

func TestStopDuringBackoff(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.do(crash(), doNothing, Failed, CauseProblem)
	d.do(event{kind: eventStop}, doNothing, Stopped, CauseRequested)
	d.sleep(time.Hour)
	d.do(event{kind: eventRetry}, doNothing, Stopped, CauseRequested)
}

func TestReplace(t *testing.T) {
	d := newDrive(t)
	p := problem(CodeReplaced, "poisoned")
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.toReady()
	d.do(event{kind: eventReplace, generation: 0, problem: p}, doNothing, Ready, CauseProgress)
	d.do(event{kind: eventReplace, generation: 1, problem: p}, doKill, Draining, CauseReplaced)
	d.do(event{kind: eventReplace, generation: 1, problem: p}, doNothing, Draining, CauseReplaced)
	d.do(event{kind: eventEnded}, doNothing, Failed, CauseProblem)
	d.sleep(500 * time.Millisecond)
	d.do(event{kind: eventRetry}, doLaunch, Starting, CauseRetry)
	d.toReady()
	d.do(event{kind: eventReplace, generation: 1, problem: p}, doNothing, Ready, CauseProgress) // gone long ago
	if d.m.generation != 2 || d.m.count != 1 || d.m.lastError != p {
		t.Errorf("generation %d, restarts %d, last error %v", d.m.generation, d.m.count, d.m.lastError)
	}
}

func TestStopWinsOverReplace(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.toReady()
	d.do(event{kind: eventReplace, generation: 1, problem: problem(CodeReplaced, "")}, doKill, Draining, CauseReplaced)
	d.do(event{kind: eventStop}, doNothing, Draining, CauseReplaced)
	d.do(event{kind: eventEnded}, doNothing, Stopped, CauseRequested)
}

func TestHealth(t *testing.T) {
	sick := event{kind: eventUnhealthy, problem: problem(CodeUnresponsive, "no answer")}
	d := newDrive(t)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.do(sick, doNothing, Starting, CauseRequested)
	d.toReady()
	d.do(sick, doNothing, Degraded, CauseProblem)
	d.do(sick, doNothing, Degraded, CauseProblem)
	d.do(event{kind: eventHealthy}, doNothing, Ready, CauseProgress)
	d.do(sick, doNothing, Degraded, CauseProblem)
	d.do(sick, doNothing, Degraded, CauseProblem)
	d.do(sick, doKill, Draining, CauseProblem) // the third in a row
	d.do(event{kind: eventEnded}, doNothing, Failed, CauseProblem)
	if d.m.retryAt.IsZero() || d.m.lastError.Code != CodeUnresponsive {
		t.Errorf("retry at %v, last error %v", d.m.retryAt, d.m.lastError)
	}
}

func TestShutdownIsFinal(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.do(event{kind: eventShutdown}, doEnd, Draining, CauseShutdown)
	d.do(event{kind: eventStart}, doNothing, Draining, CauseShutdown)
	d.do(event{kind: eventRestart}, doNothing, Draining, CauseShutdown)
	d.do(event{kind: eventEnded}, doNothing, Stopped, CauseShutdown)
	d.do(event{kind: eventStart}, doNothing, Stopped, CauseShutdown)
}

func TestStuckIsNeverCalledStopped(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.toReady()
	d.do(event{kind: eventStop}, doEnd, Draining, CauseRequested)
	d.do(event{kind: eventEnded, problem: problem(CodeStuck, "no exit")}, doNothing, Failed, CauseProblem)
}

func TestBackoff(t *testing.T) {
	r := restarts{policy: RestartPolicy{First: time.Second, Max: 5 * time.Second, Budget: 3, Window: time.Minute}}
	type step struct {
		at, ready time.Duration
		backoff   time.Duration
		ok        bool
	}
	for _, s := range []step{
		{0, 0, time.Second, true},
		{10 * time.Second, 0, 2 * time.Second, true},
		{20 * time.Second, 0, 4 * time.Second, true},
		{30 * time.Second, 0, 0, false},
		{60 * time.Second, 0, 5 * time.Second, true},                // the first has left the window; the back-off stays
		{5 * time.Minute, 59 * time.Second, 5 * time.Second, true},  // not ready for long enough
		{10 * time.Minute, 60 * time.Second, 1 * time.Second, true}, // ready for a whole window
	} {
		backoff, ok := r.failed(began.Add(s.at), s.ready)
		if diff := cmp.Diff([]any{s.backoff, s.ok}, []any{backoff, ok}); diff != "" {
			t.Errorf("failure at %v (-want +got):\n%s", s.at, diff)
		}
	}
}

// How a start ended is known as soon as its end is decided, and stays known.
func TestEnds(t *testing.T) {
	d := newDrive(t)
	for i, tt := range []struct {
		end  event // nil problem: asked
		want trust.End
	}{
		{crash(), trust.EndCrash},
		{event{kind: eventReplace, problem: problem(CodeHang, "")}, trust.EndHang},
		{event{kind: eventReplace, problem: problem(CodePoisoned, "")}, trust.EndReplaced},
		{event{kind: eventReplace, problem: problem(CodeWatchdog, "")}, trust.EndCrash},
		{event{kind: eventRestart}, trust.EndAsked},
		{event{kind: eventStop}, trust.EndAsked},
	} {
		d.m.step(event{kind: eventStart}, d.now)
		d.toReady()
		generation := d.m.generation
		if d.endOf(generation) != trust.EndNone {
			t.Errorf("%d: it has ended before it did", i)
		}
		tt.end.generation = generation
		d.m.step(tt.end, d.now)
		if got := d.endOf(generation); got != tt.want {
			t.Errorf("%d: ended by %q, want %q", i, got, tt.want)
		}
		if d.m.active {
			d.m.step(event{kind: eventEnded}, d.now)
		}
		if got := d.endOf(generation); got != tt.want {
			t.Errorf("%d: ended by %q in the end, want %q", i, got, tt.want)
		}
		if !d.m.active {
			d.m.step(event{kind: eventStart}, d.now)
		}
		d.m.step(event{kind: eventStop}, d.now)
		d.m.step(event{kind: eventEnded}, d.now)
	}
	if len(d.m.ends) != maxEnds {
		t.Errorf("%d ends are remembered", len(d.m.ends))
	}
}

func (d *drive) endOf(generation uint64) trust.End {
	for _, e := range d.m.ends {
		if e.generation == generation {
			return e.end
		}
	}
	return trust.EndNone
}

// An engine that nobody uses ends, is unloaded, and comes back when somebody
// wants it: by waking it, or by a person's start.
func TestUnload(t *testing.T) {
	d := newDrive(t)
	d.do(event{kind: eventUnload}, doNothing, Stopped, CauseRequested)
	d.do(event{kind: eventWake}, doNothing, Stopped, CauseRequested)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.do(event{kind: eventUnload}, doNothing, Starting, CauseRequested)
	d.toReady()
	d.do(event{kind: eventWake}, doNothing, Ready, CauseProgress)
	for range 10 { // no restart budget is spent
		d.do(event{kind: eventUnload}, doEnd, Draining, CauseIdle)
		d.do(event{kind: eventEnded}, doNothing, Unloaded, CauseIdle)
		d.do(event{kind: eventUnload}, doNothing, Unloaded, CauseIdle)
		d.do(event{kind: eventWake}, doLaunch, Starting, CauseWoken)
		d.do(event{kind: eventWake}, doNothing, Starting, CauseWoken)
		if !d.m.asleep {
			t.Fatal("who comes now is refused")
		}
		d.toReady()
		if d.m.asleep {
			t.Fatal("asleep and ready")
		}
	}
	d.do(event{kind: eventUnload}, doEnd, Draining, CauseIdle)
	d.do(event{kind: eventWake}, doNothing, Draining, CauseIdle) // somebody came while it was being ended
	d.do(event{kind: eventEnded}, doLaunch, Starting, CauseWoken)
	d.toReady()
	d.do(event{kind: eventUnload}, doEnd, Draining, CauseIdle)
	d.do(event{kind: eventStart}, doNothing, Draining, CauseIdle)
	d.do(event{kind: eventEnded}, doLaunch, Starting, CauseWoken)
	d.toReady()
	d.do(event{kind: eventUnload}, doEnd, Draining, CauseIdle)
	d.do(event{kind: eventEnded}, doNothing, Unloaded, CauseIdle)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.toReady()
	if d.m.count != 0 || d.m.lastError != nil {
		t.Errorf("%d restarts, last error %v", d.m.count, d.m.lastError)
	}
}

// A person's stop, the app's end and an engine that does not come back end the sleep.
func TestEndOfTheSleep(t *testing.T) {
	asleep := func(t *testing.T) *drive {
		d := newDrive(t)
		d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
		d.toReady()
		d.do(event{kind: eventUnload}, doEnd, Draining, CauseIdle)
		d.do(event{kind: eventEnded}, doNothing, Unloaded, CauseIdle)
		return d
	}
	d := asleep(t)
	d.do(event{kind: eventStop}, doNothing, Stopped, CauseRequested)
	d.do(event{kind: eventWake}, doNothing, Stopped, CauseRequested)
	if d.m.asleep {
		t.Error("asleep though stopped")
	}
	d = asleep(t)
	d.do(event{kind: eventShutdown}, doNothing, Stopped, CauseShutdown)
	d.do(event{kind: eventWake}, doNothing, Stopped, CauseShutdown)

	d = asleep(t)
	d.do(event{kind: eventWake}, doLaunch, Starting, CauseWoken)
	d.do(event{kind: eventEnded, problem: problem(CodeLoadExit, "")}, doNothing, Failed, CauseProblem)
	if d.m.asleep {
		t.Error("asleep though failed")
	}
	d.sleep(500 * time.Millisecond)
	d.do(event{kind: eventRetry}, doLaunch, Starting, CauseRetry)
	d.toReady()

	d = asleep(t)
	d.do(event{kind: eventRestart}, doLaunch, Starting, CauseRequested)

	// Killed from outside while it was being ended: it is gone, as was wanted.
	d = newDrive(t)
	d.do(event{kind: eventStart}, doLaunch, Starting, CauseRequested)
	d.toReady()
	d.do(event{kind: eventUnload}, doEnd, Draining, CauseIdle)
	d.do(event{kind: eventStop}, doNothing, Draining, CauseIdle)
	d.do(event{kind: eventEnded}, doNothing, Stopped, CauseRequested)
}
