package upstream

import (
	"errors"
	"fmt"
	"time"
)

// Limits bound one HTTP exchange with the engine. Each is a mechanism of its
// own; none of them limits how many requests execute (that is admission's).
type Limits struct {
	Connect  time.Duration // to open a connection, its TLS handshake included
	PoolWait time.Duration // to get one of the MaxConns connections
	Write    time.Duration // for each write of up to 64 KiB
	Read     time.Duration // for each read, so also for the first byte of a reply
	MaxConns int           // connections open at once
	MaxIdle  int           // connections kept alive between requests
}

// DefaultLimits are the figures of the contract.
func DefaultLimits() Limits {
	return Limits{
		Connect:  5 * time.Second,
		PoolWait: 5 * time.Second,
		Write:    30 * time.Second,
		Read:     300 * time.Second,
		MaxConns: 100,
		MaxIdle:  20,
	}
}

// Validate says what is wrong with l, if anything.
func (l Limits) Validate() error {
	if l.Connect <= 0 || l.PoolWait <= 0 || l.Write <= 0 || l.Read <= 0 {
		return fmt.Errorf("every time limit must be positive: %+v", l)
	}
	if l.MaxConns < 1 || l.MaxIdle < 0 || l.MaxIdle > l.MaxConns {
		return fmt.Errorf("connections must be 1 or more and idle ones at most as many: %+v", l)
	}
	return nil
}

// What can go wrong on the way, apart from the caller's context and from what
// the engine says itself. Every transport error wraps exactly one of them.
var (
	ErrConnect  = errors.New("connect to the engine")                             // nobody listens, or not within Limits.Connect; nothing was sent
	ErrPoolWait = errors.New("wait for a connection to the engine: limit passed") // nothing was sent
	ErrWrite    = errors.New("write to the engine: limit passed")                 // it does not read; it may still be at work
	ErrRead     = errors.New("read from the engine: limit passed")                // it does not answer; it may still be at work
	ErrBroken   = errors.New("connection to the engine broken")                   // it went away in the middle
)
