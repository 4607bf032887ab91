package embedding_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
)

// 20 clients, the same 10 medium inputs, a deadline shorter than the work, 5
// retries each: the engine computes each input once.
func TestRetryStorm(t *testing.T) {
	// The work is 50 s for all, and 10 s for each.
	deadlines := map[bool]time.Duration{true: 20 * time.Second, false: 4 * time.Second}
	for name, batch := range map[string]bool{"one request for all inputs": true, "one request for each input": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openCached(t, &fakeClient{delay: 10 * time.Second}, admission.DefaultLimits())
				defer d.stop()
				d.engine.alter(func(i *embedding.Instance) { i.MaxTokens, i.BatchTokens = 8192, 8192 })
				inputs := make([]string, 10)
				for i := range inputs {
					inputs[i] = fmt.Sprint(i, strings.Repeat(" medium", 730)) // a few to a call
				}
				storm(t, d.Service, inputs, batch, deadlines[batch])
				d.wantIdle(t)
				computed := map[string]int{}
				calls, most := d.client.seen()
				for _, call := range calls {
					for _, input := range call {
						computed[input]++
					}
				}
				for _, input := range inputs {
					if computed[input] != 1 {
						t.Errorf("input %.2s was computed %d times", input, computed[input])
					}
				}
				if most > 2 {
					t.Errorf("%d engine calls at once", most)
				}
			})
		})
	}
}

// storm returns when all 20 clients have their vectors.
func storm(t *testing.T, d *embedding.Service, inputs []string, batch bool, deadline time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			requests := [][]string{inputs}
			if !batch {
				requests = nil
				for _, input := range inputs {
					requests = append(requests, []string{input})
				}
			}
			for _, request := range requests {
				var err error
				for range 6 {
					ctx, cancel := context.WithTimeout(t.Context(), deadline)
					_, err = d.Embed(ctx, client(request...))
					cancel()
					if err == nil {
						break
					}
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error = %v", err)
					}
				}
				if err != nil {
					t.Errorf("no vectors after 5 retries: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
