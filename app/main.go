package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ondol-app/ondol/app/cli"
	"github.com/ondol-app/ondol/internal/process"
)

// Version is set by the build (-ldflags -X).
var Version = "0.1.0-dev"

// Main is the whole program; it does not return.
func Main() { run(program{gpu: thisMachine}) }

func run(p program) {
	process.GuardMain() // the guard of a child process is this binary, started again
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the program at once: the guard sees to the engine.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, cli.Config{
		Version: Version, Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		Serve: p.serve, Window: p.window(), Accept: acceptSettings,
	}))
}
