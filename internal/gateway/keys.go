package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ondol-app/ondol/internal/openai"
)

// Key is a secret that a client may show, and what it is allowed to.
type Key struct {
	Name   string
	Secret string // at least minSecret characters

	// DecodeTokenIDs names the vocabulary of the token ids that clients with
	// this key send (VocabularyCL100K); empty = they are refused.
	DecodeTokenIDs string
}

// minSecret is the shortest secret, in bytes: below it guessing is feasible.
const minSecret = 16

// ring holds the keys by their hashes: comparing hashes takes the same time
// whatever a client guessed, and secrets stay out of memory dumps.
type ring struct {
	required bool
	keys     []hashedKey
}

type hashedKey struct {
	hash   [sha256.Size]byte
	decode openai.Decoder // nil = none
}

func newRing(required bool, keys []Key) (ring, error) {
	r := ring{required: required}
	if required && len(keys) == 0 {
		return r, errors.New("a key is required and none is set; set one, or turn require_key off")
	}
	for _, k := range keys {
		if len(k.Secret) < minSecret {
			return r, fmt.Errorf("key %q: a secret of at least %d characters is needed", k.Name, minSecret)
		}
		decode, err := decoderOf(k.DecodeTokenIDs)
		if err != nil {
			return r, fmt.Errorf("key %q: %w", k.Name, err)
		}
		r.keys = append(r.keys, hashedKey{hash: sha256.Sum256([]byte(k.Secret)), decode: decode})
	}
	return r, nil
}

// find returns the key that h shows, or nil. Every key is compared with every
// secret shown.
func (r ring) find(h http.Header) *hashedKey {
	if len(r.keys) == 0 {
		return nil
	}
	var found *hashedKey
	for _, secret := range shown(h) {
		hash := sha256.Sum256([]byte(secret))
		for i := range r.keys {
			if subtle.ConstantTimeCompare(hash[:], r.keys[i].hash[:]) == 1 {
				found = &r.keys[i]
			}
		}
	}
	return found
}

// maxShown bounds the secrets looked at in one request.
const maxShown = 4

// shown lists what a client offers as a key: clients differ in where they put it.
func shown(h http.Header) []string {
	var secrets []string
	for _, v := range h.Values("Authorization") {
		if scheme, rest, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			secrets = append(secrets, strings.TrimSpace(rest))
		}
	}
	secrets = append(secrets, h.Values("X-Api-Key")...)
	secrets = append(secrets, h.Values("Api-Key")...)
	return secrets[:min(len(secrets), maxShown)]
}

// admits reports whether the request may pass: no key is required, or it
// shows one.
func (r ring) admits(h http.Header) bool { return !r.required || r.find(h) != nil }

// decoder is what the request's key lets token ids be decoded with, or nil.
func (r ring) decoder(h http.Header) openai.Decoder {
	if k := r.find(h); k != nil {
		return k.decode
	}
	return nil
}

func unauthorized() failure {
	return failure{status: http.StatusUnauthorized, authenticate: true, close: true, body: openai.Error{
		Type: openai.TypeAuthentication, Code: openai.CodeInvalidKey,
		Message: "this endpoint needs its key: send it as Authorization: Bearer KEY; the token file in Ondol's folder holds it"}}
}
