// Package llamaclient speaks to one llama-server over its unix socket.
//
// It may be imported by the parts that own or use an engine (embedding,
// llamaserver) and by what wires them. It knows HTTP and llama-server's
// replies; it knows nothing of admission, of processes or of other engines.
//
// What it guarantees:
//
//   - No call hangs. Five limits are five mechanisms, each with its own error:
//     connecting (ErrConnect), waiting for one of the connections (ErrPoolWait),
//     each write (ErrWrite), each read (ErrRead), and the caller's context for
//     the exchange as a whole.
//   - No invalid vector comes out. Embed asks for base64, checks the bits, and
//     judges the reply with vector.Check; an engine that answers floats is
//     decoded so that null stays "not a number".
//   - No reply is read without bound.
//
// A Client is safe for concurrent use and holds no goroutine of its own. Close
// ends its idle connections.
package llamaclient
