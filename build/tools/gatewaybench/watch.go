package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// watch looks at the app from outside while a load runs. Its fields may be
// read when stop has returned.
type watch struct {
	health, bareGet, barePost samples
	missed                    []string // probes that failed

	// Of the samples taken of the status and of /metrics.
	looks                  int
	mostAtWork, mostInLine int
	scrapes                int
	mostAtWorkByMetrics    int

	before, most, after int64 // memory of the app, bytes

	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex // guards missed
}

func startWatch(ctx context.Context, a *app, b *bare, body string) (*watch, error) {
	w := &watch{}
	var err error
	if w.before, err = a.resident(); err != nil {
		return nil, err
	}
	w.most = w.before
	ctx, w.cancel = context.WithCancel(ctx)
	client := newHTTPClient(4)
	w.every(ctx, 20*time.Millisecond, func() error { return timed(ctx, client, "GET", "http://"+a.address+"/healthz", "", &w.health) })
	w.every(ctx, 20*time.Millisecond, func() error { return timed(ctx, client, "GET", b.url, "", &w.bareGet) })
	w.every(ctx, 50*time.Millisecond, func() error { return timed(ctx, client, "POST", b.url, body, &w.barePost) })
	w.every(ctx, 100*time.Millisecond, func() error {
		s, err := a.status(ctx)
		if err != nil {
			return err
		}
		w.looks++
		w.mostAtWork = max(w.mostAtWork, s.Admission.Executing+s.Admission.Draining)
		w.mostInLine = max(w.mostInLine, s.Admission.Waiting)
		return nil
	})
	w.every(ctx, 500*time.Millisecond, func() error {
		if values := a.metrics(ctx, client); values != nil {
			w.scrapes++
			w.mostAtWorkByMetrics = max(w.mostAtWorkByMetrics, atWork(values))
		}
		return nil
	})
	w.every(ctx, 200*time.Millisecond, func() error {
		now, err := a.resident()
		w.after, w.most = now, max(w.most, now)
		return err
	})
	return w, nil
}

// atWork is how many requests are at the engine by the metrics of one scrape.
func atWork(values map[string]float64) (n int) {
	for name, v := range values {
		if strings.HasPrefix(name, "ondol_admission_executing") || strings.HasPrefix(name, "ondol_admission_draining") {
			n += int(v)
		}
	}
	return n
}

func (w *watch) every(ctx context.Context, pause time.Duration, look func() error) {
	w.group.Go(func() {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := look(); err != nil && ctx.Err() == nil {
				w.mu.Lock()
				w.missed = append(w.missed, err.Error())
				w.mu.Unlock()
			}
		}
	})
}

func (w *watch) stop() {
	w.cancel()
	w.group.Wait()
}

// timed makes one exchange and keeps how long it took, whatever its status.
func timed(ctx context.Context, client *http.Client, method, url, body string, into *samples) error {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	began := time.Now()
	reply, err := client.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if _, err := io.Copy(io.Discard, reply.Body); err != nil {
		return err
	}
	*into = append(*into, time.Since(began))
	return nil
}
