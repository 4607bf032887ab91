// Package catalog is the list of models that Ondol knows by name, and the
// reading of what a person writes to name one: a name of the list, or
// hf:OWNER/REPO:FILE for any GGUF file of the hub.
//
// The packages of models, control and app import it. It is data and pure
// functions. Every entry is pinned to a revision of its repository, with the
// size and the SHA-256 that the hub's own metadata gives for the file of that
// revision, so that what is downloaded does not depend on what a hub or a
// mirror says on that day.
package catalog
