// Package engines holds the engine in service (live) and at most one beside
// it: a candidate on trial, or the one that was live until a moment ago.
//
// Only the composition root builds a Keeper; the embedding door borrows the
// live engine from it, control steers it and shows its State. design.md beside
// this file has the phases and who may cause which change.
//
// Layout: desk.go decides and touches nothing; owner.go acts, the one goroutine
// of Run; examine.go measures, judge.go turns figures into a verdict.
//
// Guarantees:
//
//   - one engine is live at any moment, and everybody sees the same one; a
//     promotion switches all new requests over at once;
//   - an engine that was borrowed is not ended for a successor before it was
//     given back, so a switch loses no request and repeats none;
//   - generations are unique and rise over all engines of a Keeper;
//   - a candidate that fails, in whatever way, leaves the live one as it is;
//     one that fails soon after its promotion gives way to the earlier one;
//   - settings are saved only when a promotion has proved itself, so the next
//     start, after a crash at any moment too, runs an engine that did;
//   - no engine is left running by a Run that returned, and New's first act in
//     Run is to end what a killed app left behind.
package engines
