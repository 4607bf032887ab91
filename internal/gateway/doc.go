// Package gateway is the HTTP surface for editors, agents and scripts: the
// OpenAI and the Ollama dialect on the loopback addresses, in front of the
// doors of the roles (embedding, and relay's for reranking and chat).
//
// Only app imports it. One route table (routes.go) stands behind one gate
// (front.go): a Host that is not loopback is answered 421, a foreign Origin
// 403 without CORS headers, a missing key 401 where one is required, and
// nothing behind the gate sees such a request. Every error is in the dialect
// of its path, with a message that names the remedy; which status, headers and
// code an error of a door becomes is decided in one place (failure.go).
//
// The package holds no queue and no cache of its own: waiting, limits and
// validity are the doors'. A request whose client leaves has its context
// cancelled and is answered to nobody. Bodies are never logged, and all those
// under way together are bounded (intake.go). /healthz, /readyz and /metrics
// read snapshots in memory and touch neither engine nor database writer.
//
// Where the dialects differ from the originals:
//
//   - A reply with vectors names what made them in x-ondol-fingerprint.
//   - Nothing is cut silently. /api/embed cuts only when truncate is true, and
//     names what it cut in x-ondol-truncated; Ollama cuts when truncate is
//     absent as well. Here that is 400, naming truncate:true.
//   - Token ids are refused, because nothing tells their vocabulary, unless
//     the request shows a key that says which (Key.DecodeTokenIDs).
//   - A model name may carry :latest in both dialects, or be left out: there
//     is one embedding model. keep_alive and options have no effect: the model
//     stays loaded, with the flags of the settings.
//   - Chat is served on the OpenAI routes alone, models are managed by Ondol
//     itself: the routes of Ollama for both answer 501 and say so.
package gateway
