package watch

import (
	"errors"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// ErrOverflow means that the system dropped notifications.
var ErrOverflow = errors.New("notifications were lost")

// fsNotifier is fsnotify behind Notifier: inotify on Linux, kqueue elsewhere.
//
// Events are handed on one at a time: what the kernel queued stays in the
// kernel, whose overflow is reported, rather than in a buffer of ours. Errors
// are never waited with, because fsnotify reports some while it holds the lock
// that Add and Remove need: a reader busy with those would wait for itself.
type fsNotifier struct {
	w      *fsnotify.Watcher
	events chan Event
	errs   chan error // 1-buffered: one that is pending speaks for the next
	done   chan struct{}
	ended  sync.WaitGroup
}

// NewFSNotify opens the notification of the system.
func NewFSNotify() (Notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	n := &fsNotifier{w: w, events: make(chan Event), errs: make(chan error, 1), done: make(chan struct{})}
	n.ended.Go(n.forwardEvents)
	n.ended.Go(n.forwardErrors)
	return n, nil
}

func (n *fsNotifier) Add(dir string) error    { return n.w.Add(dir) }
func (n *fsNotifier) Remove(dir string) error { return n.w.Remove(dir) }
func (n *fsNotifier) Recursive() bool         { return false }
func (n *fsNotifier) Events() <-chan Event    { return n.events }
func (n *fsNotifier) Errors() <-chan error    { return n.errs }

func (n *fsNotifier) Close() error {
	close(n.done)
	err := n.w.Close()
	n.ended.Wait()
	return err
}

func (n *fsNotifier) forwardEvents() {
	for {
		select {
		case <-n.done:
			return
		case ev, ok := <-n.w.Events:
			if !ok {
				return
			}
			select {
			case n.events <- Event{Path: ev.Name, Op: opOf(ev.Op)}:
			case <-n.done:
				return
			}
		}
	}
}

func (n *fsNotifier) forwardErrors() {
	for {
		select {
		case <-n.done:
			return
		case err, ok := <-n.w.Errors:
			switch {
			case !ok:
				return
			case err == syscall.EINVAL: // it ended a watch that the kernel had ended
				continue
			case errors.Is(err, fsnotify.ErrEventOverflow):
				err = ErrOverflow
			}
			select {
			case n.errs <- err:
			default:
			}
		}
	}
}

// opOf is the weightiest of several operations: gone, then created, then changed.
func opOf(op fsnotify.Op) Op {
	switch {
	case op.Has(fsnotify.Remove) || op.Has(fsnotify.Rename):
		return OpGone
	case op.Has(fsnotify.Create):
		return OpCreated
	}
	return OpChanged
}
