package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// cacheID marks the file as a cache of vectors: "OndV" in ASCII.
	cacheID = 0x4F6E6456
	// cacheVersion is the one schema this program reads; a file of another
	// version is begun anew.
	cacheVersion = 1
	// cachePage wastes least on rows of 4 and 10 KB (1024 and 2560 single
	// floats) that are read one by one: their overflow pages are filled.
	cachePage = 4096
	// logShare is the share of the limit that the log gets.
	logShare = 16
	// cacheReaders is how many requests may look something up at once.
	cacheReaders = 4
)

// errCacheClosed is returned after Close, and while a Reset has failed.
var errCacheClosed = errors.New("the cache is closed")

// VectorCacheConfig says how to open a cache of vectors. Both are required.
type VectorCacheConfig struct {
	Path     string // of the database file; missing directories are made, 0700
	MaxBytes int64  // what the file and its log may take on disk
}

// VectorCache is a cache of vectors in a file of its own. The file can be
// deleted at any time, also while it is open. Load may be called from any
// goroutine; the other methods from one at a time.
type VectorCache struct {
	path  string
	max   int64
	bytes atomic.Int64 // of the file at the last Save

	mu   sync.RWMutex // held for reading while file is used by Load
	file *cacheFile   // guarded by mu; nil = closed
}

// cacheFile is the open file.
type cacheFile struct {
	*DB
	find *sql.Stmt   // of the readers
	info fs.FileInfo // as it was opened: who deleted it since is noticed
}

// OpenVectorCache opens the cache, and makes it when it is missing. A file
// that is damaged or of another version is begun anew; a database of another
// program is a *ForeignError and left as it is.
func OpenVectorCache(ctx context.Context, config VectorCacheConfig) (*VectorCache, error) {
	if config.MaxBytes < 64*cachePage {
		return nil, fmt.Errorf("open vector cache: limit of %d bytes, must be at least %d", config.MaxBytes, 64*cachePage)
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, fmt.Errorf("open vector cache: %w", err)
	}
	c := &VectorCache{path: path, max: config.MaxBytes}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open vector cache: %w", err)
	}
	c.file, err = c.open(ctx)
	var foreign *ForeignError
	if errors.As(err, &foreign) || ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	if err != nil {
		if err := c.Reset(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Close waits for the look-ups under way and closes the file.
func (c *VectorCache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.close()
}

func (c *VectorCache) close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}

// Reset deletes the file, whatever state it is in, and begins a new one.
func (c *VectorCache) Reset(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.close() // what it could not write is deleted now
	if info, err := os.Lstat(c.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("reset vector cache: %s is no file", c.path)
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(c.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reset vector cache: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return fmt.Errorf("reset vector cache: %w", err)
	}
	file, err := c.open(ctx)
	if err != nil {
		return err
	}
	c.file = file
	return nil
}

// Bytes is what the cache takes on disk, as of the last Save.
func (c *VectorCache) Bytes() int64 { return c.bytes.Load() }

// open opens the file as it is; the error may say that it is not usable.
func (c *VectorCache) open(ctx context.Context) (*cacheFile, error) {
	f := &cacheFile{}
	var err error
	if f.info, err = inspectCache(c.path); err != nil {
		return nil, err
	}
	f.DB = &DB{path: c.path, now: time.Now, write: c.pool("rwc", 1), read: c.pool("ro", cacheReaders)}
	if err = f.migrate(ctx); err == nil {
		f.find, err = f.read.PrepareContext(ctx, findCached)
	}
	if err == nil {
		err = f.view(ctx, func(tx *tx) error {
			pages, _, err := tx.pages()
			c.bytes.Store(pages * cachePage)
			return err
		})
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open vector cache %s: %w", c.path, err)
	}
	return f, nil
}

// Close closes the file.
func (f *cacheFile) Close() error {
	var err error
	if f.find != nil {
		err = f.find.Close()
	}
	return errors.Join(err, f.DB.Close())
}

// inspectCache looks at the file without SQLite, and makes it, private, when it
// is missing. What stands there and is no file is not ours to replace.
func inspectCache(path string) (fs.FileInfo, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open vector cache: %s is no file", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open vector cache: %w", err)
	}
	defer f.Close()
	// https://www.sqlite.org/fileformat.html#the_database_header
	header := make([]byte, 100)
	if _, err := io.ReadFull(f, header); err == nil {
		if string(header[:16]) != "SQLite format 3\x00" {
			return nil, &CorruptError{Path: path, Err: errors.New("it is no SQLite database")}
		}
		if id := binary.BigEndian.Uint32(header[68:]); id != cacheID && id != 0 {
			return nil, &ForeignError{Path: path, ID: id}
		}
	}
	return f.Stat()
}

// migrate makes the tables in an empty file.
func (f *cacheFile) migrate(ctx context.Context) error {
	return f.update(ctx, func(tx *tx) error {
		var id uint32
		var version, tables int
		err := tx.one("SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id, pragma_user_version",
			nil, &id, &version, &tables)
		switch {
		case err != nil:
			return fmt.Errorf("read application id: %w", err)
		case id != cacheID && (id != 0 || tables > 0):
			return &ForeignError{Path: f.path, ID: id}
		case tables > 0 && version != cacheVersion:
			return fmt.Errorf("schema version %d, this program reads %d", version, cacheVersion)
		case tables > 0:
			return nil
		}
		script, err := scripts.ReadFile("sql/cache/0001.sql")
		if err != nil {
			return fmt.Errorf("read schema: %w", err)
		}
		return tx.exec(fmt.Sprintf("%s\nPRAGMA user_version = %d;\nPRAGMA application_id = %d;", script, cacheVersion, cacheID))
	})
}

// pool makes a pool without opening a connection.
func (c *VectorCache) pool(mode string, size int) *sql.DB {
	pragmas := []string{"busy_timeout = 2000"}
	log := min(c.max/logShare/cachePage, 1000) // pages
	lock := "deferred"
	if mode == "rwc" {
		lock = "immediate"
		pragmas = append(pragmas, fmt.Sprintf("page_size = %d", cachePage), "auto_vacuum = INCREMENTAL",
			"journal_mode = WAL", "synchronous = NORMAL", "cache_size = -8000",
			fmt.Sprintf("wal_autocheckpoint = %d", log), fmt.Sprintf("journal_size_limit = %d", log*cachePage))
	} else {
		pragmas = append(pragmas, "query_only = ON", "cache_size = -2000")
	}
	pragmas = append(pragmas, "mmap_size = 0")
	q := url.Values{"mode": {mode}, "_txlock": {lock}, "_stmt_cache_size": {"16"}}
	db := sql.OpenDB(connector{dsn: "file:" + (&url.URL{Path: c.path}).EscapedPath() + "?" + q.Encode(), pragmas: pragmas})
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db
}
