package embedding

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

// maxOffences bounds how many texts are remembered for an invalid vector.
const maxOffences = 1000

// storeTime is how long the answer to a guilty input waits for the store.
const storeTime = 5 * time.Second

// quarantine is what the present fingerprint's engine is not given. Its memory
// is what counts; the store fills it when the fingerprint is first met.
type quarantine struct {
	store  Quarantine // nil = memory alone
	logger *slog.Logger

	mu          sync.Mutex
	fingerprint string                  // guarded by mu; of held
	held        map[vector.Key]struct{} // guarded by mu
	offences    map[vector.Key]int      // guarded by mu; times a text alone was at fault
	witnesses   map[vector.Key]int      // guarded by mu; times a text was at an engine that crashed or hung
}

// load makes fingerprint the present one.
func (q *quarantine) load(ctx context.Context, fingerprint string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fingerprint == fingerprint && q.held != nil {
		return
	}
	q.fingerprint, q.held = fingerprint, make(map[vector.Key]struct{})
	if q.store == nil {
		return
	}
	list, err := q.store.Quarantined(ctx, fingerprint)
	if err != nil {
		q.held = nil // the next request tries again
		if ctx.Err() == nil {
			q.logger.Error("Read quarantine", slog.Any("error", err))
		}
	}
	for _, entry := range list {
		if hash, err := trust.ParseHash(entry.SHA256); err == nil {
			q.held[vector.Key{Fingerprint: fingerprint, Text: hash}] = struct{}{}
		}
	}
}

// find lists the places of the keys that are held.
func (q *quarantine) find(keys []vector.Key) []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.held) == 0 {
		return nil
	}
	var places []int
	for i, key := range keys {
		if _, held := q.held[key]; held {
			places = append(places, i)
		}
	}
	return places
}

// offend counts a fault of the text and returns how many there are now.
func (q *quarantine) offend(key vector.Key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.offences) >= maxOffences {
		q.offences = nil
	}
	if q.offences == nil {
		q.offences = make(map[vector.Key]int)
	}
	q.offences[key]++
	return q.offences[key]
}

// witness counts that an engine crashed or hung when it had the text, and
// returns how often that was.
func (q *quarantine) witness(key vector.Key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.witnesses) >= maxOffences {
		q.witnesses = nil
	}
	if q.witnesses == nil {
		q.witnesses = make(map[vector.Key]int)
	}
	q.witnesses[key]++
	return q.witnesses[key]
}

// acquit forgets that: the engine had the text alone, and went on.
func (q *quarantine) acquit(key vector.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.witnesses, key)
}

// suspects puts those flights on trial, and first, whose text was at an engine
// that crashed or hung.
func (q *quarantine) suspects(own []*flight) []*flight {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.witnesses) == 0 {
		return own
	}
	for _, f := range own {
		f.suspect = f.suspect || q.witnesses[f.key] > 0
	}
	slices.SortStableFunc(own, func(a, b *flight) int {
		switch {
		case a.suspect == b.suspect:
			return 0
		case a.suspect:
			return -1
		}
		return 1
	})
	return own
}

func (q *quarantine) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.held)
}

// forget lets every text go, with what it did before; the store says what is
// still held.
func (q *quarantine) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held, q.offences, q.witnesses = nil, nil, nil
}

// arrest puts a text in quarantine: first in memory, so that the answer does
// not hang on a disk.
func (s *Service) arrest(ctx context.Context, guilty *flight, reason trust.Reason) {
	q := s.quarantine
	q.mu.Lock()
	if q.fingerprint == guilty.key.Fingerprint {
		if q.held == nil {
			q.held = make(map[vector.Key]struct{})
		}
		q.held[guilty.key] = struct{}{}
	}
	q.mu.Unlock()
	entry := trust.Quarantined{
		Fingerprint: guilty.key.Fingerprint, SHA256: trust.Hash(guilty.key.Text).String(), Reason: reason,
		Tokens: guilty.tokens, At: time.Now().UTC(),
	}
	s.logger.Warn("Input quarantined", slog.String("sha256", entry.SHA256), slog.String("reason", reason.String()))
	if q.store != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer cancel()
		if err := q.store.Arrest(ctx, entry); err != nil {
			s.logger.Error("Store quarantine", slog.Any("error", err))
		}
	}
}

// refuseQuarantined is the error for a request that has a quarantined input,
// which never comes to the engine.
func (a *asking) refuseQuarantined(ctx context.Context) error {
	q := a.service.quarantine
	q.load(ctx, a.instance.Fingerprint)
	places := q.find(a.keys)
	if places == nil {
		return nil
	}
	held := make([]bool, len(a.keys))
	for _, place := range places {
		held[place] = true
	}
	refused := &vector.InvalidError{}
	for i, place := range a.of {
		if held[place] {
			refused.Problems = append(refused.Problems, vector.Problem{Index: i, Reason: vector.ReasonQuarantined})
		}
	}
	return refused
}

// Quarantined lists what no engine of its fingerprint is given, newest first;
// of every fingerprint, the present one or not.
func (s *Service) Quarantined(ctx context.Context) ([]trust.Quarantined, error) {
	if s.quarantine.store == nil {
		return nil, nil
	}
	return s.quarantine.store.Quarantined(ctx, "")
}

// LiftQuarantine lets the text of that SHA-256 be tried again, or all when it
// is empty, and returns how many were held.
func (s *Service) LiftQuarantine(ctx context.Context, hash string) (int, error) {
	if s.quarantine.store == nil {
		return 0, nil
	}
	released, err := s.quarantine.store.Release(ctx, hash)
	s.quarantine.forget()
	return released, err
}
