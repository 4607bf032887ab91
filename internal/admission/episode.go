package admission

import (
	"strconv"
	"time"

	"github.com/ondol-app/ondol/internal/event"
)

// EpisodeQuiet is how long no client must be refused for an overload to be over.
const EpisodeQuiet = 30 * time.Second

// What a gate tells of.
const (
	// KindOverloadBegan tells that a client was refused, the first for a while: role, reason.
	KindOverloadBegan event.Kind = "admission.overload_began"
	// KindOverloadEnded tells that none was for EpisodeQuiet: role, seconds
	// (from the first refusal to the last), queue_full, queue_timeout (how many),
	// longest_wait_ms.
	KindOverloadEnded event.Kind = "admission.overload_ended"
)

// Episode is an overload: the refusals that follow each other by less than
// EpisodeQuiet. Ten thousand of them are one.
type Episode struct {
	Began, Last time.Time          // the first refusal, and the last
	Refused     map[Outcome]uint64 // by QueueFull and QueueTimeout
	LongestWait time.Duration      // that a client had when somebody was refused
	Over        bool
}

// Event tells of the episode as it stands.
func (e Episode) Event(role string) event.Event {
	if !e.Over {
		reason := QueueFull
		if e.Refused[QueueTimeout] > 0 {
			reason = QueueTimeout
		}
		began := event.New(KindOverloadBegan, "role", role, "reason", reason.String())
		began.At = e.Began.UTC()
		return began
	}
	return event.New(KindOverloadEnded, "role", role, "seconds", strconv.FormatFloat(e.Last.Sub(e.Began).Seconds(), 'f', 1, 64),
		"queue_full", strconv.FormatUint(e.Refused[QueueFull], 10), "queue_timeout", strconv.FormatUint(e.Refused[QueueTimeout], 10),
		"longest_wait_ms", strconv.FormatInt(e.LongestWait.Milliseconds(), 10))
}

// episodes finds them in a policy's refusals.
type episodes struct {
	now  *Episode  // nil = no overload
	news []Episode // what nobody has been told of yet
}

// refused takes one refusal, and the longest wait there was then.
func (e *episodes) refused(at time.Time, reason Outcome, waited time.Duration) {
	begins := e.now == nil
	if begins {
		e.now = &Episode{Began: at, Refused: make(map[Outcome]uint64, 2)}
	}
	e.now.Last = at
	e.now.Refused[reason]++
	e.now.LongestWait = max(e.now.LongestWait, waited)
	if begins {
		e.news = append(e.news, Episode{Began: at, Last: at, Refused: map[Outcome]uint64{reason: 1}, LongestWait: waited})
	}
}

// advance ends an episode that has been quiet for long enough.
func (e *episodes) advance(at time.Time) {
	if e.now != nil && at.Sub(e.now.Last) >= EpisodeQuiet {
		e.end()
	}
}

func (e *episodes) end() {
	if e.now == nil {
		return
	}
	e.now.Over = true
	e.news = append(e.news, *e.now)
	e.now = nil
}

// take hands over what there is to tell.
func (e *episodes) take() []Episode {
	news := e.news
	e.news = nil
	return news
}
