// Command gatewaybench measures what Ondol adds between a client and
// llama-server. It runs the built app with a real engine in a folder of its
// own and prints figures, each bound with PASS or FAIL.
//
//	-latency  the gateway and a llama-server of its own get the same requests by turns
//	-load     hundreds of clients against an engine of a few requests a second
//
// Without either, both run. Other work on the machine shows in every figure,
// so each part measures something bare beside it, in the same run, and a FAIL
// decides the exit code only with -strict.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type options struct {
	app, server, starter string
	load, latency        bool
	clients              int
	duration             time.Duration
	retryMost            time.Duration
	service              time.Duration
	requests             int
	line                 time.Duration
	threads              int
	unix                 bool
	profile              string
	strict               bool
	bare, relay          string
}

func main() {
	var o options
	flag.StringVar(&o.app, "app", "build/bin/ondol", "the built app")
	flag.StringVar(&o.server, "llama-server", "build/deps/llama/llama-server", "llama-server to run")
	flag.StringVar(&o.starter, "model", "build/deps/models/ondol-starter-en.gguf", "the starter model")
	flag.BoolVar(&o.load, "load", false, "the load part alone")
	flag.BoolVar(&o.latency, "latency", false, "the latency part alone")
	flag.IntVar(&o.clients, "clients", 500, "clients of the load part")
	flag.DurationVar(&o.duration, "duration", time.Minute, "length of each load run")
	flag.DurationVar(&o.retryMost, "retry-most", 2*time.Second, "longest a refused client waits, whatever it was told")
	flag.DurationVar(&o.service, "service", 300*time.Millisecond, "time of one request at the engine in the load part")
	flag.IntVar(&o.requests, "requests", 2000, "requests for each side of each line of the latency part")
	flag.DurationVar(&o.line, "line", 2*time.Minute, "longest that one line of the latency part may take; on a busy machine it then has fewer requests")
	flag.IntVar(&o.threads, "threads", 0, "threads of both engines of the latency part; 0 = as many as llama-server takes by itself")
	flag.BoolVar(&o.unix, "unix", false, "call llama-server over a unix socket instead of TCP, which its users have")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a profile of the gateway's own work to this file")
	flag.BoolVar(&o.strict, "strict", false, "exit with 1 when a bound does not hold")
	flag.StringVar(&o.bare, "bare", "", "internal: be the bare server of the load part, at this address")
	flag.StringVar(&o.relay, "relay", "", "internal: be the relay of the latency part, listen=engine")
	flag.Parse()
	if !o.load && !o.latency {
		o.load, o.latency = true, true
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE) // the children end in any case
	defer stop()
	failed, err := 0, error(nil)
	if o.bare != "" {
		err = serveBare(ctx, o.bare)
	} else if o.relay != "" {
		err = serveRelay(ctx, o.relay)
	} else {
		failed, err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gatewaybench:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Printf("\n%d bounds do not hold\n", failed)
		if o.strict {
			os.Exit(1)
		}
	}
}

func run(ctx context.Context, o options) (failed int, err error) {
	for _, file := range []string{o.app, o.server, o.starter} {
		if _, err := os.Stat(file); err != nil {
			return 0, fmt.Errorf("%w; run: make setup build, in the checkout", err)
		}
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var r report
	if o.latency {
		if err := measureLatency(ctx, o, dir, &r); err != nil {
			return 0, fmt.Errorf("latency: %w", err)
		}
	}
	if o.load {
		if err := measureLoad(ctx, o, dir, &r); err != nil {
			return 0, fmt.Errorf("load: %w", err)
		}
	}
	return r.failed, nil
}
