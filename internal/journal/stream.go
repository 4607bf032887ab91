package journal

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/ondol-app/ondol/internal/event"
)

// ErrGone means that what follows a number cannot be told: it is no longer
// kept, or the number was never given, as after an older database was put back.
var ErrGone = errors.New("the events after this number are not in the journal")

// Source is the Store as a Stream needs it.
type Source interface {
	// Events lists at most limit events after seq, in order, with the span that
	// is kept at the same moment.
	Events(ctx context.Context, after uint64, limit int) ([]event.Event, event.Span, error)
	// EventSpan is the span alone.
	EventSpan(ctx context.Context) (event.Span, error)
	// Recorded gets a value after events were committed.
	Recorded() <-chan struct{}
}

const (
	// pageSize is how many numbers one page covers.
	pageSize = 256
	// maxPages bounds the memory: with events of 200 bytes, 3 MB.
	maxPages = 64
)

// Stream hands out the journal. Events never change, so the journal is cut into
// pages of fixed numbers, each read and encoded once for all readers; the
// newest page grows. Its methods may be called from any goroutine.
type Stream struct {
	source Source
	encode func(dst []byte, e event.Event) []byte

	mu      sync.Mutex
	version uint64           // guarded by mu; rises when events were committed
	changed chan struct{}    // guarded by mu; closed, and another one made, when version rises
	pages   map[uint64]*page // guarded by mu
	recent  []uint64         // guarded by mu; keys of pages, the one used last at the end
	readers int              // guarded by mu
}

// NewStream makes a stream whose readers get events as encode appends them to dst.
func NewStream(source Source, encode func(dst []byte, e event.Event) []byte) *Stream {
	return &Stream{source: source, encode: encode, changed: make(chan struct{}), pages: make(map[uint64]*page)}
}

// Run tells readers of what is committed, until ctx ends.
func (s *Stream) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.source.Recorded():
		}
		s.mu.Lock()
		s.version++
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
	}
}

// Join counts a reader until leave is called. Pages are kept while there is one.
func (s *Stream) Join() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.readers--; s.readers == 0 {
			clear(s.pages)
			s.recent = nil
		}
	}
}

// Changed is closed after the next commit of events. Taken before a Read that
// finds nothing, it misses none.
func (s *Stream) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Span is what the journal keeps now.
func (s *Stream) Span(ctx context.Context) (event.Span, error) { return s.source.EventSpan(ctx) }

// Read returns the next events after a number, encoded one behind the other,
// and the number of the last of them; nothing and after itself when there are
// none yet. The bytes are shared and must not be written to. The error is
// ErrGone or the Source's.
func (s *Stream) Read(ctx context.Context, after uint64) (encoded []byte, last uint64, err error) {
	p, version := s.page(after / pageSize)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.whole && p.version != version {
		if err := p.load(ctx, s.source, s.encode); err != nil {
			return nil, after, err
		}
		p.version = version
	}
	return p.after(after)
}

// page is the page of a key, and the version that it must be of.
func (s *Stream) page(key uint64) (*page, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[key]
	if p == nil {
		p = &page{first: key*pageSize + 1, version: s.version - 1}
		s.pages[key] = p
		if len(s.recent) >= maxPages {
			delete(s.pages, s.recent[0])
			s.recent = slices.Delete(s.recent, 0, 1)
		}
		s.recent = append(s.recent, key)
	} else if last := len(s.recent) - 1; s.recent[last] != key {
		i := slices.Index(s.recent, key)
		s.recent = append(slices.Delete(s.recent, i, i+1), key)
	}
	return p, s.version
}

// page is the events numbered first to first+pageSize-1, as far as they are
// known.
type page struct {
	first uint64 // constant

	mu      sync.Mutex // guards what follows; held while one reader loads for all
	version uint64     // of the stream when it was loaded
	whole   bool       // nothing will be added
	newest  uint64     // of the journal when it was loaded
	seqs    []uint64   // strictly rising
	ends    []int      // where the encoding of each ends; bytes below never change
	encoded []byte
}

func (p *page) load(ctx context.Context, source Source, encode func([]byte, event.Event) []byte) error {
	from, end := p.first-1, p.first+pageSize-1
	if n := len(p.seqs); n > 0 {
		from = p.seqs[n-1]
	}
	events, kept, err := source.Events(ctx, from, int(end-from))
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Seq > end {
			break // rows before it are gone
		}
		p.encoded = encode(p.encoded, e)
		p.seqs, p.ends = append(p.seqs, e.Seq), append(p.ends, len(p.encoded))
	}
	p.newest, p.whole = kept.Newest, kept.Newest >= end
	return nil
}

// after finds what follows a number of this page. Numbers have no holes, so a
// hole is events that are gone.
func (p *page) after(seq uint64) (encoded []byte, last uint64, err error) {
	i, _ := slices.BinarySearch(p.seqs, seq+1)
	switch {
	case i < len(p.seqs) && p.seqs[i] == seq+1:
		begin := 0
		if i > 0 {
			begin = p.ends[i-1]
		}
		return p.encoded[begin:len(p.encoded):len(p.encoded)], p.seqs[len(p.seqs)-1], nil
	case i == len(p.seqs) && seq == p.newest:
		return nil, seq, nil
	}
	return nil, seq, ErrGone
}
