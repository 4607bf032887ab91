// Package hub asks a model hub (Hugging Face, or a mirror of it) what a file
// is before it is downloaded: its revision, size, SHA-256 and licence, and
// whether one may have it.
//
// The packages of models and app import it. It downloads nothing itself, keeps
// no state but idle connections, and follows redirects on the hub's own host
// only; a token goes nowhere else.
package hub
