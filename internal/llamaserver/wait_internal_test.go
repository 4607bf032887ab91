package llamaserver

import (
	"testing"
	"time"
)

func TestWaitTellsWhenTheEngineIsExpected(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	retry := began.Add(70 * time.Second)
	for _, c := range []struct {
		name  string
		state State
		load  time.Duration // of the last start
		after time.Duration // since the start began
		retry *time.Time
		want  time.Duration
	}{
		{"as long as last time", Loading, 40 * time.Second, 10 * time.Second, nil, 30 * time.Second},
		{"the check does not begin anew", Checking, 40 * time.Second, 38 * time.Second, nil, 19 * time.Second},
		{"longer than last time", Loading, 4 * time.Second, 30 * time.Second, nil, 15 * time.Second},
		{"the first of all", Loading, 0, 20 * time.Second, nil, 10 * time.Second},
		{"the first of all, just begun", Starting, 0, 0, nil, 2 * time.Second},
		{"being ended before the next", Draining, 40 * time.Second, time.Hour, nil, 40 * time.Second},
		{"backing off", Failed, 40 * time.Second, 60 * time.Second, &retry, 50 * time.Second},
		{"given up", Failed, 40 * time.Second, 60 * time.Second, nil, unknownWait},
		{"stopped", Stopped, 40 * time.Second, 60 * time.Second, nil, unknownWait},
		{"never less than a second", Loading, time.Second, 2*time.Second - time.Millisecond, nil, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &snapshot{load: c.load, began: began, status: Status{State: c.state, Since: began.Add(c.after), RetryAt: c.retry}}
			if got := s.wait(began.Add(c.after)); got != c.want {
				t.Errorf("wait = %v, want %v", got, c.want)
			}
		})
	}
}
