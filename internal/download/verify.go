package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// hashBlock is how much is read between two looks at the context, bytes.
const hashBlock = 1 << 20

// verify reads the whole file back from the disk, the part of earlier calls
// too, and compares.
func verify(ctx context.Context, j *job) (string, error) {
	sum, err := hash(ctx, j.p.file, j.size, j.meter)
	if err != nil {
		return "", err
	}
	if j.req.SHA256 != "" && sum != j.req.SHA256 {
		return "", &HashError{Want: j.req.SHA256, Got: sum}
	}
	return sum, nil
}

// hash is the SHA-256 of the size bytes of a file, lower-case hex.
func hash(ctx context.Context, file io.ReaderAt, size int64, m *meter) (string, error) {
	h := sha256.New()
	block := make([]byte, hashBlock)
	for at := int64(0); at < size; {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := file.ReadAt(block[:min(hashBlock, size-at)], at)
		h.Write(block[:n])
		at += int64(n)
		if err != nil && at < size {
			return "", fmt.Errorf("read the file back: %w", err)
		}
		m.verify(at, size)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
