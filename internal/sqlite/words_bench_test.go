package sqlite_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"
)

// BenchmarkWords compares ways to hold the words, for docs/adr/0001-fts5-tokenizer.md:
// passages put in, their room per byte of text, passages replaced, a search.
func BenchmarkWords(b *testing.B) {
	const n = 5000
	p := newProse()
	texts := make([]string, n)
	bytes := 0
	for i := range texts {
		texts[i] = p.passage()
		bytes += len(texts[i])
	}
	query := []string{p.word(), p.word(), p.word(), p.word()}
	plain := func(s string) string { return s }
	for _, way := range []struct {
		name, options string
		text          func(string) string
		external      bool
	}{
		{"OndolContentless", "content = '', contentless_delete = 1, tokenize = 'porter ondol'", plain, false},
		{"OndolExternal", "content = 'source', content_rowid = 'id', tokenize = 'porter ondol'", plain, true},
		{"ProjectedPairs", "content = '', contentless_delete = 1, tokenize = 'porter unicode61'", projectPairs, false},
		{"ProjectedPairsAndCharacters", "content = '', contentless_delete = 1, tokenize = 'porter unicode61'", projectAll, false},
		{"Unicode61", "content = '', contentless_delete = 1, tokenize = 'porter unicode61'", plain, false},
		{"Trigram", "content = '', contentless_delete = 1, tokenize = 'trigram'", plain, false},
	} {
		b.Run(way.name, func(b *testing.B) {
			db := open(b).Raw()
			for b.Loop() {
				run(b, db, "DROP TABLE IF EXISTS way", "DROP TABLE IF EXISTS source",
					"CREATE TABLE source (id INTEGER PRIMARY KEY, body TEXT)",
					"CREATE VIRTUAL TABLE way USING fts5 (body, "+way.options+")")
				start := time.Now()
				lap := func() float64 {
					d := time.Since(start).Seconds()
					start = time.Now()
					return d
				}
				tx, err := db.Begin()
				check(b, err)
				put := func(i int, text string) {
					_, err := tx.Exec("INSERT INTO way (rowid, body) VALUES (?, ?)", i, way.text(text))
					check(b, err)
				}
				for i, text := range texts {
					_, err := tx.Exec("INSERT INTO source VALUES (?, ?)", i, text)
					check(b, err)
					put(i, text)
				}
				check(b, tx.Commit())
				b.ReportMetric(n/lap(), "in/s")
				b.ReportMetric(float64(single(b, db, "SELECT sum(length(block)) FROM way_data"))/float64(bytes), "room")
				lap()
				tx, err = db.Begin()
				check(b, err)
				for i := 0; i < n; i += 5 {
					if way.external {
						_, err = tx.Exec("INSERT INTO way (way, rowid, body) VALUES ('delete', ?, ?)", i, texts[i])
					} else {
						_, err = tx.Exec("DELETE FROM way WHERE rowid = ?", i)
					}
					check(b, err)
					put(i, texts[i])
				}
				check(b, tx.Commit())
				b.ReportMetric(n/5/lap(), "replaced/s")
				const times = 50
				for range times {
					single(b, db, "SELECT count(*) FROM (SELECT rowid FROM way WHERE way MATCH ? ORDER BY bm25(way) LIMIT 50)",
						`"`+strings.Join(query, `" OR "`)+`"`)
				}
				b.ReportMetric(1e6*lap()/times, "µs/search")
			}
		})
	}
}

// projectPairs writes CJK runs as pairs, the last character after them.
func projectPairs(text string) string {
	var b strings.Builder
	for _, t := range reference(text, false) {
		b.WriteString(t.Text)
		b.WriteByte(' ')
	}
	return b.String()
}

// projectAll adds every CJK character on its own.
func projectAll(text string) string {
	var b strings.Builder
	b.WriteString(projectPairs(text))
	for _, r := range text {
		if r >= 0x80 {
			b.WriteRune(r)
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func run(b *testing.B, db *sql.DB, queries ...string) {
	b.Helper()
	for _, q := range queries {
		_, err := db.ExecContext(context.Background(), q)
		check(b, err)
	}
}

func single(b *testing.B, db *sql.DB, query string, args ...any) (n int64) {
	b.Helper()
	check(b, db.QueryRowContext(context.Background(), query, args...).Scan(&n))
	return n
}
