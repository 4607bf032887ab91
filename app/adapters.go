package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/remote"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/trust"
)

// engineForDoor is the live llama-server as the embedding door sees it.
type engineForDoor struct {
	engines *engines.Keeper
	longest int // tokens an owner allows for one input; 0 = as many as the engine
}

func (e engineForDoor) Current() (embedding.Instance, error) {
	now, err := e.engines.Current()
	if away, ok := errors.AsType[*llamaserver.NotReadyError](err); ok && away.Asleep != nil {
		asleep := e.instance(*away.Asleep)
		asleep.Asleep = true
		return asleep, nil
	}
	if err != nil {
		return embedding.Instance{}, notReady(err)
	}
	return e.instance(now), nil
}

func (e engineForDoor) Wake() { e.engines.Wake() }

func (e engineForDoor) Borrow() (embedding.Instance, func(), error) {
	now, done, err := e.engines.Borrow()
	if err != nil {
		return embedding.Instance{}, nil, notReady(err)
	}
	return e.instance(now), done, nil
}

func (e engineForDoor) instance(now llamaserver.Instance) embedding.Instance {
	longest := now.MaxTokens
	if e.longest > 0 {
		longest = min(longest, e.longest)
	}
	return embedding.Instance{
		Generation: now.Generation, Client: now.Client, Model: now.ModelName,
		Dim: now.Dim, MaxTokens: longest, BatchTokens: now.BatchTokens, Fingerprint: now.Fingerprint,
		Unnormalized: !now.Normalized, Probe: now.Probe, OneAtATime: now.OneAtATime, Checked: now.Checked,
	}
}

func (e engineForDoor) Replace(ctx context.Context, generation uint64, fault trust.Fault) error {
	return e.engines.GiveUp(ctx, generation, fault)
}

func (e engineForDoor) End(generation uint64) trust.End { return e.engines.End(generation) }

func (e engineForDoor) Changed() (changed <-chan struct{}, stop func()) { return e.engines.Changed() }

// doorForIndexer is the background lane of the embedding door.
type doorForIndexer struct {
	door   *embedding.Service
	engine func() (llamaserver.Status, recipe) // the one behind the door
}

func (d doorForIndexer) Embed(ctx context.Context, texts []string) ([][]float32, string, error) {
	result, err := d.door.Embed(ctx, embedding.Request{Lane: admission.LaneBackground, Inputs: texts})
	if long, ok := errors.AsType[*embedding.TooLongError](err); ok {
		return nil, "", &indexer.RefusedError{Index: long.Index, Reason: document.ReasonTooLong, Err: err}
	}
	if err != nil {
		return nil, "", err
	}
	return result.Vectors, result.Fingerprint, nil
}

// CountTokens sizes passages. Where a remote engine counts nothing, passages
// are sized by an estimate; whether one fits is for that engine to say.
func (d doorForIndexer) CountTokens(ctx context.Context, texts []string) ([]int, error) {
	counts, err := d.door.CountTokens(ctx, texts)
	if !errors.Is(err, remote.ErrNoCount) {
		return counts, err
	}
	counts = make([]int, len(texts))
	for i, text := range texts {
		counts[i] = len(text)/bytesPerToken + 1
	}
	return counts, nil
}

// bytesPerToken is a low figure for prose, code and Korean in a large vocabulary.
const bytesPerToken = 3

func (d doorForIndexer) Maker() (document.Maker, error) {
	info, err := d.door.Info()
	if err != nil {
		return document.Maker{}, err
	}
	maker := document.Maker{Fingerprint: info.Fingerprint, Dim: info.Dim, Model: info.Model}
	if now, how := d.engine(); now.Fingerprint == info.Fingerprint {
		maker.Build, maker.Recipe = now.Version, how.String()
	}
	return maker, nil
}

// recipe is how an engine of ours was started, kept with the vectors it made,
// so that it can be started again as long as they are kept.
type recipe struct {
	Server  string   `json:"server,omitempty"` // path of llama-server; empty = looked for
	Model   string   `json:"model"`            // path
	Profile string   `json:"profile"`          // name of the flags
	Flags   []string `json:"flags"`            // those of the profile and the owner's own
}

// String is the recipe as the index keeps it; empty where others run the engine.
func (r recipe) String() string {
	if r.Model == "" {
		return ""
	}
	text, _ := json.Marshal(r) // strings and a list of them have no error
	return string(text)
}

// doorForSearch embeds a query as any client's text: a person waits for it.
type doorForSearch struct{ door *embedding.Service }

func (d doorForSearch) EmbedQuery(ctx context.Context, text string) ([]float32, string, error) {
	result, err := d.door.Embed(ctx, embedding.Request{Lane: admission.LaneClient, Inputs: []string{text}})
	_, busy := errors.AsType[*admission.RejectedError](err)
	_, slow := errors.AsType[*embedding.TimeoutError](err)
	if busy || slow {
		return nil, "", fmt.Errorf("%w: %w", search.ErrNotInTime, err)
	}
	if err != nil {
		return nil, "", err
	}
	if len(result.Vectors) != 1 {
		return nil, "", fmt.Errorf("embed query: %d vectors for one text", len(result.Vectors))
	}
	return result.Vectors[0], result.Fingerprint, nil
}

// indexerForControl gives the indexer the shape that the control API asks for.
type indexerForControl struct{ *indexer.Indexer }

func (i indexerForControl) Retry(ctx context.Context, id document.ID) error {
	return i.Indexer.Retry(ctx, id)
}

func (i indexerForControl) Counters() control.Counters {
	stats := i.Stats()
	return control.Counters{EmbeddedChunks: stats.EmbeddedChunks, ReusedChunks: stats.ReusedChunks}
}

// trustForControl is the door's quarantine and checks, and what the index
// keeps of engines that failed.
type trustForControl struct {
	*embedding.Service
	index *sqlite.DB
}

func (t trustForControl) Evidence(ctx context.Context) ([]trust.Evidence, error) {
	return t.index.Evidence(ctx)
}

// validityForControl is what the door refused.
func validityForControl(door *embedding.Service) func() control.Validity {
	return func() control.Validity {
		now := door.Validity()
		v := control.Validity{Checked: int64(now.Checked), Rejected: int64(now.Rejected), LastAt: now.LastInvalid, Quarantined: now.Quarantined}
		for _, reason := range now.LastReasons {
			v.LastReasons = append(v.LastReasons, string(reason))
		}
		return v
	}
}
