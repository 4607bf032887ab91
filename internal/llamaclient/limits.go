package llamaclient

import "github.com/ondol-app/ondol/internal/upstream"

// Limits bound one HTTP exchange with the engine; see upstream.Limits.
type Limits = upstream.Limits

// DefaultLimits are the figures of the contract.
func DefaultLimits() Limits { return upstream.DefaultLimits() }

// What can go wrong on the way; see upstream.
var (
	ErrConnect  = upstream.ErrConnect
	ErrPoolWait = upstream.ErrPoolWait
	ErrWrite    = upstream.ErrWrite
	ErrRead     = upstream.ErrRead
	ErrBroken   = upstream.ErrBroken
)
