//go:build !desktop

package app

import "context"

// window is nil: this build has none, and the command line says how to get one.
var window func(ctx context.Context) error
