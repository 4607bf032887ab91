package sqlite

import (
	"context"
	"embed"
	"fmt"
	"strings"
)

// Migrations are numbered from 1 without a gap. A published one is never edited.
//
//go:embed sql
var scripts embed.FS

// migrations lists the scripts in order; index i takes the schema from version i to i+1.
func migrations() []string {
	return []string{"0001_index.sql", "0002_journal.sql", "0003_generations.sql", "0004_trust.sql"}
}

// schemaVersion is the newest schema this program knows.
func schemaVersion() int { return len(migrations()) }

// migrate brings the schema up to date, each step in a transaction of its own.
func (db *DB) migrate(ctx context.Context) error {
	var have int
	if err := db.write.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	// The header of the file may be older than the log beside it.
	if have > schemaVersion() {
		return &NewerError{Path: db.path, Have: have, Known: schemaVersion()}
	}
	var id uint32
	var tables int
	if err := db.write.QueryRowContext(ctx, "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id").Scan(&id, &tables); err != nil {
		return fmt.Errorf("read application id: %w", err)
	}
	if tables > 0 && id != applicationID {
		return &ForeignError{Path: db.path, ID: id}
	}
	for v := have; v < schemaVersion(); v++ {
		name := migrations()[v]
		script, err := scripts.ReadFile("sql/" + name)
		if err != nil {
			return fmt.Errorf("read migration: %w", err)
		}
		stamp := fmt.Sprintf("\nPRAGMA user_version = %d;\nPRAGMA application_id = %d;", v+1, applicationID)
		err = db.update(ctx, func(tx *tx) error { return tx.exec(string(script) + stamp) })
		if err != nil {
			return fmt.Errorf("run migration %s: %w", name, err)
		}
	}
	return nil
}

// passagesDDL is the definition of the full-text table as SQLite stores it.
func passagesDDL() (string, error) {
	script, err := scripts.ReadFile("sql/passages.sql")
	if err != nil {
		return "", fmt.Errorf("read full-text definition: %w", err)
	}
	text := string(script)
	return strings.TrimSpace(text[strings.Index(text, "CREATE VIRTUAL TABLE"):]), nil
}
