package embedding_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
)

// Eighty long inputs at once must not all be counted at once: llama-server
// would answer nobody meanwhile.
func TestCountingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{countDelay: time.Second}, admission.DefaultLimits())
		defer d.stop()
		var mu sync.Mutex
		var tooLong, full int
		var callers sync.WaitGroup
		for i := range 80 {
			callers.Go(func() {
				_, err := d.Embed(t.Context(), client(strings.Repeat("x", 2000+i)))
				var long *embedding.TooLongError
				var rejected *admission.RejectedError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.As(err, &long) && !long.AtLeast && long.Tokens == 2002+i:
					tooLong++
				case errors.As(err, &rejected) && rejected.Reason == admission.QueueFull:
					full++
				default:
					t.Errorf("error = %v", err)
				}
			})
		}
		callers.Wait()
		if tooLong != 66 || full != 14 {
			t.Errorf("%d counted and refused, %d turned away at once; want 66 and 14", tooLong, full)
		}
		if d.client.mostCounts != 2 {
			t.Errorf("%d counts at once, want 2", d.client.mostCounts)
		}
		if totals := d.wantIdle(t).Totals; totals[admission.QueueFull] != 14 || totals[admission.Failed] != 66 {
			t.Errorf("totals = %v", totals)
		}
	})
}

func TestCountingWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &fakeClient{countDelay: time.Hour}, admission.DefaultLimits())
		defer d.stop()
		var held sync.WaitGroup
		defer held.Wait()
		for i := range 2 {
			held.Go(func() { d.Embed(context.Background(), client(strings.Repeat("x", 2000+i))) })
		}
		synctest.Wait()
		start := time.Now()
		_, err := d.Embed(t.Context(), client(strings.Repeat("y", 2000)))
		var rejected *admission.RejectedError
		if !errors.As(err, &rejected) || rejected.Reason != admission.QueueTimeout || time.Since(start) != 2*time.Minute {
			t.Errorf("error = %v after %v, want %s after 2m", err, time.Since(start), admission.QueueTimeout)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Embed(ctx, client(strings.Repeat("z", 2000))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error of one that left = %v", err)
		}
	})
}

// A text far too long is refused after a part of it.
func TestHugeTextIsNotCountedToItsEnd(t *testing.T) {
	for name, text := range map[string]string{
		"words":       strings.Repeat("word ", 400_000),
		"one word":    strings.Repeat("온", 700_000),
		"not UTF-8":   strings.Repeat("\x80", 2_000_000),
		"just beyond": strings.Repeat("x ", 132_000),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, &fakeClient{}, admission.DefaultLimits())
				defer d.stop()
				_, err := d.Embed(t.Context(), client(text))
				var long *embedding.TooLongError
				if !errors.As(err, &long) || !long.AtLeast || long.Tokens <= long.Limit {
					t.Fatalf("error = %v", err)
				}
				if !strings.Contains(err.Error(), "at least") {
					t.Errorf("%q does not say that the count is a lower bound", err)
				}
				counted := 0
				for _, piece := range d.client.counted {
					counted += len(piece)
				}
				if counted == 0 || counted > 64<<10 {
					t.Errorf("%d bytes were counted", counted)
				}
			})
		})
	}
}
