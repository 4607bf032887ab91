package admission_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/admission"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func granted(decisions []admission.Decision) []admission.Ticket {
	var tickets []admission.Ticket
	for _, d := range decisions {
		if d.Verdict == admission.Granted {
			tickets = append(tickets, d.Ticket)
		}
	}
	return tickets
}

func wantGranted(t *testing.T, decisions []admission.Decision, want ...admission.Ticket) {
	t.Helper()
	if diff := cmp.Diff(want, granted(decisions)); diff != "" {
		t.Fatalf("granted (-want +got):\n%s", diff)
	}
}

func TestDefaultLimitsAreTheContracts(t *testing.T) {
	want := admission.Limits{Executing: 2, Waiting: 64, Wait: 2 * time.Minute, Background: 1}
	if got := admission.DefaultLimits(); got != want {
		t.Errorf("DefaultLimits = %+v, want %+v", got, want)
	}
}

func TestValidate(t *testing.T) {
	for _, change := range []func(*admission.Limits){
		func(l *admission.Limits) { l.Executing = 0 },
		func(l *admission.Limits) { l.Waiting = -1 },
		func(l *admission.Limits) { l.Wait = 0 },
		func(l *admission.Limits) { l.Background = -1 },
		func(l *admission.Limits) { l.Background = 3 },
	} {
		limits := admission.DefaultLimits()
		change(&limits)
		if limits.Validate() == nil {
			t.Errorf("%+v accepted", limits)
		}
		if _, err := admission.NewGate(limits); err == nil {
			t.Errorf("gate with %+v accepted", limits)
		}
	}
}

// The 67th client finds 2 executing and 64 waiting.
func TestQueueFullAtOnce(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	for i := range 66 {
		decisions := p.Arrive(at(0), admission.Ticket(i), admission.LaneClient)
		if i < 2 {
			wantGranted(t, decisions, admission.Ticket(i))
		} else if len(decisions) != 0 {
			t.Fatalf("request %d: %v", i, decisions)
		}
	}
	decisions := p.Arrive(at(0), 66, admission.LaneClient)
	if len(decisions) != 1 || decisions[0].Reason != admission.QueueFull {
		t.Fatalf("the 67th: %+v", decisions)
	}
	// One that leaves makes room at once, for the next to come.
	if decisions := p.Leave(at(0), 30); len(decisions) != 0 {
		t.Fatalf("leaving: %+v", decisions)
	}
	if decisions := p.Arrive(at(0), 67, admission.LaneClient); len(decisions) != 0 {
		t.Fatalf("into the freed place: %+v", decisions)
	}
	if got := p.Stats(at(0)); got.Waiting != 64 || got.Executing != 2 || got.Totals[admission.CancelledWaiting] != 1 {
		t.Errorf("stats = %+v", got)
	}
}

func TestQueueTimeout(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	p.Arrive(at(0), 1, admission.LaneClient)
	p.Arrive(at(0), 2, admission.LaneClient)
	if _, ok := p.Wake(); ok {
		t.Error("a wake-up with nobody waiting")
	}
	p.Arrive(at(time.Second), 3, admission.LaneClient)
	p.Arrive(at(2*time.Second), 4, admission.LaneClient)
	if wake, ok := p.Wake(); !ok || !wake.Equal(at(121*time.Second)) {
		t.Fatalf("Wake = %v, %v, want 120 s after the arrival of the first who waits", wake, ok)
	}
	if decisions := p.Advance(at(121*time.Second - 1)); len(decisions) != 0 {
		t.Fatalf("too early: %+v", decisions)
	}
	decisions := p.Advance(at(121 * time.Second))
	if len(decisions) != 1 || decisions[0].Ticket != 3 || decisions[0].Reason != admission.QueueTimeout {
		t.Fatalf("at 120 s: %+v", decisions)
	}
	// A permit freed at the very moment does not rescue the one that is due.
	decisions = p.Release(at(122*time.Second), 1, admission.Served)
	if len(decisions) != 1 || decisions[0].Reason != admission.QueueTimeout {
		t.Fatalf("release at the deadline: %+v", decisions)
	}
	if got := p.Stats(at(122 * time.Second)); got.Waiting != 0 || got.Executing != 1 || got.Totals[admission.QueueTimeout] != 2 {
		t.Errorf("stats = %+v", got)
	}
}

// Who has waited elsewhere comes last, and the time counts.
func TestArriveSince(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	for i := range admission.Ticket(4) {
		p.Arrive(at(0), i, admission.LaneClient)
	}
	if decisions := p.ArriveSince(at(0), 4, admission.LaneClient, at(-100*time.Second)); len(decisions) != 0 {
		t.Fatalf("100 s earlier: %+v", decisions)
	}
	if wake, ok := p.Wake(); !ok || !wake.Equal(at(20*time.Second)) {
		t.Errorf("Wake = %v, %v, want when the last in the queue is due", wake, ok)
	}
	if got := p.Stats(at(0)); got.OldestWaitMS != 100_000 {
		t.Errorf("the oldest has waited %d ms", got.OldestWaitMS)
	}
	wantGranted(t, p.Release(at(time.Second), 0, admission.Served), 2)
	decisions := p.Advance(at(20 * time.Second))
	if len(decisions) != 1 || decisions[0].Ticket != 4 || decisions[0].Reason != admission.QueueTimeout {
		t.Errorf("at its 120 s: %+v", decisions)
	}
	decisions = p.ArriveSince(at(30*time.Second), 5, admission.LaneClient, at(-90*time.Second))
	if len(decisions) != 1 || decisions[0].Ticket != 5 || decisions[0].Reason != admission.QueueTimeout {
		t.Errorf("overdue on arrival: %+v", decisions)
	}
	p.ArriveSince(at(30*time.Second), 6, admission.LaneBackground, at(-time.Hour))
	if got := p.Stats(at(30 * time.Second)); got.BackgroundWaiting != 1 || got.Waiting != 1 {
		t.Errorf("stats = %+v", got)
	}
}

// A permit can come back before its request has ended; the request is counted later.
func TestUncounted(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	p.Arrive(at(0), 1, admission.LaneClient)
	p.Release(at(time.Second), 1, admission.Uncounted)
	got := p.Stats(at(time.Second))
	for outcome, count := range got.Totals {
		if count != 0 {
			t.Errorf("%q counted", outcome)
		}
	}
	if got.ServiceSeconds.Count != 1 || got.Executing != 0 {
		t.Errorf("stats = %+v", got)
	}
}

func TestBackgroundLane(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	wantGranted(t, p.Arrive(at(0), 1, admission.LaneBackground), 1)
	// At most one permit, though the other is free.
	wantGranted(t, p.Arrive(at(0), 2, admission.LaneBackground))
	wantGranted(t, p.Arrive(at(0), 3, admission.LaneClient), 3)
	p.Arrive(at(0), 4, admission.LaneClient)
	p.Arrive(at(0), 5, admission.LaneClient)
	// While clients wait they get every permit, the background's own too.
	wantGranted(t, p.Release(at(1), 1, admission.Served), 4)
	wantGranted(t, p.Release(at(2), 3, admission.Served), 5)
	wantGranted(t, p.Release(at(3), 4, admission.Served), 2)
	// A client never waits behind queued background work.
	p.Arrive(at(4), 6, admission.LaneBackground)
	p.Arrive(at(4), 7, admission.LaneClient)
	wantGranted(t, p.Release(at(5), 2, admission.Served), 7)
	// Background work waits without a limit of time and takes no client's place.
	if decisions := p.Advance(at(time.Hour)); len(decisions) != 0 {
		t.Errorf("after an hour: %+v", decisions)
	}
	if got := p.Stats(at(time.Hour)); got.BackgroundWaiting != 1 || got.Waiting != 0 || got.OldestWaitMS != 0 {
		t.Errorf("stats = %+v", got)
	}
}

func TestDrainingKeepsThePermit(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	p.Arrive(at(0), 1, admission.LaneClient)
	p.Arrive(at(0), 2, admission.LaneClient)
	p.Arrive(at(0), 3, admission.LaneClient)
	p.Drain(1)
	if decisions := p.Advance(at(time.Minute)); len(decisions) != 0 {
		t.Fatalf("while draining: %+v", decisions)
	}
	if got := p.Stats(at(time.Minute)); got.Executing != 1 || got.Draining != 1 || got.Waiting != 1 || got.OldestWaitMS != 60_000 {
		t.Errorf("stats = %+v", got)
	}
	wantGranted(t, p.Release(at(time.Minute), 1, admission.CancelledExecuting), 3)
}

// A grant whose caller has gone comes back and is nobody's service.
func TestUnusedGrantComesBack(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	for i := range admission.Ticket(3) {
		p.Arrive(at(0), i, admission.LaneClient)
	}
	wantGranted(t, p.Leave(at(time.Second), 0), 2)
	got := p.Stats(at(time.Second))
	if got.Totals[admission.CancelledWaiting] != 1 || got.ServiceSeconds.Count != 0 {
		t.Errorf("stats = %+v", got)
	}
	// Twice, or after a refusal, changes nothing.
	p.Leave(at(time.Second), 0)
	p.Release(at(time.Second), 0, admission.Served)
	if again := p.Stats(at(time.Second)); again.Totals[admission.CancelledWaiting] != 1 || again.Totals[admission.Served] != 0 {
		t.Errorf("stats = %+v", again)
	}
}

func TestLimitsChangeLive(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	for i := range admission.Ticket(10) {
		p.Arrive(at(0), i, admission.LaneClient)
	}
	limits := admission.DefaultLimits()
	limits.Executing = 4
	wantGranted(t, p.SetLimits(at(0), limits), 2, 3)
	limits.Executing, limits.Waiting = 1, 2
	wantGranted(t, p.SetLimits(at(0), limits)) // six wait, above the new limit: they stay
	if got := p.Stats(at(0)); got.Executing != 4 || got.Waiting != 6 {
		t.Fatalf("stats = %+v", got)
	}
	if decisions := p.Arrive(at(0), 99, admission.LaneClient); len(decisions) != 1 || decisions[0].Reason != admission.QueueFull {
		t.Errorf("a new one: %+v", decisions)
	}
	for i := range admission.Ticket(3) {
		wantGranted(t, p.Release(at(0), i, admission.Served))
	}
	wantGranted(t, p.Release(at(0), 3, admission.Served), 4)
	limits.Wait = time.Second
	if decisions := p.SetLimits(at(2*time.Second), limits); len(decisions) != 5 {
		t.Errorf("a shorter wait: %+v", decisions)
	}
}

func TestNoWaitingAtAll(t *testing.T) {
	p := admission.NewPolicy(admission.Limits{Executing: 1, Waiting: 0, Wait: time.Second})
	wantGranted(t, p.Arrive(at(0), 1, admission.LaneClient), 1)
	if decisions := p.Arrive(at(0), 2, admission.LaneClient); len(decisions) != 1 || decisions[0].Reason != admission.QueueFull {
		t.Errorf("second: %+v", decisions)
	}
	wantGranted(t, p.Arrive(at(0), 3, admission.LaneBackground))
	wantGranted(t, p.Release(at(0), 1, admission.Served)) // background 0: paused
}

func TestRetryEstimate(t *testing.T) {
	// fill brings the policy to 2 executing and 64 waiting at time 0.
	fill := func(p *admission.Policy, now time.Time) {
		for i := range 66 {
			p.Arrive(now, admission.Ticket(1000+i), admission.LaneClient)
		}
	}
	serve := func(p *admission.Policy, held time.Duration, times int) {
		for range times {
			p.Arrive(at(-held), 1, admission.LaneClient)
			p.Release(at(0), 1, admission.Served)
		}
	}
	tests := []struct {
		name  string
		setup func(*admission.Policy)
		when  time.Duration
		want  time.Duration
	}{
		// Nothing known: a second each; 64 before it and itself, two at a time.
		{"nothing served yet", func(*admission.Policy) {}, 0, 32500 * time.Millisecond},
		{"100 ms each", func(p *admission.Policy) { serve(p, 100*time.Millisecond, 5) }, 0, 3250 * time.Millisecond},
		{"microseconds", func(p *admission.Policy) { serve(p, 10*time.Microsecond, 5) }, 0, time.Millisecond},
		{"10 s each", func(p *admission.Policy) { serve(p, 10*time.Second, 5) }, 0, time.Minute},
		// The two that execute have been at it for longer than any before.
		{"slower than the past", func(p *admission.Policy) { serve(p, 10*time.Millisecond, 5) }, 600 * time.Millisecond, 19500 * time.Millisecond},
		{"an engine that is away is no service", func(p *admission.Policy) {
			p.Arrive(at(0), 1, admission.LaneClient)
			p.Release(at(0), 1, admission.EngineUnavailable)
		}, 0, 32500 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := admission.NewPolicy(admission.DefaultLimits())
			tt.setup(p)
			fill(p, at(0))
			decisions := p.Arrive(at(tt.when), 1, admission.LaneClient)
			if len(decisions) != 1 {
				t.Fatalf("decisions = %+v", decisions)
			}
			if got := decisions[0].RetryAfter; got < tt.want*99/100 || got > tt.want*101/100 {
				t.Errorf("RetryAfter = %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("follows a change", func(t *testing.T) {
		p := admission.NewPolicy(admission.DefaultLimits())
		serve(p, time.Second, 50)
		serve(p, 10*time.Millisecond, 20)
		fill(p, at(0))
		if got := p.Arrive(at(0), 1, admission.LaneClient)[0].RetryAfter; got > time.Second {
			t.Errorf("RetryAfter = %v after 20 quick ones", got)
		}
	})
}

// model is the contract written down flat: every request ever, its state, and
// rules that look at all of them.
type model struct {
	limits   admission.Limits
	paused   bool       // background work is
	requests []*request // in arrival order
	refused  time.Time  // the last refusal of the overload that goes on; zero = none does
}

type request struct {
	ticket  admission.Ticket
	lane    admission.Lane
	arrived time.Time
	state   string // waiting, held, draining or an outcome
}

func (m *model) count(lane admission.Lane, states ...string) int {
	n := 0
	for _, r := range m.requests {
		if (lane == "" || r.lane == lane) && slices.Contains(states, r.state) {
			n++
		}
	}
	return n
}

func (m *model) first(lane admission.Lane) *request {
	for _, r := range m.requests {
		if r.lane == lane && r.state == "waiting" {
			return r
		}
	}
	return nil
}

func (m *model) expire(now time.Time) (events []string) {
	if now.Sub(m.refused) >= admission.EpisodeQuiet {
		m.refused = time.Time{}
	}
	for _, r := range m.requests {
		if r.lane == admission.LaneClient && r.state == "waiting" && !now.Before(r.arrived.Add(m.limits.Wait)) {
			r.state = "queue_timeout"
			events = append(events, fmt.Sprint(r.ticket, " queue_timeout"))
		}
	}
	return events
}

func (m *model) grant() (events []string) {
	for m.count("", "held", "draining") < m.limits.Executing {
		next := m.first(admission.LaneClient)
		if next == nil && !m.paused && m.count(admission.LaneBackground, "held", "draining") < m.limits.Background {
			next = m.first(admission.LaneBackground)
		}
		if next == nil {
			break
		}
		next.state = "held"
		events = append(events, fmt.Sprint(next.ticket, " granted"))
	}
	return events
}

func (m *model) arrive(now time.Time, ticket admission.Ticket, lane admission.Lane) []string {
	events := m.expire(now)
	r := &request{ticket, lane, now, "waiting"}
	m.requests = append(m.requests, r)
	got := m.grant()
	if r.state == "waiting" && lane == admission.LaneClient && m.count(lane, "waiting") > m.limits.Waiting {
		r.state = "queue_full"
		got = append(got, fmt.Sprint(ticket, " queue_full"))
	}
	return append(events, got...)
}

func describe(decisions []admission.Decision) (events []string) {
	for _, d := range decisions {
		what := "granted"
		if d.Verdict == admission.Refused {
			what = d.Reason.String()
		}
		events = append(events, fmt.Sprint(d.Ticket, " ", what))
	}
	return events
}

// play drives policy and model with the events data describes.
func play(t *testing.T, data []byte) {
	limits := admission.Limits{Executing: 2, Waiting: 5, Wait: 50 * time.Second, Background: 1}
	if len(data) > 0 && data[0]&1 == 1 {
		limits = admission.DefaultLimits()
	}
	p, m := admission.NewPolicy(limits), &model{limits: limits}
	now := epoch
	peak := limits // the highest limits since the queue was last below them
	var last admission.Ticket
	for step := 0; step+1 < len(data); step += 2 {
		kind, value := data[step], data[step+1]
		now = now.Add(time.Duration(value%16) * time.Second)
		pick := func() *request {
			if len(m.requests) == 0 {
				return &request{}
			}
			// Mostly recent ones; old and finished ones must be harmless too.
			return m.requests[max(0, len(m.requests)-1-int(value)%24)]
		}
		var got []admission.Decision
		var want []string
		switch kind % 8 {
		case 0, 1, 2:
			last++
			lane := admission.LaneClient
			if value%5 == 0 {
				lane = admission.LaneBackground
			}
			got, want = p.Arrive(now, last, lane), m.arrive(now, last, lane)
		case 3:
			r := pick()
			got = p.Leave(now, r.ticket)
			want = m.expire(now)
			if r.state == "waiting" || r.state == "held" || r.state == "draining" {
				r.state = "cancelled_waiting"
			}
			want = append(want, m.grant()...)
		case 4:
			r := pick()
			p.Drain(r.ticket)
			if r.state == "held" {
				r.state = "draining"
			}
		case 5, 6:
			r := pick()
			outcome := []admission.Outcome{admission.Served, admission.Failed, admission.CancelledExecuting}[value%3]
			got = p.Release(now, r.ticket, outcome)
			want = m.expire(now)
			if r.state == "held" || r.state == "draining" {
				r.state = outcome.String()
			}
			want = append(want, m.grant()...)
		case 7:
			if value%4 == 0 {
				m.limits.Executing = 1 + int(value/4)%4
				m.limits.Background = int(value/16) % (m.limits.Executing + 1)
				m.limits.Waiting = int(value/8) % 8
				peak.Executing = max(peak.Executing, m.limits.Executing)
				peak.Waiting = max(peak.Waiting, m.limits.Waiting)
				got = p.SetLimits(now, m.limits)
			} else if value%4 == 1 {
				m.paused = !m.paused
				got = p.PauseBackground(now, m.paused)
			} else {
				got = p.Advance(now)
			}
			want = append(m.expire(now), m.grant()...)
		}
		if diff := cmp.Diff(want, describe(got)); diff != "" {
			t.Fatalf("step %d (%d %d) decisions (-model +policy):\n%s", step, kind, value, diff)
		}
		for _, d := range got {
			if d.Verdict == admission.Refused {
				m.refused = now
			}
		}
		checkStep(t, p, m, peak, now)
	}
}

// checkStep compares the figures and states the invariants outright.
func checkStep(t *testing.T, p *admission.Policy, m *model, peak admission.Limits, now time.Time) {
	t.Helper()
	stats := p.Stats(now)
	if got, want := []int{stats.Executing, stats.Draining, stats.Waiting, stats.BackgroundWaiting, stats.BackgroundExecuting}, []int{
		m.count("", "held"), m.count("", "draining"), m.count(admission.LaneClient, "waiting"),
		m.count(admission.LaneBackground, "waiting"), m.count(admission.LaneBackground, "held", "draining"),
	}; !slices.Equal(got, want) {
		t.Fatalf("executing, draining, waiting, background waiting and executing = %v, model %v", got, want)
	}
	var total uint64
	for outcome, count := range stats.Totals {
		total += count
		if want := m.count("", outcome.String()); int(count) != want {
			t.Fatalf("total of %s = %d, model %d", outcome, count, want)
		}
	}
	open := stats.Executing + stats.Draining + stats.Waiting + stats.BackgroundWaiting
	if int(total)+open != len(m.requests) {
		t.Fatalf("%d requests, %d outcomes and %d open", len(m.requests), total, open)
	}
	if held := stats.Executing + stats.Draining; held > peak.Executing || stats.Waiting > peak.Waiting {
		t.Fatalf("%d hold a permit and %d wait, the limits never were above %+v", held, stats.Waiting, peak)
	}
	if stats.Waiting > 0 && stats.Executing+stats.Draining < m.limits.Executing {
		t.Fatalf("%d wait while a permit is free", stats.Waiting)
	}
	var want []time.Time
	if first := m.first(admission.LaneClient); first != nil {
		want = append(want, first.arrived.Add(m.limits.Wait))
	}
	if !m.refused.IsZero() {
		want = append(want, m.refused.Add(admission.EpisodeQuiet))
	}
	wake, ok := p.Wake()
	if ok != (len(want) > 0) || ok && !wake.Equal(slices.MinFunc(want, time.Time.Compare)) {
		t.Fatalf("Wake = %v, %v, want the first of %v", wake, ok, want)
	}
}

func TestPolicyAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 64))
	for range 300 {
		data := make([]byte, 2+2*random.IntN(400))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		play(t, data)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 1, 0, 1, 3, 0, 5, 0, 7, 15})
	f.Add([]byte{1, 1, 1, 0, 4, 0, 5, 0, 7, 4, 7, 200})
	f.Fuzz(func(t *testing.T, data []byte) { play(t, data[:min(len(data), 1000)]) }) // the model is quadratic
}

// Upkeep takes the next permit that is free, before who waits, and is in no
// total; between two of its steps a client is served.
func TestUpkeep(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	for i := range admission.Ticket(4) {
		p.Arrive(at(0), i, admission.LaneClient)
	}
	if decisions := p.Arrive(at(0), 10, admission.LaneUpkeep); len(decisions) != 0 {
		t.Fatalf("with every permit taken: %+v", decisions)
	}
	wantGranted(t, p.Release(at(time.Second), 0, admission.Served), 10)
	wantGranted(t, p.Release(at(2*time.Second), 10, admission.Uncounted), 2)
	if decisions := p.Arrive(at(2*time.Second), 11, admission.LaneUpkeep); len(decisions) != 0 {
		t.Fatalf("the second step: %+v", decisions)
	}
	p.Leave(at(2*time.Second), 11)
	wantGranted(t, p.Release(at(3*time.Second), 1, admission.Served), 3)
	stats := p.Stats(at(3 * time.Second))
	if stats.Executing != 2 || stats.Waiting != 0 || stats.Totals[admission.Served] != 2 || stats.Totals[admission.CancelledWaiting] != 0 {
		t.Errorf("stats = %+v", stats)
	}
	if n := stats.ServiceSeconds.Count; n != 2 {
		t.Errorf("%d service times observed, want those of the two requests", n)
	}
	p.Arrive(at(3*time.Second), 12, admission.LaneUpkeep)
	p.Release(at(4*time.Second), 2, admission.Served) // 12 holds it now
	p.Close()
	if got := p.Stats(at(4 * time.Second)).Totals[admission.CancelledExecuting]; got != 1 {
		t.Errorf("%d cancelled at the end, want the one request", got)
	}
}

func TestCeiling(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	for i := range admission.Ticket(4) {
		p.Arrive(at(0), i, admission.LaneClient)
	}
	p.SetCeiling(at(0), 1)
	if decisions := p.Release(at(0), 0, admission.Served); len(decisions) != 0 {
		t.Fatalf("one still executes: %+v", decisions)
	}
	if got := p.Stats(at(0)); got.Limits.Executing != 1 || got.Executing != 1 {
		t.Errorf("stats = %+v", got)
	}
	wantGranted(t, p.Release(at(0), 1, admission.Served), 2)
	p.SetCeiling(at(0), 5) // above the limits it is none
	wantGranted(t, p.SetCeiling(at(0), 0))
	if got := p.Stats(at(0)); got.Limits.Executing != 2 || got.Executing != 2 {
		t.Errorf("lifted: %+v", got)
	}
}

// A held gate is a queue like any other, of which nobody is granted.
func TestHeld(t *testing.T) {
	p := admission.NewPolicy(admission.Limits{Executing: 2, Waiting: 3, Wait: time.Minute, Background: 1})
	wantGranted(t, p.Arrive(at(0), 1, admission.LaneClient), 1)
	p.SetHeld(at(0), true)
	wantGranted(t, p.Arrive(at(time.Second), 2, admission.LaneBackground))
	for i := range admission.Ticket(3) {
		wantGranted(t, p.Arrive(at(time.Second), 3+i, admission.LaneClient))
	}
	wantGranted(t, p.Arrive(at(time.Second), 6, admission.LaneUpkeep))
	if d := p.Arrive(at(time.Second), 7, admission.LaneClient); len(d) != 1 || d[0].Reason != admission.QueueFull || d[0].RetryAfter <= 0 {
		t.Errorf("the fourth that waits: %+v", d)
	}
	wantGranted(t, p.Release(at(2*time.Second), 1, admission.Served))
	if got := p.Stats(at(2 * time.Second)); got.Executing != 0 || got.Waiting != 3 || got.Limits.Executing != 2 {
		t.Errorf("stats = %+v", got)
	}
	wantGranted(t, p.Leave(at(2*time.Second), 4))
	if d := p.Advance(at(61 * time.Second)); len(d) != 2 || d[0].Reason != admission.QueueTimeout || d[1].Reason != admission.QueueTimeout {
		t.Errorf("after a minute: %+v", d)
	}
	wantGranted(t, p.Arrive(at(62*time.Second), 8, admission.LaneClient))
	wantGranted(t, p.SetHeld(at(63*time.Second), false), 6, 8)
	wantGranted(t, p.Release(at(64*time.Second), 8, admission.Served), 2)
}

func TestPauseBackground(t *testing.T) {
	p := admission.NewPolicy(admission.DefaultLimits())
	wantGranted(t, p.Arrive(at(0), 1, admission.LaneBackground), 1)
	if decisions := p.PauseBackground(at(0), true); len(decisions) != 0 || p.BackgroundWork() != 1 {
		t.Fatalf("what executes goes on: %+v, %d at work", decisions, p.BackgroundWork())
	}
	wantGranted(t, p.Arrive(at(0), 2, admission.LaneBackground))
	wantGranted(t, p.Release(at(1), 1, admission.Served))
	wantGranted(t, p.Arrive(at(2), 3, admission.LaneClient), 3)
	wantGranted(t, p.SetLimits(at(3), admission.Limits{Executing: 4, Waiting: 1, Wait: time.Minute, Background: 2}))
	wantGranted(t, p.Arrive(at(time.Hour), 4, admission.LaneBackground)) // waits for as long as it likes
	if got := p.Stats(at(time.Hour)); !got.BackgroundPaused || got.BackgroundWaiting != 2 || got.Limits.Background != 2 || got.Executing != 1 {
		t.Errorf("stats = %+v", got)
	}
	wantGranted(t, p.PauseBackground(at(time.Hour), false), 2, 4)
	if got := p.Stats(at(time.Hour)); got.BackgroundPaused || got.BackgroundExecuting != 2 {
		t.Errorf("resumed: %+v", got)
	}
}
