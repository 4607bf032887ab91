package document

import (
	"crypto/sha256"
	"encoding/hex"
)

// ChunkID names a chunk in the database; 0 is no chunk.
type ChunkID int64

// Hash is the SHA-256 of the text that is embedded, in hex (64 characters).
// Vectors are stored by (fingerprint, Hash), so a renamed or copied file, or
// an unchanged passage of an edited one, costs no embedding.
type Hash string

// Chunk is one passage of a document.
type Chunk struct {
	ID       ChunkID
	Ordinal  int    // 0, 1, 2 … in reading order
	Start    int    // byte offset of the first byte of Text in the document's text
	End      int    // byte offset after the last byte
	Line     int    // 1-based line of Start
	LastLine int    // 1-based line of the last byte
	Heading  string // path of headings above it, joined by " › "; may be empty
	Text     string // the passage itself, text[Start:End]
	Tokens   int    // of EmbedText, counted by the engine
}

// EmbedText is what the engine sees: the heading path, an empty line, the
// passage. The file name is left out so that a rename changes no vector.
func (c Chunk) EmbedText() string {
	if c.Heading == "" {
		return c.Text
	}
	return c.Heading + "\n\n" + c.Text
}

// Hash identifies EmbedText.
func (c Chunk) Hash() Hash { return HashText(c.EmbedText()) }

// HashText is the SHA-256 of text in hex.
func HashText(text string) Hash {
	sum := sha256.Sum256([]byte(text))
	return Hash(hex.EncodeToString(sum[:]))
}
