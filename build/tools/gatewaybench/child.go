package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// child is a program that runs for a part of the measurement.
type child struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// startChild runs a program whose output goes to the file log.
func startChild(log string, env []string, name string, args ...string) (*child, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c := &child{cmd: exec.Command(name, args...), log: log, done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = file, file
	// Ctrl-C is for this program, which ends its children in its own order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = c.cmd.Wait() // how it ended is in its log
		close(c.done)
	}()
	return c, nil
}

// stop ends it as a person would, and without mercy when that takes too long.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-c.done:
	case <-time.After(30 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// ready asks until try succeeds.
func (c *child) ready(ctx context.Context, try func(context.Context) error) error {
	limit, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		err := try(limit)
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s ended before it was ready:\n%s", c.cmd.Path, c.tail())
		case <-limit.Done():
			return errors.Join(limit.Err(), fmt.Errorf("%s is not ready: %w\n%s", c.cmd.Path, err, c.tail()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *child) tail() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// freeAddress is a loopback address nobody listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
