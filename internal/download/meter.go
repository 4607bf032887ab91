package download

import "time"

// Phase is what a download is doing.
type Phase string

// The phases.
const (
	Downloading Phase = "downloading"
	Waiting     Phase = "waiting" // for the next try
	Verifying   Phase = "verifying"
)

// String returns the phase as it stands in JSON.
func (p Phase) String() string { return string(p) }

// Progress is how far a download is.
type Progress struct {
	Phase Phase
	Done  int64         // bytes; of Verifying, those hashed
	Total int64         // bytes; 0 = not known yet
	Rate  float64       // bytes a second, smoothed; 0 = not known
	Left  time.Duration // expected; 0 = not known
	Err   error         // of Waiting: what the last try met
}

// meter makes progress out of byte counts: at most one report in an interval,
// but always the first and the last of a phase.
type meter struct {
	every  time.Duration
	report func(Progress) // nil = nobody listens
	now    func() time.Time

	phase Phase
	last  time.Time // of the last report
	done  int64     // at the last report
	rate  float64
}

func newMeter(every time.Duration, report func(Progress)) *meter {
	return &meter{every: every, report: report, now: time.Now}
}

func (m *meter) download(done, total int64) {
	m.step(Progress{Phase: Downloading, Done: done, Total: total})
}

func (m *meter) verify(done, total int64) {
	m.step(Progress{Phase: Verifying, Done: done, Total: total})
}

func (m *meter) wait(done, total int64, err error) {
	m.step(Progress{Phase: Waiting, Done: done, Total: total, Err: err})
}

// smoothing is the weight of the newest interval in the rate.
const smoothing = 0.3

func (m *meter) step(p Progress) {
	if m.report == nil {
		return
	}
	now := m.now()
	fresh := p.Phase != m.phase || p.Done < m.done // a new phase, or a start anew
	took := now.Sub(m.last)
	if !fresh && p.Done != p.Total && took < m.every {
		return
	}
	switch {
	case fresh || p.Phase == Waiting:
		m.rate = 0
	case took > 0:
		rate := float64(p.Done-m.done) / took.Seconds()
		if m.rate == 0 {
			m.rate = rate
		}
		m.rate += smoothing * (rate - m.rate)
	}
	m.phase, m.last, m.done = p.Phase, now, p.Done
	p.Rate = m.rate
	if m.rate > 0 && p.Total > p.Done {
		p.Left = time.Duration(float64(p.Total-p.Done) / m.rate * float64(time.Second))
	}
	m.report(p)
}
