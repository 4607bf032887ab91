// Package relay is the door to the engines beside embedding: it takes a
// reranking or a chat through its role's gate to its role's engine, local or
// remote. One Relay serves one role: own engine, own gate, own numbers.
//
// It may be imported by the gateway and by what wires the parts; search sees
// it through the small interface it declares.
//
// What it guarantees:
//
//   - one request takes one place and one permit; a caller waits as its gate
//     says, and gets an answer, a typed error, or its own end;
//   - a stream arrives as it is made, chunk by chunk; no header but status and
//     content type passes, in neither direction, so neither the engine's CORS
//     nor a client's credentials do;
//   - scores are finite and name each document exactly once, or they are a
//     *vector.InvalidError and nothing comes out;
//   - an error of the engine has the shape of OpenAI's;
//   - the permit outlives the caller until the engine is known to be done.
//
// How the end is known. A caller that leaves a chat leaves work of unknown
// length behind: nobody would read it, and reading on would keep the GPU busy
// for as long as the model likes to talk. So the connection is closed, which
// makes llama-server drop the work between two batches, and the permit is held
// (draining) until the engine says that no slot computes but those of known
// streams. It is asked every 100 ms at first, then every second; when it has
// not said so within Config.Settle, it is replaced, which is the one certain
// end. A remote engine cannot be asked: there, closing the connection is all
// that can be done, and the exchange ends with it.
//
// Limits. A reply in one piece has Config.Total from the permit. A stream may
// take as long as its client reads; it ends when the engine is silent for the
// client's read limit, or when the client does not take a chunk for
// Config.Write.
package relay
