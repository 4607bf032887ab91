package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// stopMargin is added to a stop's grace before the app acts past its guard:
// SIGKILL, and the memory of a large process given back.
const stopMargin = 10 * time.Second

// Spec says what to start.
type Spec struct {
	Path   string    // program; required
	Args   []string  // without the program's name
	Env    []string  // KEY=value; nil inherits ours
	Dir    string    // working directory; empty inherits ours
	Log    io.Writer // gets standard output and error, from one goroutine; nil drops them. A failing Write cuts the child's output off
	Record string    // file that holds the child's identity while it runs; empty keeps none
}

// Exit is how a child ended.
type Exit struct {
	Code   int    // exit status; -1 when a signal ended it or the guard was lost
	Signal string // name of the signal that ended it, "killed" …; empty otherwise
	Lost   bool   // the guard died first; the child was ended by its identity
	Err    error  // set when it could not be made sure that the child is gone, or its record not be removed
}

// String is for people: "exit status 1", "signal: killed", "guard lost".
func (e Exit) String() string {
	switch {
	case e.Lost:
		return "guard lost"
	case e.Signal != "":
		return "signal: " + e.Signal
	default:
		return fmt.Sprintf("exit status %d", e.Code)
	}
}

// Process is a running child and its guard. Its methods may be called from any goroutine.
type Process struct {
	guard  *exec.Cmd
	record string

	done chan struct{} // closed once the exit was seen
	exit Exit          // set before done is closed, never changed after

	mu    sync.Mutex // guards the two below
	life  *os.File   // write end; nil once the exit was seen. Closing it ends the child
	child Identity
}

// Start starts the program under a guard and returns when the program runs.
// ctx bounds the start alone; the child lives on until Stop, Kill, its own end
// or ours. The error tells when the program cannot be executed.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	guard, life, info, err := startGuard(spec)
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	p := &Process{guard: guard, life: life, record: spec.Record, done: make(chan struct{})}
	reports := readLines[report](info)
	fail := func(err error) (*Process, error) {
		_ = life.Close() // the guard ends its child, if any
		for range reports {
		}
		return nil, errors.Join(err, ignoreExit(guard.Wait()), info.Close())
	}
	select {
	case <-ctx.Done():
		return fail(ctx.Err())
	case first, open := <-reports:
		switch {
		case !open:
			return fail(errors.New("start program: the guard ended before it could"))
		case first.Error != "":
			return fail(fmt.Errorf("start program: %s", first.Error))
		}
		p.child = *first.Started
	}
	if err := writeRecord(spec.Record, p.child); err != nil {
		return fail(err)
	}
	go p.watch(reports, info)
	return p, nil
}

// startGuard starts this binary as a guard and returns our ends of the pipes.
func startGuard(spec Spec) (guard *exec.Cmd, life, info *os.File, err error) {
	path, err := self()
	if err != nil {
		return nil, nil, nil, err
	}
	lifeRead, life, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	info, infoWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, lifeRead.Close(), life.Close())
	}
	guard = exec.Command(path, append([]string{guardArgument, spec.Path}, spec.Args...)...)
	guard.ExtraFiles = []*os.File{lifeRead, infoWrite} // descriptors 3 and 4, all others are close-on-exec
	guard.Env, guard.Dir = spec.Env, spec.Dir
	guard.Stdout, guard.Stderr = spec.Log, spec.Log
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ^C is not for it
	guard.WaitDelay = time.Second                           // something may have inherited the log and keep it open
	err = errors.Join(guard.Start(), lifeRead.Close(), infoWrite.Close())
	if err != nil {
		return nil, nil, nil, errors.Join(err, life.Close(), info.Close())
	}
	return guard, life, info, nil
}

// watch runs until the child has ended. It alone sets exit.
func (p *Process) watch(reports <-chan report, info *os.File) {
	exit := Exit{Code: -1, Lost: true}
	for r := range reports {
		if r.Exited != nil {
			exit = Exit{Code: r.Exited.Code, Signal: r.Exited.Signal}
		}
	}
	_ = info.Close()               // only read from
	_ = ignoreExit(p.guard.Wait()) // the guard's own status says nothing that the report did not
	if exit.Lost {
		_, exit.Err = p.own().destroy(sweepWait)
	}
	if exit.Err == nil {
		exit.Err = removeRecord(p.record)
	}
	p.mu.Lock()
	_ = p.life.Close() // the reader is gone
	p.life = nil
	p.mu.Unlock()
	p.exit = exit
	close(p.done)
}

// PID is the child's process id, which is its group's id too.
func (p *Process) PID() int { return p.Identity().PID }

// GuardPID is the process id of the guard.
func (p *Process) GuardPID() int { return p.guard.Process.Pid }

// Identity is the child as it was last recorded.
func (p *Process) Identity() Identity {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// own is the identity without the executable, which the child may have changed
// since it was recorded; within one run of ours the rest is certain.
func (p *Process) own() Identity {
	child := p.Identity()
	child.Executable = ""
	return child
}

// Confirm records the child's identity anew. A program that is a script which
// executes another file keeps its process id and start time but not its
// executable; call it when the program has shown that it is itself.
func (p *Process) Confirm() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := Identify(p.child.PID)
	if p.life == nil || now.Start != p.child.Start || now.Executable == "" {
		return nil // it has ended
	}
	p.child = now
	return writeRecord(p.record, now)
}

// Done is closed once the exit was seen and the record removed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the child ended; it waits for Done.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Stop sends SIGTERM to the child's group, SIGKILL after grace, and returns
// when the exit was seen. A second Stop with a shorter grace counts. An error
// means that the child may still be there.
func (p *Process) Stop(grace time.Duration) error {
	return p.end(order{Kind: orderStop, GraceMS: grace.Milliseconds()}, grace+stopMargin)
}

// Kill sends SIGKILL to the child's group and returns when the exit was seen.
func (p *Process) Kill() error { return p.end(order{Kind: orderKill}, stopMargin) }

func (p *Process) end(o order, within time.Duration) error {
	p.mu.Lock()
	if p.life != nil {
		_ = writeLine(p.life, o) // a guard that is gone shows as Done
	}
	p.mu.Unlock()
	select {
	case <-p.done:
		return p.exit.Err
	case <-time.After(within):
	}
	// The guard does not answer (stopped, or its child hangs in the kernel): act past it.
	_, err := p.own().destroy(sweepWait)
	_ = p.guard.Process.Kill() // a guard that is gone already is what is wanted
	select {
	case <-p.done:
		return errors.Join(err, p.exit.Err)
	case <-time.After(stopMargin):
		return errors.Join(err, &StillAliveError{PID: p.PID()})
	}
}

// ignoreExit drops the errors that only tell how a process ended.
func ignoreExit(err error) error {
	var failed *exec.ExitError
	if errors.As(err, &failed) || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}
