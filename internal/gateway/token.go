package gateway

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Token returns the secret in the file at path and makes the file when there
// is none. The file is readable by its owner alone; one that others can read
// is refused, because its secret is known to who knows whom. Two programs that
// come at the same moment get the same secret.
func Token(path string) (string, error) {
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := makeToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make token file: %w", err)
	}
	return readToken(path)
}

func readToken(path string) (string, error) {
	// Looked at before it is opened: opening a pipe would wait.
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("token file %s must be a plain file that only its owner can read (mode 0600), it has %v; delete it and a new one is made", path, info.Mode())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minSecret {
		return "", fmt.Errorf("token file %s holds no token; delete it and a new one is made", path)
	}
	return token, nil
}

// makeToken writes the whole file aside and links it into place, so that
// nobody reads half a token and an existing one is never replaced.
func makeToken(path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	aside, err := os.CreateTemp(dir, ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(aside.Name())) }()
	_, err = aside.WriteString(rand.Text() + rand.Text() + "\n") // 256 bits
	if err := errors.Join(err, aside.Sync(), aside.Close()); err != nil {
		return err
	}
	return os.Link(aside.Name(), path)
}
