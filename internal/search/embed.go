package search

import (
	"context"
	"math"
	"sync"
)

// blank remembers the vector a model gives to a text it knows nothing of. A
// model with a closed vocabulary, such as the starter model, has one for all
// such texts, so that every Korean passage is "identical" to every Korean
// query. A model that knows the script gives ordinary vectors, and nothing is
// lost by the comparison.
type blank struct {
	mu          sync.Mutex
	fingerprint string    // of vector; guarded by mu
	vector      []float32 // of unit length; guarded by mu
}

// unknownText is no word in any language.
const unknownText = "ㅁ"

// sameVector is the cosine from which two vectors are the same but for rounding.
const sameVector = 0.9995

// embedded is a query as the model sees it.
type embedded struct {
	vector      []float32
	fingerprint string
	blank       float64 // cosine of the query and a text of which the model knows nothing; NaN when not known
}

// embed returns the vector of a query within the configured wait, else
// ErrNotInTime, or errUnknown when the model knows nothing of it.
func (s *Searcher) embed(ctx context.Context, text string) (embedded, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait)
	defer cancel()
	type answer struct {
		embedded
		err error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		if a.vector, a.fingerprint, a.err = s.cfg.Embedder.EmbedQuery(ctx, text); a.err == nil {
			a.blank = s.toBlank(ctx, a.vector, a.fingerprint)
		}
		if a.err == nil && text != unknownText && a.blank > sameVector {
			a.err = errUnknown
		}
		done <- a
	}()
	select {
	case a := <-done:
		if a.err != nil && ctx.Err() != nil { // it gave up because the wait was over
			a.err = ErrNotInTime
		}
		return a.embedded, a.err
	case <-ctx.Done():
		return embedded{}, ErrNotInTime
	}
}

func (s *Searcher) toBlank(ctx context.Context, vector []float32, fingerprint string) float64 {
	s.blank.mu.Lock()
	reference, known := s.blank.vector, s.blank.fingerprint == fingerprint
	s.blank.mu.Unlock()
	if !known {
		fresh, of, err := s.cfg.Embedder.EmbedQuery(ctx, unknownText)
		if err != nil || of != fingerprint {
			return math.NaN() // the engine is being exchanged; the next search asks again
		}
		reference = fresh
		s.blank.mu.Lock()
		s.blank.vector, s.blank.fingerprint = fresh, fingerprint
		s.blank.mu.Unlock()
	}
	if len(reference) != len(vector) {
		return math.NaN()
	}
	return dot(reference, vector)
}

// dot is the cosine of two vectors of unit length.
func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
