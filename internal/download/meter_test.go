package download

import (
	"errors"
	"testing"
	"time"
)

func TestMeterCoalesces(t *testing.T) {
	now := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	var seen []Progress
	m := newMeter(250*time.Millisecond, func(p Progress) { seen = append(seen, p) })
	m.now = func() time.Time { return now }
	for i := range 101 { // 10 s, a byte a millisecond
		m.download(int64(i*100), 10_000)
		now = now.Add(100 * time.Millisecond)
	}
	if len(seen) != 35 { // the first, every 300 ms, the last
		t.Errorf("%d reports", len(seen))
	}
	for i, p := range seen[1:] {
		if p.Rate < 999 || p.Rate > 1001 {
			t.Errorf("report %d: rate %v", i+1, p.Rate)
		}
	}
	if p := seen[1]; p.Left.Round(time.Millisecond) != 9700*time.Millisecond {
		t.Errorf("time left %v at %d bytes", p.Left, p.Done)
	}
	m.wait(10_000, 10_000, errors.New("cut"))
	if p := seen[len(seen)-1]; p.Phase != Waiting || p.Rate != 0 || p.Left != 0 || p.Err == nil {
		t.Errorf("waiting: %+v", p)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-3": 0, "x": 0, "7": 7 * time.Second, "99999999999": 0,
		"Wed, 01 Apr 2026 12:00:30 GMT": 30 * time.Second, "Wed, 01 Apr 2026 11:00:00 GMT": 0,
		"1000000": longestAsked,
	} {
		if got := retryAfter(text, now); got != want && !(text == "99999999999" && got == longestAsked) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
