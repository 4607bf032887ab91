package extract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/ondol-app/ondol/internal/document"
)

// Limits bound what one Read may take.
type Limits struct {
	MaxBytes int64 // of the file on disk; larger files are skipped
}

// DefaultLimits are 20 MiB a file: a 6000-page novel of plain text is half of that.
func DefaultLimits() Limits { return Limits{MaxBytes: 20 << 20} }

// Text is a file as the index keeps it.
type Text struct {
	Content  string        // valid UTF-8, NFC, \n line ends, no byte order mark
	Title    string        // front matter title or first heading; empty where the content has neither
	Kind     document.Kind // text, markdown or code
	Language string        // programming or markup language in lower case, for code
	Charset  string        // what the file was written in: "utf-8", "utf-16le", "euc-kr" …
	Hash     document.Hash // SHA-256 of the raw bytes
}

// SkipError says that a file is left out on purpose.
type SkipError struct {
	Reason document.Reason
	Detail string // for people who look closer; may be empty
}

func (e *SkipError) Error() string {
	if e.Detail == "" {
		return "skip: " + string(e.Reason)
	}
	return "skip: " + string(e.Reason) + ": " + e.Detail
}

// ErrChanging is returned when the file's size or time moved while it was read.
var ErrChanging = errors.New("file changed while it was read")

// ReasonOf gives the code of an error from [Read]. A cancelled context has no
// code of its own: the caller knows that it cancelled.
func ReasonOf(err error) document.Reason {
	var skip *SkipError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &skip):
		return skip.Reason
	case errors.Is(err, ErrChanging):
		return document.ReasonChanging
	case errors.Is(err, fs.ErrPermission):
		return document.ReasonDenied
	}
	return document.ReasonUnreadable
}

// Read reads the file at path, which is absolute. It returns a [*SkipError]
// for what is left out on purpose, [ErrChanging] when the file moved under
// it, the context's error when cancelled between two blocks, and the
// system's error for everything else.
func Read(ctx context.Context, path string, limits Limits) (Text, error) {
	if limits.MaxBytes <= 0 {
		limits = DefaultLimits()
	}
	format := formatOf(path)
	if format.skip != "" {
		return Text{}, &SkipError{Reason: format.skip, Detail: format.language}
	}
	raw, err := readRegular(ctx, path, limits.MaxBytes)
	if err != nil {
		return Text{}, err
	}
	content, charset, err := decode(raw)
	if err != nil {
		return Text{}, err
	}
	content = normalise(content)
	if strings.TrimSpace(content) == "" {
		return Text{}, &SkipError{Reason: document.ReasonEmpty}
	}
	if privateKey(content) {
		return Text{}, &SkipError{Reason: document.ReasonPrivateKey}
	}
	sum := sha256.Sum256(raw)
	format = format.refine(content)
	return Text{
		Content: content, Title: titleOf(content, format.kind), Kind: format.kind,
		Language: format.language, Charset: charset, Hash: document.Hash(hex.EncodeToString(sum[:])),
	}, nil
}

// readRegular reads a whole regular file. O_NONBLOCK makes the open of a fifo
// return at once; the check that it is a regular file is made on the open
// descriptor, so nothing can be swapped in between.
func readRegular(ctx context.Context, path string, limit int64) (raw []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, &SkipError{Reason: document.ReasonUnsupported, Detail: "symbolic link"}
	}
	// A socket cannot be opened at all: ENXIO on Linux, EOPNOTSUPP on macOS.
	if errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EOPNOTSUPP) {
		return nil, &SkipError{Reason: document.ReasonUnsupported, Detail: "not a regular file"}
	}
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	before, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("inspect file: %w", err)
	}
	if !before.Mode().IsRegular() {
		return nil, &SkipError{Reason: document.ReasonUnsupported, Detail: "not a regular file"}
	}
	if before.Size() > limit {
		return nil, tooLarge(before.Size(), limit)
	}
	raw, err = readAll(ctx, f, before.Size(), limit)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("inspect file: %w", err)
	}
	if after.Size() != int64(len(raw)) || !after.ModTime().Equal(before.ModTime()) {
		return nil, ErrChanging
	}
	return raw, nil
}

// readAll reads in blocks so that a cancelled context ends a slow disk's read.
func readAll(ctx context.Context, f *os.File, size, limit int64) ([]byte, error) {
	const block = 1 << 20
	buf := make([]byte, 0, size+1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if cap(buf)-len(buf) == 0 {
			buf = append(buf, make([]byte, block)...)[:len(buf)]
		}
		n, err := f.Read(buf[len(buf):min(cap(buf), len(buf)+block)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, tooLarge(int64(len(buf)), limit)
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read file: %w", err)
		}
	}
}

func tooLarge(size, limit int64) error {
	return &SkipError{Reason: document.ReasonTooLarge, Detail: fmt.Sprintf("%d bytes, the limit is %d", size, limit)}
}
