package document

import "time"

// Filter narrows a search before the best hits are chosen. The zero value
// lets everything pass; every field that is set must hold.
type Filter struct {
	Folders []FolderID // in any of these; empty means all
	// Path is a file or directory ("notes/2026" holds everything below it) or,
	// when it has any of * ? [ in it, a glob over the whole path in which *
	// also crosses slashes. Relative to the folder, or absolute when it starts
	// with a slash. Compared in NFC.
	Path   string
	Kinds  []Kind    // any of these; empty means all
	After  time.Time // modified at or after; zero means no bound
	Before time.Time // modified before; zero means no bound
}

// Empty reports whether everything passes.
func (f Filter) Empty() bool {
	return len(f.Folders) == 0 && f.Path == "" && len(f.Kinds) == 0 && f.After.IsZero() && f.Before.IsZero()
}

// Term is one word or phrase of a query. It is cut exactly as the index cuts
// text; when that gives several pieces ("getUserId", "예산안", "2026.4.10")
// they must stand in the text in this order, one after the other.
type Term struct {
	Text   string  // NFC; any characters, nothing in it is query syntax
	Weight float64 // multiplies the term's share of the score; 0 means 1
	Prefix bool    // the last piece may be the beginning of a longer one
}

// Weights says how much a word counts by where it stands.
type Weights struct {
	Name    float64 // title and path of the document
	Heading float64 // headings above the passage
	Body    float64 // the passage itself
}

// DefaultWeights is used where LexicalQuery.Weights is zero.
var DefaultWeights = Weights{Name: 2, Heading: 1.5, Body: 1}

// MaxTerms is the largest number of terms in one lexical query.
const MaxTerms = 63

// LexicalQuery asks for the passages that hold any of the terms.
type LexicalQuery struct {
	Terms   []Term // joined by OR; at most MaxTerms; terms without any letter or digit match nothing
	All     bool   // join by AND instead: only passages that hold every term that can match anything
	Filter  Filter
	Weights Weights // zero means DefaultWeights
	Limit   int     // > 0
}

// Hit is one passage found. Lexical: Score is the weighted BM25, > 0, higher
// is better, comparable only within one reply. Semantic: Score is the raw
// cosine, -1 … 1, comparable across queries of one fingerprint.
type Hit struct {
	Chunk    ChunkID
	Document ID
	Score    float64
	Matched  []int // lexical only: indices into LexicalQuery.Terms that stand in the passage, its heading or its document's name; ascending
}

// LexicalReply is the answer to a LexicalQuery.
type LexicalReply struct {
	Hits      []Hit   // best first; equal scores by chunk id
	Frequency []int64 // per term: passages of the whole index (no filter applied) that hold it
	Total     int64   // passages in the whole index
}

// Mark is a stretch of Passage.Chunk.Text that made a term match.
type Mark struct {
	Start, End int // byte offsets into Text, on rune boundaries, Start < End
	Term       int // index into the terms asked for
}

// Passage is everything a result shows of one chunk.
type Passage struct {
	Chunk    Chunk
	Document Document
	Folder   string // absolute path of the folder
	FileID   string // of the file when it was recorded, for the check that it is still the same
	Marks    []Mark // ascending by Start; marks of different terms may overlap
}

// DocumentQuery pages through the documents in order of id.
type DocumentQuery struct {
	Folder FolderID // 0 means all
	State  State    // empty means all
	Path   string   // as Filter.Path; empty means all
	File   string   // only what lies at exactly this path, relative or absolute, whatever characters it has; empty means all
	Kinds  []Kind   // any of these; empty means all
	After  ID       // only ids above it; 0 starts at the beginning
	Limit  int      // > 0
}
