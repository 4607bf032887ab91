// Package gateway is the HTTP surface for editors, agents and scripts: the
// OpenAI dialect on the loopback addresses, in front of the embedding door.
//
// Only app imports it. One route table (routes.go) stands behind one gate
// (front.go): a Host that is not loopback is answered 421, a foreign Origin
// 403 without CORS headers, and nothing behind the gate sees such a request.
// Every error is the OpenAI envelope with a message that names the remedy;
// which status, headers and code an error of the door becomes is decided in
// one place (failure.go).
//
// The package holds no queue and no cache of its own: waiting, limits and
// validity are the door's. A request whose client leaves has its context
// cancelled and is answered to nobody. Bodies are never logged. /healthz and
// /readyz read a snapshot in memory and touch neither engine nor database.
package gateway
