// Package control is the API by which the command line, the window and the
// browser see and steer the running app: JSON over HTTP, on a unix socket that
// only its owner can open.
//
// Only app imports it: as a server (Server) in the running app and as a client
// (Client) in the command line. The types in wire.go, and those of document,
// llamaserver, admission and search that they hold, are the one source of the
// contract's shapes.
//
// Guarantees: a request is decoded strictly, so an unknown field or query
// parameter is an error that names it; every error is
// {"error":{"code","message","remedy"}}; a request whose caller left is
// cancelled; Run returns after every handler returned. The socket is mode 0600
// in a folder closed to others; a socket somebody listens on is never removed.
package control
