package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ondol-app/ondol/build/tools/qwen3"
)

// Bounds of the load part.
const (
	mostAtWork       = 2
	mostInLine       = 64
	refusalBound     = 20 * time.Millisecond // p99
	healthBound      = 10 * time.Millisecond // p99
	healthWorstBound = 50 * time.Millisecond
	growthBound      = 50 << 20 // bytes
	emptyWithin      = time.Minute
)

// slowDim is the dimension of the vectors of the load part.
const slowDim = 2560

func measureLoad(ctx context.Context, o options, dir string, r *report) error {
	model := filepath.Join(dir, "slow.gguf")
	if err := qwen3.Write(model, qwen3.Shape{Blocks: 8, Width: slowDim, Heads: 1, KVHeads: 1, HeadWidth: 64, FeedForward: 64, Vocabulary: 257, Seed: 1}); err != nil {
		return err
	}
	a, err := startApp(ctx, o, filepath.Join(dir, "load"), model, "small", nil)
	if err != nil {
		return err
	}
	defer a.stop()
	b, err := startBare(ctx, dir)
	if err != nil {
		return err
	}
	defer b.stop()
	c := &caller{http: newHTTPClient(o.clients), url: "http://" + a.address + "/v1/embeddings", dim: slowDim}
	took, err := c.calibrate(ctx, o.service)
	if err != nil {
		return err
	}
	r.title("Load: an engine that took %s for two requests at once (inputs of %d tokens, all different)", ms(took), c.length)
	for _, leaving := range []bool{false, true} {
		if err := loadRun(ctx, o, a, b, c, leaving, r); err != nil {
			return err
		}
	}
	return nil
}

// loadRun is one run: clients for the duration, then the end of what they began.
func loadRun(ctx context.Context, o options, a *app, b *bare, c *caller, leaving bool, r *report) error {
	start, err := a.status(ctx)
	if err != nil {
		return err
	}
	w, err := startWatch(ctx, a, b, `{"input":"`+strings.Repeat("x", c.length)+`"}`)
	if err != nil {
		return err
	}
	began := time.Now()
	all := c.crowd(ctx, o, leaving)
	took := time.Since(began)
	emptied, end, err := a.emptied(ctx)
	w.stop()
	if err != nil {
		return err
	}
	who := "all stay"
	if leaving {
		who = "half of them hang up at a random moment"
	}
	r.title(" %d clients for %s, %s", o.clients, o.duration, who)
	r.note("took", "%.1f s until the last answer; refused clients come back when told, but after %s at the most", took.Seconds(), o.retryMost)
	if n := end.Admission.Service.Count - start.Admission.Service.Count; n > 0 {
		r.note("at the engine, by the gate", "%.0f ms on average", (end.Admission.Service.Sum-start.Admission.Service.Sum)/float64(n)*1000)
	}
	reportOutcomes(all, start.Admission.Totals, end.Admission.Totals, leaving, took, r)
	reportQueue(all, w, emptied, r)
	reportTimes(all, w, r)
	return nil
}

// crowd lets the clients call until the duration is over and returns what
// they saw. A refused client comes back after the time it was told, but for
// at most o.retryMost and half of it more or less; one that hung up comes
// back within a second; one that was served at once.
func (c *caller) crowd(ctx context.Context, o options, leaving bool) []exchange {
	seen := make([][]exchange, o.clients)
	until, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	var group sync.WaitGroup
	for i := range o.clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i)))
			pause := time.Duration(i) * 5 * time.Millisecond // they come one after another
			for sleep(until, pause) {
				leave := time.Duration(0)
				if leaving && i%2 == 1 {
					leave = c.moment(random, o.service)
				}
				x := c.call(ctx, random, leave)
				seen[i] = append(seen[i], x)
				pause = 0
				switch x.outcome {
				case served:
					c.lately.Store(int64(x.took))
				case queueFull, queueTimeout:
					pause = min(x.retry, o.retryMost)/2 + time.Duration(random.Int64N(int64(min(x.retry, o.retryMost))))
				default: // whatever went wrong must not become a busy loop
					pause = time.Duration(random.Int64N(int64(time.Second)))
				}
			}
		})
	}
	group.Wait()
	return slices.Concat(seen...)
}

// sleep waits and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// emptied waits for the app to have nothing at work and nobody waiting.
func (a *app) emptied(ctx context.Context) (took time.Duration, s status, err error) {
	began := time.Now()
	for {
		if s, err = a.status(ctx); err != nil {
			return 0, s, err
		}
		took = time.Since(began)
		if s.Admission.Executing+s.Admission.Draining+s.Admission.Waiting == 0 || took > emptyWithin {
			return took, s, nil
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return 0, s, ctx.Err()
		}
	}
}

func reportOutcomes(all []exchange, before, after map[string]uint64, leaving bool, took time.Duration, r *report) {
	counts := make(map[string]int)
	for _, x := range all {
		counts[x.outcome]++
	}
	var other []string
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		if !slices.Contains([]string{served, queueFull, queueTimeout, left, hung}, outcome) {
			other = append(other, fmt.Sprintf("%d × %s", counts[outcome], outcome))
		}
	}
	r.note("requests", "%d: %d served, %d queue_full, %d queue_timeout, %d left", len(all),
		counts[served], counts[queueFull], counts[queueTimeout], counts[left])
	r.note("pace", "%.1f served/s, %.0f refused/s", float64(counts[served])/took.Seconds(), float64(counts[queueFull])/took.Seconds())
	r.bound("other ends", len(other) == 0, "none", "%s", strings.Join(append(other, fmt.Sprintf("%d in all", len(other))), "; "))
	r.bound("requests without an end", counts[hung] == 0, "0", "%d", counts[hung])

	gate, sum := make(map[string]int), 0
	for outcome, n := range after {
		gate[outcome] = int(n - before[outcome])
		sum += gate[outcome]
	}
	if !leaving {
		same := sum == len(all)
		for _, outcome := range []string{served, queueFull, queueTimeout} {
			same = same && gate[outcome] == counts[outcome]
		}
		r.bound("one outcome each, by the gate", same, "the clients' counts", "%d: %d served, %d queue_full", sum, gate[served], gate[queueFull])
		return
	}
	r.bound("one outcome each, by the gate", sum <= len(all) && sum >= len(all)-counts[left] && gate[served] >= counts[served],
		"all but who left unseen", "%d: %d served, %d queue_full, %d left waiting, %d left executing", sum,
		gate[served], gate[queueFull], gate["cancelled_waiting"], gate["cancelled_executing"])
}

func reportQueue(all []exchange, w *watch, emptied time.Duration, r *report) {
	r.bound("executing and draining, most", w.looks > 0 && w.mostAtWork <= mostAtWork, "2", "%d in %d looks at the status", w.mostAtWork, w.looks)
	if w.scrapes > 0 {
		r.bound("the same by /metrics", w.mostAtWorkByMetrics <= mostAtWork, "2", "%d in %d scrapes", w.mostAtWorkByMetrics, w.scrapes)
	} else {
		r.note("the same by /metrics", "this build has no /metrics")
	}
	r.bound("waiting, most", w.mostInLine <= mostInLine, "64", "%d", w.mostInLine)
	r.bound("queue empty at the end", emptied <= emptyWithin, emptyWithin.String(), "%s after the last answer", ms(emptied))

	orderly := slices.DeleteFunc(slices.Clone(all), func(x exchange) bool { return x.outcome != served })
	histogram := make([]int, mostOvertakers+2) // the last: more than that
	worst := 0
	for _, n := range overtakers(orderly) {
		histogram[min(n, mostOvertakers+1)]++
		worst = max(worst, n)
	}
	r.bound("order: answered before, sent after", worst <= mostOvertakers, "2, see order.go",
		"at most %d; by none/one/two/more: %v", worst, histogram)
}

func reportTimes(all []exchange, w *watch, r *report) {
	var refusals, waits samples
	for _, x := range all {
		switch x.outcome {
		case queueFull:
			refusals = append(refusals, x.took)
		case served:
			waits = append(waits, x.took)
		}
	}
	r.note("served: wait and work", "p50 %s, p99 %s, most %s", ms(waits.at(0.5)), ms(waits.at(0.99)), ms(waits.max()))
	r.bound("refused (429)", refusals.at(0.99) < refusalBound, "p99 < 20 ms", "p50 %s, p99 %s, most %s", ms(refusals.at(0.5)), ms(refusals.at(0.99)), ms(refusals.max()))
	r.note("  the bare server's 429", "p50 %s, p99 %s, most %s", ms(w.barePost.at(0.5)), ms(w.barePost.at(0.99)), ms(w.barePost.max()))
	r.bound("/healthz", w.health.at(0.99) < healthBound && w.health.max() < healthWorstBound, "p99 < 10 ms, never 50",
		"p50 %s, p99 %s, most %s (%d)", ms(w.health.at(0.5)), ms(w.health.at(0.99)), ms(w.health.max()), len(w.health))
	r.note("  the bare server", "p50 %s, p99 %s, most %s (%d)", ms(w.bareGet.at(0.5)), ms(w.bareGet.at(0.99)), ms(w.bareGet.max()), len(w.bareGet))
	r.bound("probes that failed", len(w.missed) == 0, "0", "%d%s", len(w.missed), first(w.missed))
	mb := func(n int64) float64 { return float64(n) / (1 << 20) }
	r.bound("memory of the app", w.most-w.before < growthBound, "growth < 50 MB", "before %.1f, most %.1f, after %.1f MB", mb(w.before), mb(w.most), mb(w.after))
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ", such as: " + list[0]
}
