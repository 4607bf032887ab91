package engines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/gguf"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/vector"
)

// Bench is what candidates are examined with. Passages and Turn are required.
type Bench struct {
	// Passages are texts of the index, at most n, from all over it.
	Passages func(ctx context.Context, n int) ([]string, error)

	// Turn waits for the right to one call of an engine, so that a trial stays
	// behind those who wait for an answer.
	Turn func(ctx context.Context) (done func(), err error)

	// RSS is the resident memory of a process, bytes; nil = not known.
	RSS func(pid int) (int64, error)

	// Slower is the most that the candidate's median time may be, as a multiple
	// of the live engine's; 0 = DefaultSlower.
	Slower float64
}

func (b Bench) limit() float64 { return cmp.Or(b.Slower, DefaultSlower) }

// DefaultSlower is what a measurement on a machine at work may be off by.
const DefaultSlower = 1.1

// size is how many texts are compared; the requests that are timed are those
// of package trial.
type size struct {
	passages int // of the index
	searches int // made from them, beside the fixed ones
}

var sizes = map[bool]size{
	false: {passages: 96, searches: 16},
	true:  {passages: 24, searches: 4}, // quick
}

// callTexts is how many texts one call embeds: few, so that a turn is short.
const callTexts = 4

// exam is the examination of one candidate. It is handed from one piece of
// work to the next; one goroutine has it at a time.
type exam struct {
	bench   Bench
	quick   bool
	inPlace bool

	passages, searches []string // the same for both engines
	live, candidate    *measured
	agreed             *float64 // lowest cosine of one text's vectors in the trial, live and candidate; nil = none was compared
}

// measured is what was found out about one engine.
type measured struct {
	name     string // of its path in the trial: live, candidate
	server   *llamaserver.Server
	instance llamaserver.Instance
	status   llamaserver.Status
	header   int // dimension that the model file tells; 0 = it does not
	rss      *int64

	passages, searches [][]float32 // in the order of the texts; nil when it failed
	valid, asked       int         // vectors, those of the trial too
	trial              figures
	reasons            []trial.Reason // why the trial did not pass, of every round
	bad                string         // code of the trial's first answer that was none, or not valid
	untried            string         // detail: why there was no trial, though nothing is wrong; empty = there was

	err error // why it is not all there: a *vector.InvalidError, or another
}

// prepare chooses the texts.
func (x *exam) prepare(ctx context.Context) error {
	if x.passages != nil {
		return nil
	}
	n := sizes[x.quick]
	found, err := x.bench.Passages(ctx, n.passages)
	if err != nil {
		return fmt.Errorf("read passages of the index: %w", err)
	}
	x.searches = slices.Clone(fixedSearches)
	for i := range n.searches {
		if len(found) > 0 && i < len(found) {
			x.searches = append(x.searches, opening(found[i*len(found)/n.searches%len(found)]))
		}
	}
	x.passages = append(found, fixedPassages...)
	return nil
}

// opening is what somebody might look for who remembers how a passage begins.
func opening(passage string) string {
	words := strings.Fields(passage)
	return strings.Join(words[:min(len(words), 8)], " ")
}

// measure embeds the texts.
func (x *exam) measure(ctx context.Context, name string, server *llamaserver.Server, tell func(Progress)) *measured {
	m := &measured{name: name, server: server}
	if m.err = server.Awaken(ctx); m.err == nil {
		m.instance, m.err = server.Current()
	}
	if m.err != nil {
		return m
	}
	if m.err = x.prepare(ctx); m.err != nil {
		return m
	}
	m.status = server.Snapshot()
	if h, err := gguf.Read(m.status.Model.Path); err == nil {
		m.header = h.Of("embedding_length", 0)
	}
	step := Progress{Step: StepEmbed, Total: len(x.passages) + len(x.searches)}
	tell(step)
	embed := func(texts []string) (vectors [][]float32) {
		for len(texts) > 0 && m.err == nil {
			n := min(callTexts, len(texts))
			got, err := x.call(ctx, m, texts[:n])
			if m.err = err; err == nil {
				vectors, texts = append(vectors, got...), texts[n:]
				step.Done += n
				tell(step)
			}
		}
		return vectors
	}
	m.passages = embed(x.passages)
	m.searches = embed(x.searches)
	if x.bench.RSS != nil {
		if rss, err := x.bench.RSS(m.status.PID); err == nil {
			m.rss = &rss
		}
	}
	return m
}

// call is one call of the engine.
func (x *exam) call(ctx context.Context, m *measured, texts []string) ([][]float32, error) {
	done, err := x.bench.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	want := vector.Expect{Count: len(texts), Dim: m.instance.Dim, Normalized: m.instance.Normalized}
	reply, err := m.instance.Client.Embed(ctx, texts, want)
	m.asked += len(texts)
	if err == nil {
		err = vector.Check(reply.Vectors, want)
	}
	if invalid, ok := errors.AsType[*vector.InvalidError](err); ok {
		m.valid += max(len(texts)-len(invalid.Problems), 0)
	}
	if err != nil {
		return nil, err
	}
	m.valid += len(texts)
	return reply.Vectors, nil
}
