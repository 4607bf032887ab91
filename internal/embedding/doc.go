// Package embedding is the one door to an embedding engine: whoever wants a
// vector (an editor, the indexer, a query) comes through Service.Embed, which
// asks admission for a permit, the engine for the vectors, and hands out
// nothing that is not valid. One Service serves one engine role.
//
// It may be imported by the gateway and by what wires the parts; indexer and
// search see it through the small interfaces they declare.
//
// What it guarantees:
//
//   - one request takes one place and one permit, however many inputs it has;
//     they are split into engine calls, one after another, under that permit;
//   - nothing is cut: an input longer than the engine takes is a *TooLongError
//     with both counts, found before a permit is taken wherever possible;
//   - a caller never hangs: it gets its vectors, a typed error, or the end of
//     its own context, at most Total after its permit was granted;
//   - the permit outlives the caller until the engine is known to be done: a
//     caller that leaves costs a draining permit until the running engine call
//     ends, one that times out until the engine has been replaced;
//   - an invalid reply is a *vector.InvalidError naming the inputs of the
//     request; no vector of that request comes out.
//
// What comes in front of or behind it later fits here: a cache with joined
// requests before the permit in Service.Embed, the recovery from a poisoned
// engine where exchange.judge sees an invalid reply.
package embedding
