// Package mcpserver lets agents search and read the watched folders over the
// Model Context Protocol: the tools search, read, list and status, by
// streamable HTTP (a route of the gateway) and over standard input and output
// (`ondol mcp`).
//
// It is a client of the control API and of nothing else, so that both ways
// answer alike: the app hands it a client that calls the API directly, the
// command one that goes through the socket. Only app imports it.
//
// What it promises:
//
//   - A tool takes the arguments of its schema and no others; a mistake is an
//     answer that names the argument and what it takes. The schema that is
//     shown is the one that is checked.
//   - No answer is longer than maxReply. What does not fit is cut between
//     entries or lines, and the answer says where it goes on or what is missing.
//   - Only what is indexed exists. Documents are read from the index, never
//     from disk; a path outside the watched folders is refused by the control
//     API, whether or not something lies there.
//   - Nothing is changed by any tool, and no call waits for another. A call
//     that is cancelled ends what it asked of the app.
//   - A session is kept for cancellation alone. A client whose session is gone,
//     because the app was started anew, is served without one.
package mcpserver
