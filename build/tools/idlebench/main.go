// Command idlebench measures what Ondol costs when nobody uses it: it runs the
// built app with a real engine in a folder of its own, which holds a watched
// folder of a few files, waits until all is still, and looks at the app's
// process for a minute. It prints figures, each bound with PASS or FAIL, and
// with -strict a FAIL decides the exit code. It reads /proc, so it runs on Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/locations"
)

// The bounds: shares of one core, and bytes.
const (
	maxCPU      = 0.003
	maxWritten  = 0
	maxResident = 80 << 20
)

// patience is how long the app may take to become still.
const patience = 3 * time.Minute

func main() {
	app := flag.String("app", "build/bin/ondol", "the built app")
	server := flag.String("llama-server", "build/deps/llama/llama-server", "llama-server to run")
	model := flag.String("model", "build/deps/models/ondol-starter-en.gguf", "the starter model")
	length := flag.Duration("for", time.Minute, "how long to look")
	settle := flag.Duration("settle", 20*time.Second, "how long to leave it alone before that")
	strict := flag.Bool("strict", false, "exit with 1 when a bound does not hold")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx, *app, *server, *model, *settle, *length)
	if err != nil {
		fmt.Fprintln(os.Stderr, "idlebench:", err)
		os.Exit(1)
	}
	if failed > 0 && *strict {
		os.Exit(1)
	}
}

func run(ctx context.Context, app, server, model string, settle, length time.Duration) (failed int, err error) {
	dir, err := os.MkdirTemp("", "idle")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd, client, err := start(ctx, dir, app, server, model)
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		_ = cmd.Wait()                          // its log went with dir
	}()
	if err := fill(ctx, client, filepath.Join(dir, "documents")); err != nil {
		return 0, err
	}
	client.Close() // nobody looks
	if err := wait(ctx, settle); err != nil {
		return 0, err
	}
	before, err := look(cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := wait(ctx, length); err != nil {
		return 0, err
	}
	after, err := look(cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	return report(before, after), nil
}

// start runs the app and returns when its engine is ready.
func start(ctx context.Context, dir, app, server, model string) (*exec.Cmd, *control.Client, error) {
	paths, err := locations.Resolve(locations.Environment{UID: os.Getuid(), Getenv: func(key string) string {
		return map[string]string{"ONDOL_HOME": dir}[key]
	}})
	if err != nil {
		return nil, nil, err
	}
	for _, file := range []*string{&server, &model} {
		if *file, err = filepath.Abs(*file); err != nil {
			return nil, nil, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(app, "serve")
	cmd.Env = append(os.Environ(), "ONDOL_HOME="+dir, "ONDOL_LISTEN="+address, "ONDOL_LLAMA_SERVER="+server,
		"ONDOL_MODEL="+model, "ONDOL_PROFILE=starter")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("%w; run: make setup build, in the checkout", err)
	}
	client := control.NewClient(paths.ControlSocket())
	err = until(ctx, func() error {
		engine, err := client.Engine(ctx)
		if err == nil && engine.State != llamaserver.Ready {
			err = fmt.Errorf("the engine is %s (%v)", engine.State, engine.LastError)
		}
		return err
	})
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, nil, err
	}
	return cmd, client, nil
}

// fill has a folder of a few files watched and indexed.
func fill(ctx context.Context, client *control.Client, folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for i := range 50 {
		text := fmt.Sprintf("# Note %d\n\nThe warm floor of house %d is heated from below.\n", i, i)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.md", i)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if _, err := client.AddFolder(ctx, folder); err != nil {
		return err
	}
	return until(ctx, func() error {
		status, err := client.Status(ctx)
		if n := status.Index.Counts; err == nil && n.Indexed != 50 {
			err = fmt.Errorf("%d of 50 documents are indexed", n.Indexed)
		}
		return err
	})
}

// until asks until try succeeds.
func until(ctx context.Context, try func() error) error {
	limit := time.Now().Add(patience)
	for {
		err := try()
		if err == nil || time.Now().After(limit) {
			return err
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// report prints the figures and counts the bounds that do not hold.
func report(before, after sample) (failed int) {
	took := after.at.Sub(before.at)
	line := func(what, value, bound string, ok bool) {
		verdict := "PASS"
		if !ok {
			verdict = "FAIL"
			failed++
		}
		fmt.Printf("%-28s %14s   %-14s %s\n", what, value, bound, verdict)
	}
	fmt.Printf("idle for %.0f s, engine loaded, nobody looking\n", took.Seconds())
	cpu := (after.cpu - before.cpu).Seconds() / took.Seconds()
	line("processor, of one core", fmt.Sprintf("%.3f %%", 100*cpu), fmt.Sprintf("< %.1f %%", 100*maxCPU), cpu < maxCPU)
	written := after.written - before.written
	line("written to disk", fmt.Sprintf("%d bytes", written), "none", written <= maxWritten)
	line("memory", fmt.Sprintf("%.1f MB", float64(after.resident)/(1<<20)), fmt.Sprintf("< %d MB", maxResident>>20), after.resident < maxResident)
	fmt.Printf("%-28s %12.1f/s\n", "wake-ups of its threads", float64(after.wakes-before.wakes)/took.Seconds())
	return failed
}
