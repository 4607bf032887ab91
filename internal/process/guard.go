package process

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const (
	// orphanGrace is what the child gets after SIGTERM when the app is gone;
	// the promise is that nothing is left one second later.
	orphanGrace = 200 * time.Millisecond
	// startFailed is the guard's exit status when the program could not be started.
	startFailed = 127
)

// GuardMain turns this process into a guard and never returns, if it was
// started as one; otherwise it returns at once. main (and TestMain of packages
// that start programs) calls it first.
func GuardMain() {
	if len(os.Args) < 3 || os.Args[1] != guardArgument {
		return
	}
	// Not os.Exit: there is nothing to flush, and under the race detector that takes a second.
	syscall.Exit(runGuard(os.Args[2], os.Args[3:]))
}

func runGuard(path string, args []string) int {
	// Neither pipe may reach the child: it would keep the app waiting for an end of file.
	syscall.CloseOnExec(lifeFD)
	syscall.CloseOnExec(infoFD)
	life, info := os.NewFile(lifeFD, "life"), os.NewFile(infoFD, "info")

	// A terminal's ^C or hang-up is for the app to judge, and a log reader that is gone must not end the guard
	// before the child. Caught rather than ignored: an ignored signal would stay ignored in the child.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)

	// The parent-death signal follows the thread that started the child, so that thread must live as long as we do.
	runtime.LockOSThread()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		_ = writeLine(info, report{Error: err.Error()}) // nobody left to tell is no reason to stay
		return startFailed
	}
	id := Identify(cmd.Process.Pid) // before Wait: until then the process id is surely this child's
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	_ = writeLine(info, report{Started: &id}) // an app that is gone shows as the end of life

	err := superviseChild(cmd.Process.Pid, readLines[order](life), term, exited)
	_ = writeLine(info, report{Exited: describe(err)})
	return 0
}

// superviseChild obeys orders until the child has ended, and returns how.
func superviseChild(pid int, orders <-chan order, term <-chan os.Signal, exited <-chan error) error {
	var kill <-chan time.Time // fires when the grace of a stop is over
	stop := func(grace time.Duration) {
		_ = syscall.Kill(-pid, syscall.SIGTERM) // the group may just have ended
		kill = time.After(grace)
	}
	for {
		select {
		case err := <-exited:
			_ = syscall.Kill(-pid, syscall.SIGKILL) // what the child left behind in its group
			return err
		case o, open := <-orders:
			switch {
			case !open:
				orders = nil
				stop(orphanGrace)
			case o.Kind == orderStop:
				stop(time.Duration(o.GraceMS) * time.Millisecond)
			default:
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
		case <-term:
			stop(orphanGrace)
		case <-kill:
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
}

func describe(err error) *exitReport {
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return &exitReport{}
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exitReport{Code: -1, Signal: status.Signal().String()}
	}
	return &exitReport{Code: failed.ExitCode()}
}
