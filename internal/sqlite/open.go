package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

const (
	// applicationID marks the file as an index of Ondol: "Ondl" in ASCII.
	applicationID = 0x4F6E646C
	// pageSize lets rows of half-precision vectors fit well: with 4096 bytes a
	// 1024-dimension vector takes twice the room and three times the time to read.
	pageSize = 16384
	// ReadConnections is how many connections may read at once; search asks
	// for two at a time, status and the window for one each.
	ReadConnections = 8
	// DefaultGrace is how long vectors outlive the last document that holds their text.
	DefaultGrace = 7 * 24 * time.Hour
)

// Config says how to open the index. Only Path is required.
type Config struct {
	Path  string           // of the database file; missing directories are made, 0700
	Grace time.Duration    // how long vectors of a vanished text are kept; 0 means DefaultGrace
	Now   func() time.Time // nil means time.Now

	Events   int           // how many events the journal keeps; 0 means DefaultEvents
	EventAge time.Duration // how long it keeps an event; 0 means DefaultEventAge
}

// DB is the open index. Its methods may be called from any goroutine.
type DB struct {
	path  string
	grace time.Duration
	now   func() time.Time
	// journal is nil in the file of a VectorCache, which has none.
	journal *journal
	// write has one connection: the queue of writers is the pool's own, first come first served.
	write *sql.DB
	// read has several connections that refuse to write.
	read *sql.DB
}

// Open opens the index at path with the default settings.
func Open(path string) (*DB, error) { return OpenConfig(context.Background(), Config{Path: path}) }

// OpenConfig opens the index, makes it when the file is missing or empty,
// brings its schema up to date and repairs the full-text index. It returns
// *CorruptError, *ForeignError or *NewerError without having changed a file
// that it cannot use.
func OpenConfig(ctx context.Context, c Config) (*DB, error) {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	if err := inspect(path); err != nil {
		return nil, err
	}
	db := &DB{path: path, grace: c.Grace, now: c.Now, journal: newJournal(c.Events, c.EventAge),
		write: openPool(path, "rwc", 1), read: openPool(path, "ro", ReadConnections)}
	if err := db.prepare(ctx); err != nil {
		db.Close()
		var foreign *ForeignError
		switch {
		case damaged(err):
			return nil, &CorruptError{Path: path, Err: err}
		case errors.As(err, &foreign):
			return nil, err
		}
		return nil, fmt.Errorf("open index %s: %w", path, err)
	}
	return db, nil
}

func (db *DB) prepare(ctx context.Context) error {
	if err := db.checkOwner(ctx); err != nil {
		return err
	}
	if err := db.migrate(ctx); err != nil {
		return err
	}
	return db.checkWords(ctx)
}

// Close waits for the calls under way and closes the file. The write-ahead log
// is folded into it by the last connection.
func (db *DB) Close() error { return errors.Join(db.read.Close(), db.write.Close()) }

// Path is the absolute path of the database file.
func (db *DB) Path() string { return db.path }

// inspect looks at the file without SQLite, which would recover, lock or
// truncate files beside it, and creates it, private, when it is missing.
func inspect(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// SQLite gives the files beside it the same permissions.
		f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	defer f.Close()
	// https://www.sqlite.org/fileformat.html#the_database_header
	header := make([]byte, 100)
	n, err := io.ReadFull(f, header)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &CorruptError{Path: path, Err: errors.New("the header is cut off")}
	case err != nil:
		return fmt.Errorf("open index: %w", err)
	case string(header[:16]) != "SQLite format 3\x00":
		return &CorruptError{Path: path, Err: errors.New("it is no SQLite database")}
	}
	if id := binary.BigEndian.Uint32(header[68:]); id != applicationID && id != 0 {
		return &ForeignError{Path: path, ID: id}
	}
	if have := int(binary.BigEndian.Uint32(header[60:])); have > schemaVersion() {
		return &NewerError{Path: path, Have: have, Known: schemaVersion()}
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return nil // the rest of the file may still be in the log
	}
	size := int64(binary.BigEndian.Uint16(header[16:]))
	if size == 1 {
		size = 65536
	}
	pages := int64(binary.BigEndian.Uint32(header[28:]))
	if info, err := f.Stat(); err == nil && info.Size() < size*pages {
		return &CorruptError{Path: path, Err: fmt.Errorf("it has %d bytes, its header says %d", info.Size(), size*pages)}
	}
	return nil
}

// checkOwner asks SQLite, log included, whose file it is: one that was killed
// while it was made has our mark only in the log, or nothing in it at all.
func (db *DB) checkOwner(ctx context.Context) error {
	var id uint32
	var tables int
	err := db.view(ctx, func(tx *tx) error {
		if err := tx.one("PRAGMA application_id", nil, &id); err != nil {
			return fmt.Errorf("read application id: %w", err)
		}
		if err := tx.one("SELECT count(*) FROM sqlite_schema", nil, &tables); err != nil {
			return fmt.Errorf("read schema: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if id != applicationID && (id != 0 || tables > 0) {
		return &ForeignError{Path: db.path, ID: id}
	}
	return nil
}

// connector opens the connections of one pool.
type connector struct {
	dsn     string
	pragmas []string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return connect(c.dsn, c.pragmas) }

// Driver is asked for by sql.DB.Driver only, which nobody calls.
func (c connector) Driver() driver.Driver { return nil }

// openPool makes a pool without opening a connection.
func openPool(path, mode string, size int) *sql.DB {
	// busy_timeout comes first: the pragmas after it may have to wait for a lock.
	pragmas := []string{"busy_timeout = 10000"}
	if mode == "rwc" {
		// These two count only while the file is empty.
		pragmas = append(pragmas, fmt.Sprintf("page_size = %d", pageSize), "auto_vacuum = INCREMENTAL",
			"journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON",
			"journal_size_limit = 67108864", // bytes the log keeps after a checkpoint
			"cache_size = -32000")           // KiB, when negative
	} else {
		pragmas = append(pragmas, "query_only = ON", "cache_size = -8000")
	}
	// Mapped files gain little and have corrupted databases on macOS.
	pragmas = append(pragmas, "mmap_size = 0")
	q := url.Values{"mode": {mode}, "_txlock": {"deferred"}, "_stmt_cache_size": {"64"}}
	if mode == "rwc" {
		q.Set("_txlock", "immediate")
	}
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
	db := sql.OpenDB(connector{dsn: dsn, pragmas: pragmas})
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db
}
