package control

import (
	"net/http"

	"github.com/ondol-app/ondol/internal/history"
)

// History is the reply to GET history: the figures of the last while.
type History struct {
	EveryMS int64           `json:"every_ms"` // length of one interval
	Points  []history.Point `json:"points"`   // oldest first; gaps are times that nobody watched; never null
}

// Recent keeps the figures of the last while.
type Recent interface {
	Seconds() []history.Point
	Minutes() []history.Point
}

// history answers GET history?span=10m|24h.
func (s *Server) history(r *http.Request) (any, error) {
	values, err := params(r, "span")
	if err != nil {
		return nil, err
	}
	s.gpu(r.Context()) // whoever plots the last while wants its next seconds too
	switch values["span"] {
	case "", "10m":
		return History{EveryMS: history.ShortEvery.Milliseconds(), Points: s.cfg.Recent.Seconds()}, nil
	case "24h":
		return History{EveryMS: history.LongEvery.Milliseconds(), Points: s.cfg.Recent.Minutes()}, nil
	}
	return nil, invalid("span", "is unknown", "send 10m for seconds or 24h for minutes")
}
