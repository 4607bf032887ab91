//go:build !desktop

package app

import "context"

// window is nil: this build has none, and the command line says how to get one.
func (program) window() func(ctx context.Context) error { return nil }
