package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/sqlite"
)

func TestOpenMakesPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a dir?#%20", "nested", "index.db")
	db := must(sqlite.Open(path))(t)
	defer db.Close()
	folder(t, db, "/docs")
	for p, want := range map[string]os.FileMode{path: 0o600, path + "-wal": 0o600, filepath.Dir(path): 0o700} {
		if info := must(os.Stat(p))(t); info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", p, info.Mode().Perm(), want)
		}
	}
}

func TestPragmas(t *testing.T) {
	db := open(t)
	for _, pool := range []struct {
		name string
		db   *sql.DB
		want map[string]string
	}{
		{"writer", db.Raw(), map[string]string{"journal_mode": "wal", "foreign_keys": "1", "page_size": "16384", "mmap_size": "0",
			"busy_timeout": "10000", "synchronous": "1", "auto_vacuum": "2", "user_version": "4", "application_id": "1332634732"}},
		{"reader", db.Readers(), map[string]string{"query_only": "1", "mmap_size": "0", "busy_timeout": "10000"}},
	} {
		for pragma, want := range pool.want {
			var got string
			check(t, pool.db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			if got != want {
				t.Errorf("%s: %s is %s, want %s", pool.name, pragma, got, want)
			}
		}
	}
	if _, err := db.Readers().ExecContext(t.Context(), "DELETE FROM folders"); err == nil {
		t.Error("a reader may write")
	}
}

func TestReopenEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	for range 2 {
		db := must(sqlite.Open(path))(t)
		sound(t, db)
		check(t, db.Close())
	}
}

func TestReopenKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db := must(sqlite.Open(path))(t)
	add(t, db, folder(t, db, "/docs"), "a.md", chunked("예산안을 승인했다"))
	check(t, db.Close())
	db = must(sqlite.Open(path))(t)
	defer db.Close()
	if got := found(t, db, "예산"); !slices.Equal(got, []string{"a.md"}) {
		t.Errorf("after reopening 예산 finds %v", got)
	}
	sound(t, db)
}

// What a kill leaves of a new file: everything still in the log, or the first
// pages of it folded into the file.
func TestOpenAfterAKill(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "index.db")
	db := must(sqlite.Open(path))(t)
	add(t, db, folder(t, db, "/docs"), "a.md", chunked("예산안을 승인했다"))
	file, log := must(os.ReadFile(path))(t), must(os.ReadFile(path+"-wal"))(t)
	check(t, db.Close())
	folded := must(os.ReadFile(path))(t)
	if bytes.Equal(file, folded) {
		t.Fatal("the log was empty")
	}
	for name, c := range map[string]struct {
		file, log []byte
		want      []string
	}{
		"all in the log":       {file, log, []string{"a.md"}},
		"half folded in":       {folded[:3*16384], log, []string{"a.md"}},
		"killed at its making": {file, nil, []string{}},
		"nothing written yet":  {nil, nil, []string{}},
	} {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, c.file, 0o600))
		check(t, os.WriteFile(path+"-wal", c.log, 0o600))
		db, err := sqlite.Open(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := found(t, db, "예산"); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v", name, got)
		}
		sound(t, db)
		check(t, db.Close())
	}
}

// Every file that cannot be used is refused with its remedy and left as it is.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	db := must(sqlite.Open(good))(t)
	add(t, db, folder(t, db, "/docs"), "a.md", chunked(numbered("passage number %d about nothing much at all", 2000)...))
	check(t, db.Close())
	sample := must(os.ReadFile(good))(t)
	changed := func(offset int, b ...byte) []byte {
		c := bytes.Clone(sample)
		copy(c[offset:], b)
		return c
	}
	for _, c := range []struct {
		name   string
		data   []byte
		is     func(error) bool
		remedy string
	}{
		{"text.db", []byte(strings.Repeat("this is a diary, not a database. ", 10)), is[*sqlite.CorruptError], "move it away"},
		{"short.db", sample[:50], is[*sqlite.CorruptError], "move it away"},
		{"cut.db", sample[:len(sample)/2], is[*sqlite.CorruptError], "move it away"},
		{"schema.db", changed(100, bytes.Repeat([]byte{0xA5}, 4000)...), is[*sqlite.CorruptError], "move it away"},
		{"newer.db", changed(60, 0, 0, 0, 99), is[*sqlite.NewerError], "update Ondol"},
		{"unnamed.db", changed(68, 0, 0, 0, 0), is[*sqlite.ForeignError], "another program"},
		{"other.db", changed(68, 1, 2, 3, 4), is[*sqlite.ForeignError], "another program"},
	} {
		path := filepath.Join(dir, c.name)
		check(t, os.WriteFile(path, c.data, 0o600))
		db, err := sqlite.Open(path)
		if err == nil {
			db.Close()
			t.Errorf("%s: opened", c.name)
			continue
		}
		if !c.is(err) || !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !bytes.Equal(must(os.ReadFile(path))(t), c.data) {
			t.Errorf("%s: the file was changed", c.name)
		}
	}
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// Whatever happens to the full-text index, the next start finds everything again.
func TestWordsAreRebuilt(t *testing.T) {
	for name, damage := range map[string][]string{
		"gone":            {"DROP TABLE passages"},
		"other tokenizer": {"DROP TABLE passages", "CREATE VIRTUAL TABLE passages USING fts5 (name, heading, body, content = '', contentless_delete = 1)"},
		"row missing":     {"DELETE FROM passages WHERE rowid = 2"},
		"row too many":    {"INSERT INTO passages (rowid, body) VALUES (99, 'phantom')"},
		"segments gone":   {"DELETE FROM passages_data WHERE id > 10"},
		"structure":       {"UPDATE passages_data SET block = x'00112233445566778899' WHERE id = 10"},
		"averages":        {"UPDATE passages_data SET block = x'ff' WHERE id = 1"},
		"garbage":         {"UPDATE passages_data SET block = randomblob(length(block)) WHERE id > 10"},
		"no config":       {"DROP TABLE passages_config"},
		"other words":     {"DELETE FROM passages", "INSERT INTO passages (rowid, body) SELECT id, 'phantom' FROM chunks"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "index.db")
			db := must(sqlite.Open(path))(t)
			f := folder(t, db, "/docs")
			add(t, db, f, "a.md", chunked("예산안을 승인했다", "the second passage of it"))
			add(t, db, f, "b.md", chunked("회의록", "another second passage"))
			for _, q := range damage {
				if _, err := db.Raw().ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			check(t, db.Close())
			db = must(sqlite.Open(path))(t)
			defer db.Close()
			for query, want := range map[string][]string{"예산": {"a.md"}, "second": {"a.md", "b.md"}, "phantom": {}} {
				if diff := cmp.Diff(want, found(t, db, query)); diff != "" {
					t.Errorf("%q:\n%s", query, diff)
				}
			}
			sound(t, db)
		})
	}
}

// Damage that comes up while the index is open is repaired on the way.
func TestWordsAreRebuiltByASearch(t *testing.T) {
	db := open(t)
	add(t, db, folder(t, db, "/docs"), "a.md", chunked("예산안을 승인했다"))
	if _, err := db.Raw().ExecContext(t.Context(), "DELETE FROM passages_data WHERE id > 10"); err != nil {
		t.Fatal(err)
	}
	if got := found(t, db, "예산"); !slices.Equal(got, []string{"a.md"}) {
		t.Errorf("found %v", got)
	}
	sound(t, db)
}

func TestFoldersMayNotOverlap(t *testing.T) {
	db := open(t)
	folder(t, db, "/home/a/docs")
	for path, inside := range map[string]bool{"/home/a/docs/work": true, "/home/a": false, "/": false} {
		_, err := db.AddFolder(t.Context(), path)
		var overlap *document.FolderOverlapError
		if !errors.As(err, &overlap) || overlap.Inside != inside || overlap.Existing != "/home/a/docs" {
			t.Errorf("%s: %v", path, err)
		}
		if err != nil && strings.Contains(err.Error(), "searchable through") { // it may be left out there
			t.Errorf("%s: %v promises too much", path, err)
		}
	}
	if _, err := db.AddFolder(t.Context(), "/home/a/docs"); !errors.Is(err, sqlite.ErrFolderExists) {
		t.Errorf("a second time: %v", err)
	}
	for _, path := range []string{"", "docs", "/home/../x", "/x/"} {
		if _, err := db.AddFolder(t.Context(), path); err == nil {
			t.Errorf("%q was added", path)
		}
	}
	folder(t, db, "/home/a/docs2") // shares a beginning, is another folder
	folder(t, db, "/home/b/\ucd08\uc548")
	// The same name as macOS may spell it.
	if _, err := db.AddFolder(t.Context(), "/home/b/\u110e\u1169\u110b\u1161\u11ab"); !errors.Is(err, sqlite.ErrFolderExists) {
		t.Errorf("decomposed spelling: %v", err)
	}
	if n := len(must(db.Folders(t.Context()))(t)); n != 3 {
		t.Errorf("%d folders", n)
	}
}
