// Package upstream is one HTTP exchange with an engine, wherever that engine
// runs: the time limits, and the names of what can go wrong.
//
// The clients of engines are built on it: remote on Transport, which is
// net/http's with the limits, llamaclient on Direct, which is quicker where the
// engine is a socket away. The doors in front of them (embedding, relay) and
// the surfaces read its errors. It imports nothing of ours and knows no
// engine's dialect.
//
// What it guarantees:
//
//   - No exchange hangs. Five limits are five mechanisms, each with its own
//     error: connecting (ErrConnect), waiting for one of the connections
//     (ErrPoolWait), each write (ErrWrite), each read (ErrRead), and the
//     caller's context for the exchange as a whole.
//   - Nothing goes where it was not sent: no redirect is followed, no proxy of
//     the environment is used.
//
// A Transport is safe for concurrent use and holds no goroutine of its own
// beyond those of net/http's idle connections, which Close ends; a Direct holds
// none.
package upstream
