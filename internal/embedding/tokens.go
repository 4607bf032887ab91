package embedding

import (
	"context"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/vector"
)

// The engine tells the tokens of a call, not those of each text. So a text
// that was alone in its call is counted, and the others have shares that add
// up. That is exact for the request that made the call; for any other, the
// text is counted when it is first asked for again, which no request pays for
// that never meets the cache.

// countable says whether the share of text i will not do.
func (a *asking) countable(i int) bool {
	t := &a.texts[i]
	if a.lane == admission.LaneBackground {
		return false // nobody reads the figure
	}
	if t.source == sourceOwn {
		return t.times > 1 && t.tokens == 0 // the call counted it once
	}
	return a.got[i].Vector != nil && !a.got[i].Counted || t.source == sourceJoined
}

// tokens is the sum over all inputs, as if each had been computed for them.
func (a *asking) tokens(ctx context.Context) (int, error) {
	if err := a.countShares(ctx); err != nil {
		return 0, err
	}
	total := 0
	for i := range a.texts {
		t, once := &a.texts[i], a.got[i].Tokens
		again := once
		if t.tokens > 0 {
			again = t.tokens
		}
		if t.source != sourceOwn {
			once = again
		}
		total += once + (t.times-1)*again
	}
	return total, nil
}

// shareWait is how long an answer whose vectors are all there is held up for
// the exact figure.
const shareWait = time.Second

// countShares counts the texts whose shares will not do. An engine that does
// not count, or is too busy counting, leaves them as they are: no vector is
// refused for that.
func (a *asking) countShares(ctx context.Context) error {
	var places []int
	var texts []string
	for i := range a.texts {
		if t := &a.texts[i]; !a.got[i].Counted && t.tokens == 0 && a.countable(i) {
			places, texts = append(places, i), append(texts, a.inputs[t.first])
		}
	}
	if len(places) == 0 {
		return nil
	}
	instance, err := a.service.current()
	if err != nil || instance.Asleep || instance.Fingerprint != a.instance.Fingerprint {
		return nil // it is not started for a figure
	}
	quick, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	counts, err := a.service.count(quick, instance, a.lane, texts)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return nil
	}
	for i, place := range places {
		a.texts[place].tokens = counts[i]
		if a.service.cache != nil {
			a.service.cache.Put(a.keys[place], vector.Embedding{Vector: a.got[place].Vector, Tokens: counts[i], Counted: true})
		}
	}
	return nil
}

// count asks the engine for the tokens of each text, when it is its turn;
// errSucceeded when it is not the instance's kind any longer.
func (s *Service) count(ctx context.Context, instance Instance, lane admission.Lane, texts []string) ([]int, error) {
	done, err := s.counting.take(ctx, lane)
	if err != nil {
		return nil, err
	}
	defer done()
	instance, back, err := s.borrow(ctx, instance, time.Now())
	if err != nil {
		return nil, err
	}
	defer back()
	return s.ask(ctx, instance, texts)
}

// ask is count for those who have a turn.
func (s *Service) ask(ctx context.Context, instance Instance, texts []string) ([]int, error) {
	start := time.Now()
	counts, err := instance.Client.CountTokens(ctx, texts)
	if err != nil {
		return nil, s.translate(fmt.Errorf("count tokens: %w", err), time.Since(start))
	}
	if len(counts) != len(texts) {
		return nil, fmt.Errorf("count tokens: %d counts for %d texts", len(counts), len(texts))
	}
	return counts, nil
}

// checkLengths refuses what surely does not fit, without taking a permit.
func (s *Service) checkLengths(ctx context.Context, instance Instance, lane admission.Lane, own []*flight) error {
	var suspects []*flight
	for _, f := range own {
		if f.tokens == 0 && suspect(f.text, instance.MaxTokens) {
			suspects = append(suspects, f)
		}
	}
	if suspects == nil {
		return nil
	}
	done, err := s.counting.take(ctx, lane)
	if err != nil {
		return err
	}
	defer done()
	instance, back, err := s.borrow(ctx, instance, time.Now())
	if err != nil {
		return err
	}
	defer back()
	for _, f := range suspects {
		tokens, exact, err := s.countUpTo(ctx, instance, f.text, instance.MaxTokens)
		if err != nil {
			return err
		}
		if tokens > instance.MaxTokens {
			return &TooLongError{Index: f.input, Tokens: tokens, AtLeast: !exact, Limit: instance.MaxTokens}
		}
		f.tokens = tokens
	}
	return nil
}
