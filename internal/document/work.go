package document

// Work is a document that waits for the indexer, with what the index
// remembers of its file beyond Document.
type Work struct {
	Document
	FileID string // of the file as recorded last
	Hash   Hash   // SHA-256 of the raw bytes whose text is stored; empty when none is
}
