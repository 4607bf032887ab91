package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// prose makes passages of about 1.2 KB of Korean and English whose words are
// distributed as in real text: few are frequent, most are rare.
type prose struct {
	r    *rand.Rand
	zipf *rand.Zipf
}

func newProse() prose {
	r := rand.New(rand.NewPCG(5, 6))
	return prose{r: r, zipf: rand.NewZipf(r, 1.1, 4, 20000)}
}

func (p prose) word() string {
	n := p.zipf.Uint64()
	if n%2 == 0 {
		return latin(n)
	}
	particle := []string{"", "을", "이", "에서", "는"}[p.r.IntN(5)]
	return string([]rune{rune(0xAC00 + n*7%11000), rune(0xAC00 + n*31%11000)}) + particle
}

// latin writes a number in letters.
func latin(n uint64) string {
	w := []byte("ka")
	for ; n > 0; n /= 20 {
		w = append(w, "bcdfghjklmnpqrtvwxza"[n%20], "aeiou"[n%5])
	}
	return string(w)
}

func (p prose) passage() string {
	var b strings.Builder
	for b.Len() < 1200 {
		b.WriteString(p.word())
		b.WriteByte(' ')
	}
	return b.String()
}

// filled is an index of n passages in documents of ten, with vectors of dimension dim.
func filled(b *testing.B, n, dim int) (*sqlite.DB, document.FolderID) {
	b.Helper()
	db, err := sqlite.Open(filepath.Join(b.TempDir(), "index.db"))
	check(b, err)
	b.Cleanup(func() { check(b, db.Close()) })
	f := folder(b, db, "/docs")
	p := newProse()
	for i := range n / 10 {
		insert(b, db, f, p, fmt.Sprintf("%d/%d.md", i%10, i), dim)
	}
	return db, f
}

func insert(b *testing.B, db *sqlite.DB, f document.FolderID, p prose, path string, dim int) {
	b.Helper()
	passages := make([]string, 10)
	for i := range passages {
		passages[i] = p.passage()
	}
	text := chunked(passages...)
	check(b, db.ApplyScan(b.Context(), f, document.Changes{Found: []document.File{file(path)}}))
	pending, err := db.PendingText(b.Context(), f, epoch, 1)
	check(b, err)
	text.File = file(path)
	_, err = db.SaveText(b.Context(), pending[0].ID, text)
	check(b, err)
	if dim == 0 {
		return
	}
	vectors := make(map[document.Hash][]float32)
	for _, c := range text.Chunks {
		vectors[c.Hash()] = unit(c.Hash(), dim)
	}
	_, err = db.SaveVectors(b.Context(), pending[0].ID, fingerprint, dim, vectors)
	check(b, err)
}

// One document of ten passages, from the scan to its vectors: three transactions.
func BenchmarkInsert(b *testing.B) {
	db, f := filled(b, 10, 1024)
	p := newProse()
	i := 0
	for b.Loop() {
		insert(b, db, f, p, fmt.Sprintf("new/%d.md", i), 1024)
		i++
	}
	b.ReportMetric(float64(i)*10/b.Elapsed().Seconds(), "passages/s")
}

func BenchmarkLexical(b *testing.B) {
	db, f := filled(b, 10000, 16)
	p := newProse()
	queries := map[string][]document.Term{
		"Rare": terms(latin(15000), latin(12002)), "Question": nil, "OneCharacter": terms("글"),
	}
	for range 8 {
		queries["Question"] = append(queries["Question"], document.Term{Text: p.word()})
	}
	for name, query := range queries {
		for filtered, filter := range map[string]document.Filter{"": {}, "/Filtered": {Path: "3", Folders: []document.FolderID{f}}} {
			b.Run(name+filtered, func(b *testing.B) {
				for b.Loop() {
					_, err := db.Lexical(b.Context(), document.LexicalQuery{Terms: query, Filter: filter, Limit: 50})
					check(b, err)
				}
			})
		}
	}
}

func BenchmarkSemantic(b *testing.B) {
	for _, dim := range []int{128, 1024} {
		db, _ := filled(b, 10000, dim)
		q := unit("q", dim)
		for name, filter := range map[string]document.Filter{"": {}, "/Filtered": {Path: "3"}} {
			b.Run(fmt.Sprintf("10000x%d%s", dim, name), func(b *testing.B) {
				for b.Loop() {
					reply, err := db.Semantic(b.Context(), fingerprint, q, filter, 50)
					check(b, err)
					if len(reply.Hits) != 50 {
						b.Fatalf("%d hits", len(reply.Hits))
					}
				}
			})
		}
	}
}

func BenchmarkPassages(b *testing.B) {
	db, _ := filled(b, 1000, 16)
	p := newProse()
	query := terms(p.word(), p.word(), p.word(), "글")
	list := make([]document.ChunkID, 10)
	for i := range list {
		list[i] = document.ChunkID(1 + 37*i)
	}
	for b.Loop() {
		_, err := db.Passages(b.Context(), list, query)
		check(b, err)
	}
}
