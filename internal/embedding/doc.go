// Package embedding is the one door to an embedding engine: whoever wants a
// vector (an editor, the indexer, a query) comes through Service.Embed, which
// looks into the cache, joins what others are computing already, asks
// admission for a permit and the engine for the rest, and hands out nothing
// that is not valid. One Service serves one engine role. design.md tells how.
//
// It may be imported by the gateway and by what wires the parts; indexer and
// search see it through the small interfaces they declare.
//
// What it guarantees:
//
//   - one request takes one place and one permit, however many inputs it has;
//     they are split into engine calls, one after another, under that permit.
//     A request whose every input is cached or in the air takes none;
//   - one text is computed once at a time, however many ask for it, and once
//     at all while the cache remembers it; never across fingerprints, and all
//     vectors of one answer are of one fingerprint;
//   - nothing is cut unless the request says so: an input longer than the
//     engine takes is a *TooLongError with both counts, found before a permit
//     is taken wherever possible;
//   - a caller never hangs: it gets its vectors, a typed error, or the end of
//     its own context. It waits at most as long as the gate lets it, counted
//     from its arrival, and Total after a permit was granted;
//   - the permit outlives the caller until the engine is known to be done: a
//     caller that leaves costs a draining permit until its request is
//     finished, one that times out until the engine has been replaced;
//   - an input that is invalid alone, at an engine found sound, is a
//     *vector.InvalidError naming it; no vector of its request comes out, and
//     none is cached. An input that spoils the engine costs it one restart, is
//     quarantined, and nobody else gets an error for it;
//   - every request is one outcome in the gate's totals.
package embedding
