// Package document is the shared vocabulary of the index: folders, documents,
// chunks, their states and the arithmetic of the ledger.
//
// Any package may import it. It holds plain values only: no I/O, no
// goroutines, nothing of ours beneath it. All times are UTC; all offsets are
// byte offsets into the extracted, NFC-normalised text of one document.
package document
