package embedding_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/vectorcache"
)

// watchedClient is the real client, with its calls seen.
type watchedClient struct {
	*llamaclient.Client
	mu      sync.Mutex
	order   []string // guarded by mu; first input of each call, in order of their beginning
	running int      // guarded by mu
	most    int      // guarded by mu
}

func (c *watchedClient) Embed(ctx context.Context, inputs []string, want vector.Expect) (llamaclient.Reply, error) {
	c.mu.Lock()
	c.order = append(c.order, inputs[0])
	c.running++
	c.most = max(c.most, c.running)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.running--
		c.mu.Unlock()
	}()
	return c.Client.Embed(ctx, inputs, want)
}

func (c *watchedClient) began() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.order)
}

func (c *watchedClient) atWork() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// realEngine is one llama-server with the Qwen3-shaped model, ready.
type realEngine struct {
	client *watchedClient
	kill   func() // SIGKILL, and wait for its end
	gone   atomic.Bool
}

func (e *realEngine) Changed() (<-chan struct{}, func()) { return make(chan struct{}), func() {} }

func (e *realEngine) Wake() {}

func (e *realEngine) End(uint64) trust.End { return trust.EndUnknown }

func (e *realEngine) Current() (embedding.Instance, error) {
	if e.gone.Load() {
		return embedding.Instance{}, &embedding.UnavailableError{State: "failed", Final: true}
	}
	return embedding.Instance{Generation: 1, Client: e.client, Model: "qwen3-shaped", Dim: 2560, MaxTokens: 1024, BatchTokens: 2, Fingerprint: "f"}, nil
}

func (e *realEngine) Borrow() (embedding.Instance, func(), error) {
	instance, err := e.Current()
	return instance, func() {}, err
}

func (e *realEngine) Replace(context.Context, uint64, trust.Fault) error {
	e.gone.Store(true)
	e.kill()
	return nil
}

func startReal(t *testing.T) *realEngine {
	t.Helper()
	dir, err := os.MkdirTemp("", "emb") // short enough for a unix socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "e.sock")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(enginetest.LlamaServer(t), "-m", enginetest.Qwen3Shaped(t), "--host", socket, "--api-key", "k",
		"--embeddings", "--pooling", "last", "-ngl", "34", "-c", "4096", "-b", "1024", "-ub", "1024", "-np", "4")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatalf("start llama-server: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		command.Wait()
		close(exited)
	}()
	kill := func() {
		command.Process.Kill()
		<-exited
	}
	t.Cleanup(func() {
		kill()
		log.Close()
	})
	client, err := llamaclient.New(llamaclient.Config{Socket: socket, APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	eventually(t, "llama-server is ready", func() bool {
		select {
		case <-exited:
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("llama-server ended:\n%s", said)
		default:
		}
		return client.Health(t.Context()) == nil
	})
	return &realEngine{client: &watchedClient{Client: client}, kill: kill}
}

// eventually polls for what a real process does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 2 min: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// The same crowd as in TestEightyAtOnce, on a real engine; then a caller that
// leaves; then an engine that is killed at work.
func TestRealEngine(t *testing.T) {
	engine := startReal(t)
	limits := admission.DefaultLimits()
	limits.Wait = time.Hour // a busy machine may need more than 120 s for all of them
	gate, err := admission.NewGate(limits)
	if err != nil {
		t.Fatal(err)
	}
	service, err := embedding.New(embedding.Config{Gate: gate, Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	stopGate, stopService := run(t, gate), run(t, service)
	defer stopGate()
	defer stopService()

	t.Run("80 at once", func(t *testing.T) { realCrowd(t, service, gate, engine.client) })
	t.Run("too long", func(t *testing.T) {
		var long *embedding.TooLongError
		_, err := service.Embed(t.Context(), client("a", strings.Repeat("x", 1024)))
		if !errors.As(err, &long) || *long != (embedding.TooLongError{Index: 1, Tokens: 1025, Limit: 1024}) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("split in one permit", func(t *testing.T) {
		before := engine.client.began()
		got, err := service.Embed(t.Context(), client("a", "b", "c", "d", "e", "a"))
		if err != nil || len(got.Vectors) != 6 || got.Tokens != 6*2 {
			t.Errorf("%d vectors, %d tokens, %v", len(got.Vectors), got.Tokens, err)
		}
		if calls := engine.client.began() - before; calls != 3 {
			t.Errorf("%d engine calls", calls)
		}
		// In order, whichever call they came from.
		same, other := canary.Cosine(got.Vectors[0], got.Vectors[5]), canary.Cosine(got.Vectors[0], got.Vectors[4])
		if math.Abs(same-1) > 1e-3 || other > same {
			t.Errorf("equal inputs: cosine %v; different ones: %v", same, other)
		}
	})
	t.Run("executing caller leaves", func(t *testing.T) { realLeave(t, service, gate, engine.client) })
	t.Run("retry storm, then a restart", func(t *testing.T) { realStorm(t, engine) })
	t.Run("engine killed at work", func(t *testing.T) {
		result := make(chan error, 1)
		go func() {
			_, err := service.Embed(t.Context(), client(strings.Repeat("y", 400)))
			result <- err
		}()
		eventually(t, "the engine works", func() bool { return engine.client.atWork() == 1 })
		engine.kill()
		if err := <-result; !isUnavailable(err, "lost") {
			t.Errorf("error = %v, want unavailable", err)
		}
		if _, err := service.Embed(t.Context(), client("after")); !isUnavailable(err, "lost") {
			t.Errorf("after: %v", err)
		}
	})
	eventually(t, "all is idle", func() bool {
		stats := gate.Stats()
		return stats.Executing+stats.Draining+stats.Waiting == 0
	})
}

func realCrowd(t *testing.T, service *embedding.Service, gate *admission.Gate, watched *watchedClient) {
	inputs := make([]string, 80)
	for i := range inputs {
		inputs[i] = string(rune('A'+i%26)) + strings.Repeat("z", i/26+1)
		if i < 2 { // long enough at work for all to arrive behind them
			inputs[i] += strings.Repeat("long ", 70)
		}
	}
	results := make([]error, len(inputs))
	var wg sync.WaitGroup
	for i, input := range inputs {
		wg.Go(func() {
			got, err := service.Embed(t.Context(), client(input))
			results[i] = err
			if err != nil {
				return
			}
			if err := vector.Check(got.Vectors, vector.Expect{Count: 1, Dim: 2560, Normalized: true}); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		})
		eventually(t, "the request has arrived", func() bool {
			stats := gate.Stats()
			return stats.Executing+stats.Waiting+int(stats.Totals[admission.QueueFull]+stats.Totals[admission.Served]) == i+1
		})
	}
	wg.Wait()
	for i, err := range results {
		var refusal *admission.RejectedError
		if i < 66 && err != nil || i >= 66 && !errors.As(err, &refusal) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if watched.most != 2 {
		t.Errorf("%d engine calls at once", watched.most)
	}
	// Two permits granted at the same moment may reach the engine either way round.
	for place, input := range watched.order {
		if off := indexOf(inputs, input) - place; off < -1 || off > 1 {
			t.Errorf("request %d reached the engine as number %d", indexOf(inputs, input), place)
		}
	}
	stats := gate.Stats()
	if stats.Executing+stats.Draining+stats.Waiting != 0 || stats.Totals[admission.Served] != 66 || stats.Totals[admission.QueueFull] != 14 {
		t.Errorf("afterwards: %+v", stats)
	}
}

func indexOf(inputs []string, input string) int {
	for i := range inputs {
		if inputs[i] == input {
			return i
		}
	}
	return -100
}

func realLeave(t *testing.T, service *embedding.Service, gate *admission.Gate, watched *watchedClient) {
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := service.Embed(ctx, client(strings.Repeat("x", 400)))
		left <- err
	}()
	eventually(t, "the engine works", func() bool { return watched.atWork() == 1 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	// A permit is free only when the engine call has ended.
	if stats := gate.Stats(); stats.Draining != 1 || watched.atWork() != 1 {
		t.Errorf("draining %d, the engine has %d calls", stats.Draining, watched.atWork())
	}
	eventually(t, "the permit is back", func() bool { return gate.Stats().Draining == 0 })
	if watched.atWork() != 0 {
		t.Error("the permit came back before the engine call ended")
	}
	if got := gate.Stats().Totals[admission.CancelledExecuting]; got != 1 {
		t.Errorf("cancelled_executing = %d", got)
	}
}

// realStorm is TestRetryStorm on a real engine, with a door of its own that
// keeps its cache on disk; the next door finds every vector there, to the bit.
func realStorm(t *testing.T, engine *realEngine) {
	path := filepath.Join(t.TempDir(), "vectors.cache.db")
	inputs := make([]string, 10)
	for i := range inputs {
		inputs[i] = string(rune('0'+i)) + strings.Repeat(" medium", 8)
	}
	service, stop := openDoor(t, engine, path)
	began := time.Now()
	if _, err := service.Embed(t.Context(), client("first of all"+strings.Repeat(" medium", 8))); err != nil {
		t.Fatal(err)
	}
	deadline := 2 * time.Since(began) // of ten times the work
	before := engine.client.began()
	var mu sync.Mutex
	left := 0
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for try := range 6 {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				_, err := service.Embed(ctx, client(inputs...))
				cancel()
				if err == nil {
					return
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("try %d: %v", try, err)
				}
				mu.Lock()
				left++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if left == 0 {
		t.Error("nobody's time was too short: no storm")
	}
	made, err := service.Embed(t.Context(), client(inputs...))
	if err != nil {
		t.Fatal(err)
	}
	engine.client.mu.Lock()
	computed := append([]string(nil), engine.client.order[before:]...)
	engine.client.mu.Unlock()
	slices.Sort(computed)
	if !slices.Equal(computed, inputs) {
		t.Errorf("%d requests left, the engine computed %q", left, computed)
	}
	stop()

	service, stop = openDoor(t, engine, path)
	defer stop()
	found, err := service.Embed(t.Context(), client(inputs...))
	if err != nil || found.Cached != len(inputs) || found.Tokens != made.Tokens {
		t.Fatalf("%d of %d found, %d tokens, then %d: %v", found.Cached, len(inputs), made.Tokens, found.Tokens, err)
	}
	for i, v := range found.Vectors {
		if !slices.Equal(v, made.Vectors[i]) {
			t.Errorf("vector %d is not the one that was made", i)
		}
	}
	direct, err := engine.client.Client.Embed(t.Context(), inputs[:1], vector.Expect{Dim: 2560, Normalized: true})
	if err != nil || direct.PromptTokens*len(inputs) != found.Tokens {
		t.Fatalf("the engine counts %d tokens for one, the door %d for all: %v", direct.PromptTokens, found.Tokens, err)
	}
	if cosine := canary.Cosine(direct.Vectors[0], found.Vectors[0]); cosine < 0.999 {
		t.Errorf("cosine to the engine's own answer: %v", cosine)
	}
}

// openDoor is a door to engine with a cache at path; stop ends it.
func openDoor(t *testing.T, engine *realEngine, path string) (service *embedding.Service, stop func()) {
	t.Helper()
	store, err := sqlite.OpenVectorCache(t.Context(), sqlite.VectorCacheConfig{Path: path, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := vectorcache.New(vectorcache.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := admission.NewGate(admission.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	service, err = embedding.New(embedding.Config{Gate: gate, Engine: engine, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	stopCache, stopGate, stopService := run(t, cache), run(t, gate), run(t, service)
	return service, func() {
		stopService()
		stopGate()
		stopCache()
	}
}
