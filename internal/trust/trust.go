// Package trust holds the nouns of an engine's good name: what its vectors are
// measured against, which texts it must not be given again, and what is kept of
// the moment it went wrong. Texts are named by their SHA-256, never shown.
//
// Anybody may import it. It imports nothing of ours and does nothing.
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Hash is a text's SHA-256.
type Hash [sha256.Size]byte

// HashOf is the name of text.
func HashOf(text string) Hash { return sha256.Sum256([]byte(text)) }

// String is the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String wrote.
func ParseHash(text string) (Hash, error) {
	var h Hash
	if len(text) != hex.EncodedLen(len(h)) {
		return h, fmt.Errorf("%d characters are no SHA-256", len(text))
	}
	_, err := hex.Decode(h[:], []byte(text))
	return h, err
}

// ReferenceKind says where a reference came from.
type ReferenceKind string

const (
	ReferenceNone ReferenceKind = "none" // there is none yet
	ReferenceSelf ReferenceKind = "self" // the engine's own first answers
	ReferenceCPU  ReferenceKind = "cpu"  // the same model computed without the GPU
)

// String returns the kind as it stands in JSON.
func (k ReferenceKind) String() string { return string(k) }

// Reference is what an engine of one fingerprint answers to the canaries when
// it is well. A nil *Reference means that nothing is known yet.
type Reference struct {
	Kind    ReferenceKind
	At      time.Time
	Vectors map[Hash][]float32 // by text
}

// Quarantined is a text that an engine of one fingerprint is not given again.
type Quarantined struct {
	Fingerprint string    `json:"fingerprint"`
	SHA256      string    `json:"sha256"`
	Reason      Reason    `json:"reason"`
	Tokens      int       `json:"tokens"` // of the text; 0 = not counted
	At          time.Time `json:"at"`
}

// Reason says what a quarantined text did.
type Reason string

const (
	ReasonPoison  Reason = "poison"  // after it, the engine's vectors were wrong until it was restarted
	ReasonInvalid Reason = "invalid" // its own vector was invalid again and again, others were not
	ReasonHang    Reason = "hang"    // the engine did not answer, again and again
	ReasonCrash   Reason = "crash"   // the engine ended when it had it, again and again
)

// String returns the reason as it stands in JSON.
func (r Reason) String() string { return string(r) }

// Input is a text that the engine had when something went wrong.
type Input struct {
	SHA256 string `json:"sha256"`
	Tokens int    `json:"tokens"` // 0 = not counted
}

// Evidence is one thing that went wrong with an engine, in full but for the
// texts. Log is scrubbed: see package llamaserver.
type Evidence struct {
	ID          int64     `json:"id"` // rises; 0 until it is stored
	At          time.Time `json:"at"`
	Code        string    `json:"code"`    // as in the engine's status
	Message     string    `json:"message"` // English
	State       string    `json:"state"`   // of the engine until then
	Generation  uint64    `json:"generation"`
	Began       time.Time `json:"began"` // when that start of it began
	Model       string    `json:"model"`
	ModelSHA256 string    `json:"model_sha256"`
	Build       string    `json:"build"`
	Flags       []string  `json:"flags"`
	Fingerprint string    `json:"fingerprint"`
	Inputs      []Input   `json:"inputs"`           // under suspicion or found guilty
	Canary      any       `json:"canary,omitempty"` // the result that told, if canaries did
	Log         []string  `json:"log"`              // last lines, oldest first
}

// Fault is why an engine is given up by who uses it.
type Fault struct {
	Code   string // poisoned, hang
	Cause  string // English
	Inputs []Input
}

// Codes of Fault.
const (
	FaultPoisoned = "poisoned" // wrong vectors for a text that it once had right
	FaultHang     = "hang"     // no answer within the time limit
)

// End says how one life of an engine ended.
type End string

const (
	EndNone     End = ""         // it has not, as far as is known
	EndUnknown  End = "unknown"  // whoever runs it does not tell
	EndAsked    End = "asked"    // somebody wanted it to
	EndUnloaded End = "unloaded" // nobody seemed to need it
	EndReplaced End = "replaced" // it was not to be believed any more
	EndCrash    End = "crash"    // by itself, while in use
	EndHang     End = "hang"     // it was ended because it did not answer
)

// String returns the end as it is logged.
func (e End) String() string { return string(e) }

// Blames is the reason by which what the engine had just then is under
// suspicion; empty when it is not.
func (e End) Blames() Reason {
	switch e {
	case EndCrash:
		return ReasonCrash
	case EndHang:
		return ReasonHang
	}
	return ""
}
