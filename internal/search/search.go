package search

import (
	"context"
	"errors"
	"math"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/document"
)

// Store is the index as search needs it.
type Store interface {
	Lexical(ctx context.Context, q document.LexicalQuery) (document.LexicalReply, error)
	Semantic(ctx context.Context, fingerprint string, query []float32, filter document.Filter, limit int) (document.SemanticReply, error)
	Passages(ctx context.Context, ids []document.ChunkID, terms []document.Term) ([]document.Passage, error)
	Standing(ctx context.Context) (document.Standing, error)
}

// Embedder turns a query into a vector of the current fingerprint. It returns
// soon after ctx is done. An error that is ErrNotInTime means that the engine
// is there and has no time; every other one that it gives no vector.
type Embedder interface {
	EmbedQuery(ctx context.Context, text string) (vector []float32, fingerprint string, err error)
}

// Config says what a Searcher works with.
type Config struct {
	Store    Store                           // required
	Embedder Embedder                        // nil: words alone
	Trust    func(fingerprint string) Trust  // nil: WeakTrust for all
	Wait     time.Duration                   // for the vector of a query; 0 means 2 s
	Stat     func(path string) (Stat, error) // nil: the file system
}

// Searcher answers searches. It is safe for concurrent use.
type Searcher struct {
	cfg   Config
	blank blank
}

// New returns a Searcher.
func New(cfg Config) (*Searcher, error) {
	if cfg.Store == nil {
		return nil, errors.New("search: Store is required")
	}
	if cfg.Trust == nil {
		cfg.Trust = func(string) Trust { return WeakTrust() }
	}
	if cfg.Wait == 0 {
		cfg.Wait = 2 * time.Second
	}
	if cfg.Stat == nil {
		cfg.Stat = statFile
	}
	return &Searcher{cfg: cfg}, nil
}

// candidates is how many passages each list gives to the fusion.
const candidates = 400

// maxExcluded bounds the passages that exclusions may name.
const maxExcluded = 5000

// Search answers one request. Its errors are an [*InvalidError] for a request
// that makes no sense, the context's, and the store's; an engine that does not
// answer is no error but a Degradation.
func (s *Searcher) Search(ctx context.Context, req Request) (Reply, error) {
	began := time.Now()
	req, err := req.check()
	if err != nil {
		return Reply{}, err
	}
	q, err := parse(req.Query, document.Filter{Folders: req.Folders, Path: req.Path, Kinds: req.Kinds, After: req.After, Before: req.Before})
	if err != nil {
		return Reply{}, err
	}
	run := search{Searcher: s, req: req, q: q}
	run.lists.groups = q.groups
	run.lists.set = termsOf(q.groups)
	if err := run.gather(ctx); err != nil {
		return Reply{}, err
	}
	ranked := fuse(run.lists)
	assess(q, run.lists, ranked)
	if err := run.answer(ctx, ranked); err != nil {
		return Reply{}, err
	}
	run.reply.Timings.Total = milliseconds(began)
	return run.reply, nil
}

// search is one request under way.
type search struct {
	*Searcher
	req         Request
	q           query
	lists       lists
	fingerprint string
	generation  document.Generation // that was searched; its zero value while none was
	standing    document.Standing
	degraded    []Degradation // of the semantic side; joined when its goroutine is done
	reply       Reply
}

// gather asks for both lists at once.
func (s *search) gather(ctx context.Context) error {
	var excluded []document.Hit
	if len(s.q.excluded) > 0 {
		reply, err := s.cfg.Store.Lexical(ctx, document.LexicalQuery{Terms: plainTerms(s.q.excluded), Filter: s.q.filter, Limit: maxExcluded})
		if err != nil {
			return err
		}
		excluded = reply.Hits
		s.lists.excluded = documentsOf(excluded)
	}
	limit := candidates + len(excluded)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		s.standing, err = s.cfg.Store.Standing(ctx)
		s.reply.Index = Index{Pending: s.standing.Pending, LastScan: s.standing.LastScan}
		return err
	})
	work.Go(func() error { return s.byWords(ctx, limit) })
	if s.req.Mode != Lexical && s.cfg.Embedder != nil {
		work.Go(func() error { return s.byMeaning(ctx, limit) })
	} else if s.req.Mode == Semantic {
		s.degraded = append(s.degraded, EngineUnavailable)
	}
	if err := work.Wait(); err != nil {
		return err
	}
	s.reply.Degraded = append([]Degradation{}, s.degraded...)
	if s.lists.set.dropped {
		s.reply.Degraded = append(s.reply.Degraded, TermsDropped)
	}
	if s.req.Rerank == RerankOn {
		s.reply.Degraded = append(s.reply.Degraded, RerankUnavailable)
	}
	switch g := s.generation; {
	case !s.lists.semanticUse:
	case !g.Whole() && g.Missing() > 0:
		s.reply.Degraded = append(s.reply.Degraded, Rebuilding)
		s.reply.Index.Rebuilding = &Rebuild{Embedded: g.Embedded, Texts: g.Texts}
	case s.reply.Index.Pending > 0:
		s.reply.Degraded = append(s.reply.Degraded, VectorsPending)
	}
	return nil
}

// byWords fills the lexical list. What is quoted is asked for once more, all
// of it together: those documents alone may be results.
func (s *search) byWords(ctx context.Context, limit int) error {
	began := time.Now()
	defer func() { s.reply.Timings.Lexical = milliseconds(began) }()
	var quoted []string
	for _, g := range s.q.groups {
		if g.quoted {
			quoted = append(quoted, g.text)
		}
	}
	if len(quoted) > 0 {
		reply, err := s.cfg.Store.Lexical(ctx, document.LexicalQuery{Terms: plainTerms(quoted), All: true, Filter: s.q.filter, Limit: maxExcluded})
		if err != nil {
			return err
		}
		s.lists.required = documentsOf(reply.Hits)
	}
	if s.req.Mode == Semantic { // the number of passages is still needed
		reply, err := s.cfg.Store.Lexical(ctx, document.LexicalQuery{Limit: 1})
		s.lists.lexical.Total = reply.Total
		return err
	}
	reply, err := s.cfg.Store.Lexical(ctx, document.LexicalQuery{Terms: s.lists.set.terms, Filter: s.q.filter, Limit: limit})
	if err != nil {
		return err
	}
	s.lists.wordsUse, s.lists.lexical, s.lists.lexicalFull = true, reply, len(reply.Hits) == limit
	return nil
}

// byMeaning fills the semantic list. No vector within the wait costs the list,
// not the search.
func (s *search) byMeaning(ctx context.Context, limit int) error {
	if s.q.text == "" {
		return nil
	}
	began := time.Now()
	e, err := s.embed(ctx, s.q.text)
	s.reply.Timings.Embed = milliseconds(began)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnknown):
		s.degraded = append(s.degraded, QueryUnknown)
		return nil
	case errors.Is(err, ErrNotInTime):
		s.degraded = append(s.degraded, EngineTimeout)
		return nil
	case err != nil:
		s.degraded = append(s.degraded, EngineUnavailable)
		return nil
	}
	began = time.Now()
	defer func() { s.reply.Timings.Semantic = milliseconds(began) }()
	found, err := s.cfg.Store.Semantic(ctx, e.fingerprint, e.vector, s.q.filter, limit)
	if err != nil {
		return err
	}
	s.lists.semantic, s.generation = found.Hits, found.Generation
	s.lists.semanticFull = len(s.lists.semantic) == limit
	s.lists.semanticUse, s.lists.trust, s.lists.blank, s.fingerprint = true, s.cfg.Trust(e.fingerprint), e.blank, e.fingerprint
	return nil
}

// answer turns candidates into results, looking at each file on the way.
func (s *search) answer(ctx context.Context, ranked []candidate) error {
	began := time.Now()
	defer func() { s.reply.Timings.Passages = milliseconds(began) }()
	var kept []candidate
	var results []Result
	weight := markWeights(s.lists)
	want := max(s.req.Limit, DefaultLimit) // whether there is evidence must not hang on how much is shown
	for len(ranked) > 0 && len(results) < want {
		batch := ranked[:min(len(ranked), want-len(results))]
		ranked = ranked[len(batch):]
		ids := make([]document.ChunkID, len(batch))
		for i, c := range batch {
			ids[i] = c.chunk
		}
		passages, err := s.cfg.Store.Passages(ctx, ids, s.lists.set.terms)
		if err != nil {
			return err
		}
		byChunk := make(map[document.ChunkID]document.Passage, len(passages))
		for _, p := range passages {
			byChunk[p.Chunk.ID] = p
		}
		for _, c := range batch {
			p, ok := byChunk[c.chunk]
			if !ok {
				continue // replaced or removed since the list was made
			}
			if r, ok := s.result(c, p, weight); ok {
				results, kept = append(results, r), append(kept, c)
			}
		}
	}
	s.reply.Evidence = judge(s.lists, kept, s.standing)
	s.reply.Results, s.reply.NearMisses = []Result{}, []Result{}
	for i, c := range kept {
		switch {
		case !c.signal && c.evidence == "": // in a small index the lists hold everything
		case s.reply.Evidence.Found && !c.missesPhrase && len(s.reply.Results) < s.req.Limit:
			s.reply.Results = append(s.reply.Results, results[i])
		case !s.reply.Evidence.Found && c.score > 0 && len(s.reply.NearMisses) < min(nearMisses, s.req.Limit):
			s.reply.NearMisses = append(s.reply.NearMisses, results[i])
		}
	}
	return nil
}

// nearMisses is the most that are shown when there is no evidence.
const nearMisses = 3

func (s *search) result(c candidate, p document.Passage, weight []float64) (Result, bool) {
	file := filepath.Join(p.Folder, filepath.FromSlash(p.Document.Path))
	stale := s.check(file, p)
	if stale == StaleGone {
		s.reply.Index.StaleRemoved++
		return Result{}, false
	}
	r := Result{
		Document: p.Document.ID, Path: file, Title: titleOf(p.Document), Kind: p.Document.Kind, Modified: p.Document.Modified,
		Location: Location{Lines: []int{p.Chunk.Line, p.Chunk.LastLine}, Heading: p.Chunk.Heading},
		Snippet:  snippetOf(p, weight), Score: c.score, Stale: stale != "", StaleReason: stale,
		State: p.Document.State, Chunk: c.chunk,
	}
	if r.State == document.Failed {
		r.Reason = p.Document.Reason
	}
	if s.req.Explain {
		r.Explain = s.explain(c)
	}
	return r, true
}

// titleOf falls back to the file's name, made here so that a rename needs no new title.
func titleOf(d document.Document) string {
	if d.Title != "" {
		return d.Title
	}
	base := norm.NFC.String(path.Base(d.Path))
	if stem := strings.TrimSuffix(base, path.Ext(base)); stem != "" && d.Kind != document.KindCode {
		return stem
	}
	return base
}

func (s *search) explain(c candidate) *Explain {
	e := &Explain{LexicalRank: c.lexicalRank, SemanticRank: c.semanticRank, BM25: c.bm25, Coverage: c.coverage,
		Words: c.words, Meaning: c.meaning, Fingerprint: s.fingerprint}
	if !math.IsNaN(c.cosine) {
		e.Cosine, e.Distance = &c.cosine, &c.distance
	}
	for _, i := range c.matched {
		e.Matched = append(e.Matched, s.lists.set.terms[i].Text)
	}
	return e
}

// markWeights is how much each term draws the snippet; stop words not at all,
// unless nothing else was asked for.
func markWeights(in lists) []float64 {
	idf := inverseFrequencies(in)
	weights := make([]float64, len(in.set.terms))
	for i, t := range in.set.terms {
		if g := in.set.group[i]; g >= 0 && in.groups[g].common {
			continue
		}
		weights[i] = t.Weight * (idf[i] + 0.01)
	}
	return weights
}

func plainTerms(texts []string) []document.Term {
	terms := make([]document.Term, min(len(texts), document.MaxTerms))
	for i := range terms {
		terms[i] = document.Term{Text: texts[i]}
	}
	return terms
}

func documentsOf(hits []document.Hit) map[document.ID]bool {
	set := make(map[document.ID]bool, len(hits))
	for _, h := range hits {
		set[h.Document] = true
	}
	return set
}

func milliseconds(since time.Time) float64 {
	return math.Round(float64(time.Since(since))/float64(time.Microsecond)) / 1000
}

// ErrNotInTime is what an Embedder's error wraps when the engine is too busy.
var ErrNotInTime = errors.New("the engine did not answer in time")

// errUnknown is returned for a query of which the model knows nothing.
var errUnknown = errors.New("query is unknown to the model")
