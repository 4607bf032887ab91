package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
)

// Token is what a test sees of one token.
type Token struct {
	Text                 string
	Position, Start, End int
}

// Cut cuts text as the index does.
func (db *DB) Cut(ctx context.Context, text string, query bool) ([]Token, error) {
	var all []Token
	err := db.view(ctx, func(tx *tx) error {
		tokens, err := tx.cut(text, query)
		for _, t := range tokens {
			all = append(all, Token{t.text, t.position, t.start, t.end})
		}
		return err
	})
	return all, err
}

// Raw is the writer's connection, for tests that damage or inspect the file.
func (db *DB) Raw() *sql.DB { return db.write }

// Readers is the pool of readers.
func (db *DB) Readers() *sql.DB { return db.read }

// Full makes every Save from now on fail as on a full disk, until Reset.
func (c *VectorCache) Full(ctx context.Context) error {
	_, err := c.file.write.ExecContext(ctx, "PRAGMA max_page_count = 1")
	return err
}

// OpenOld makes an index of an earlier schema version and returns its connection.
func OpenOld(t testing.TB, path string, version int) *sql.DB {
	t.Helper()
	pool := openPool(path, "rwc", 1)
	for v, name := range migrations()[:version] {
		script, err := scripts.ReadFile("sql/" + name)
		if err == nil {
			_, err = pool.ExecContext(t.Context(), string(script)+fmt.Sprintf("\nPRAGMA user_version = %d;\nPRAGMA application_id = %d;", v+1, applicationID))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return pool
}
