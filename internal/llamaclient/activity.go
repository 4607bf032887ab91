package llamaclient

import (
	"io"
	"sync"
	"time"
)

// Activity is what the engine has been given to do and what came of it.
// Questions about the engine itself (health, properties, slots) do not count.
type Activity struct {
	Calls   int       // under way, counts of tokens included
	Working int       // of these, embeddings, rankings and streams
	Done    uint64    // embeddings, rankings and streams that have ended, and pieces of streams that came
	Last    time.Time // end of the last call, counts of tokens included; now while one is under way; zero before the first
}

// activity counts calls.
type activity struct {
	mu      sync.Mutex
	working int       // guarded by mu
	calls   int       // guarded by mu; working, and counts of tokens
	done    uint64    // guarded by mu
	last    time.Time // guarded by mu
}

// begin notes a call; work says whether the engine computes for it in its
// slots. What it returns notes its end.
func (a *activity) begin(work bool) (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	if work {
		a.working++
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls--
		a.last = time.Now()
		if work {
			a.working--
			a.done++
		}
	}
}

func (a *activity) piece() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done++
}

// Activity is what the client has the engine do now.
func (c *Client) Activity() Activity {
	a := &c.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	now := Activity{Calls: a.calls, Working: a.working, Done: a.done, Last: a.last}
	if a.calls > 0 {
		now.Last = time.Now()
	}
	return now
}

// workingBody is the body of a stream: its end is the end of the call.
type workingBody struct {
	io.ReadCloser
	activity *activity
	end      func()
}

func (b *workingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.activity.piece()
	}
	return n, err
}

func (b *workingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
