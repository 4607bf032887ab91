package llamaserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// hashCache remembers the SHA-256 of model files, which are too large to be
// read at every start. An entry counts while path, size and modification time
// are the same. The file is a cache: it may be deleted, and if it cannot be
// written the next start hashes again.
type hashCache struct{ path string } // empty keeps nothing

type hashEntry struct {
	Size   int64     `json:"size"`
	Mtime  time.Time `json:"mtime"`
	SHA256 string    `json:"sha256"`
}

// sum is the SHA-256 of the file in hex. ctx ends a long read.
func (c hashCache) sum(ctx context.Context, path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	known := c.load()
	if e, ok := known[path]; ok && e.Size == info.Size() && e.Mtime.Equal(info.ModTime()) {
		return e.SHA256, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, contextReader{ctx, file}); err != nil {
		return "", fmt.Errorf("read model: %w", err)
	}
	entry := hashEntry{Size: info.Size(), Mtime: info.ModTime(), SHA256: hex.EncodeToString(hash.Sum(nil))}
	known[path] = entry
	c.save(known)
	return entry.SHA256, nil
}

func (c hashCache) load() map[string]hashEntry {
	known := map[string]hashEntry{}
	if raw, err := os.ReadFile(c.path); err == nil && json.Unmarshal(raw, &known) != nil {
		return map[string]hashEntry{} // damaged: hash again
	}
	return known
}

func (c hashCache) save(known map[string]hashEntry) {
	if c.path == "" {
		return
	}
	raw, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return
	}
	if os.MkdirAll(filepath.Dir(c.path), 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(c.path), filepath.Base(c.path)+".*")
	if err != nil {
		return
	}
	_, err = tmp.Write(raw)
	if errors.Join(err, tmp.Close()) != nil || os.Rename(tmp.Name(), c.path) != nil {
		_ = os.Remove(tmp.Name()) // half a cache is none
	}
}

// contextReader ends a read between two blocks when ctx ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// fingerprint names the numbers an engine makes: vectors are compared only
// when it is the same. 32 hex digits.
func fingerprint(modelSHA256, version string, flags []string, dim int) string {
	text := strings.Join([]string{"1", modelSHA256, version, strings.Join(flags, "\x00"), fmt.Sprint(dim)}, "\n")
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
