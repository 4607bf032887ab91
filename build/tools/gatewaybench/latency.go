package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"time"

	"github.com/ondol-app/ondol/build/tools/qwen3"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

// subject is one model that both sides serve.
type subject struct {
	name    string
	model   string
	profile string
	dim     int
	bound   float64 // of the ratio of medians
}

// sideCount is how many ways there are: to a llama-server with the flags of the
// app's, through the gateway, and through the relay to one more.
const sideCount = 3

// side is one of the two ways to the same answer.
type side struct {
	url    string
	client *http.Client
}

func measureLatency(ctx context.Context, o options, dir string, r *report) error {
	tiny := filepath.Join(dir, "tiny.gguf")
	if err := qwen3.Write(tiny, qwen3.Shape{Blocks: 2, Width: 2560, Heads: 1, KVHeads: 1, HeadWidth: 64, FeedForward: 64, Vocabulary: 257, Seed: 1}); err != nil {
		return err
	}
	for _, s := range []subject{
		{"starter", o.starter, "starter", 128, 1.15},
		{"qwen3-shaped, 2 blocks", tiny, "small", 2560, 1.05},
	} {
		if err := s.measure(ctx, o, filepath.Join(dir, s.profile), r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (s subject) measure(ctx context.Context, o options, dir string, r *report) error {
	a, err := startApp(ctx, o, dir, s.model, s.profile, o.threadFlags())
	if err != nil {
		return err
	}
	defer a.stop()
	e, err := startEngine(ctx, o, dir, s.model, s.profile, o.unix, "--poll", "0") // as the app's
	if err != nil {
		return err
	}
	defer e.stop()
	// An engine of its own, as the two others have: one that works twice as
	// often has more of itself in the processor's caches.
	behind, err := startEngine(ctx, o, filepath.Join(dir, "b"), s.model, s.profile, o.unix, "--poll", "0")
	if err != nil {
		return err
	}
	defer behind.stop()
	relay, err := startRelay(ctx, dir, behind.address())
	if err != nil {
		return err
	}
	defer relay.stop()
	sides := [sideCount]side{{e.url, e.client}, {"http://" + a.address, newHTTPClient(2)}, {relay.url, newHTTPClient(2)}}
	if err := s.agree(ctx, sides); err != nil {
		return err
	}
	way := "TCP"
	if o.unix {
		way = "unix socket"
	}
	r.title("Latency: %s, %d dimensions; direct over %s, gateway over TCP; by turns, all inputs different",
		s.name, s.dim, way)
	fmt.Printf("  %-9s %-7s %6s %22s %22s %18s %7s\n", "at once", "reply", "each", "direct p50/p95 ms", "gateway p50/p95 ms", "median difference", "ratio")
	for _, together := range []int{1, 2} {
		for _, encoding := range []string{"float", "base64"} {
			t, err := turns(ctx, sides, together, encoding, o)
			if err != nil {
				return err
			}
			s.print(together, encoding, t, r)
		}
	}
	if err := s.known(ctx, sides[1], o, r); err != nil {
		return err
	}
	if err := s.counted(ctx, a, sides[1], o, r); err != nil {
		return err
	}
	return s.cost(ctx, o, dir, r)
}

func (s subject) print(together int, encoding string, t [sideCount]samples, r *report) {
	f := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	var added samples
	for i := range t[0] {
		added = append(added, t[1][i]-t[0][i])
	}
	ratio := float64(t[1].at(0.5)) / float64(t[0].at(0.5))
	fmt.Printf("  %-9d %-7s %6d %12.3f / %7.3f %12.3f / %7.3f %18s %7.3f %s (≤ %.2f)\n", together, encoding, len(added),
		f(t[0].at(0.5)), f(t[0].at(0.95)), f(t[1].at(0.5)), f(t[1].at(0.95)), us(added.at(0.5)), ratio, r.verdict(ratio <= s.bound), s.bound)
	fmt.Printf("  %17s through the relay instead of the gateway %.3f / %.3f, ratio %.3f\n",
		"", f(t[2].at(0.5)), f(t[2].at(0.95)), float64(t[2].at(0.5))/float64(t[0].at(0.5)))
}

// turns sends o.requests to each side, or as many as o.line leaves time for. A round is one request a client to one
// side and then the same to the other; which is first is drawn by lot. The
// next half-round begins when the last has been answered, so the sides never
// work at the same moment, and what else runs on the machine meets both.
func turns(ctx context.Context, sides [sideCount]side, together int, encoding string, o options) (t [sideCount]samples, err error) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	rounds := o.requests / together
	end := time.Now().Add(o.line)
	const warmUp = 50
	type answer struct {
		at   int
		took time.Duration
		err  error
	}
	answers := make(chan answer, together)
	for round := range warmUp + rounds {
		if round > warmUp && time.Now().After(end) {
			break
		}
		bodies := make([][]byte, together)
		for i := range bodies {
			bodies[i] = requestBody(random, encoding)
		}
		var pair [sideCount][]time.Duration
		for _, which := range random.Perm(sideCount) {
			pair[which] = make([]time.Duration, together)
			for i, body := range bodies {
				go func() {
					took, _, err := sides[which].ask(ctx, body)
					answers <- answer{i, took, err}
				}()
			}
			for range together {
				a := <-answers
				if a.err != nil {
					return t, a.err
				}
				pair[which][a.at] = a.took
			}
		}
		if round >= warmUp {
			for i := range t {
				t[i] = append(t[i], pair[i]...)
			}
		}
	}
	return t, nil
}

// words are common enough for the starter model to know them.
var words = []string{"river", "house", "budget", "doctor", "engine", "music", "garden", "winter", "school", "market", "stone", "letter"}

// requestBody is a request with an input that was not sent before: five words
// and a number.
func requestBody(random *rand.Rand, encoding string) []byte {
	body := []byte(`{"model":"","encoding_format":"` + encoding + `","input":"`)
	for range 5 {
		body = append(append(body, words[random.IntN(len(words))]...), ' ')
	}
	return fmt.Appendf(body, `%09d"}`, random.IntN(1e9))
}

// ask makes one exchange; the reply is read whole and not looked into.
func (s side) ask(ctx context.Context, body []byte) (took time.Duration, reply []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/embeddings", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	reply, err = io.ReadAll(response.Body)
	took = time.Since(began)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", s.url, response.Status, reply)
	}
	return took, reply, err
}

// agree checks that both sides give the same vectors, in both encodings: what
// is compared must be the same work.
func (s subject) agree(ctx context.Context, sides [sideCount]side) error {
	random := rand.New(rand.NewPCG(1, 0))
	for _, encoding := range []string{"float", "base64"} {
		body := requestBody(random, encoding)
		var vectors [sideCount][]float32
		for i, side := range sides {
			_, reply, err := side.ask(ctx, body)
			if err != nil {
				return err
			}
			parsed, err := llamaclient.ParseEmbeddings(reply, vector.Expect{Count: 1, Dim: s.dim, Normalized: true})
			if err != nil {
				return fmt.Errorf("%s: %w", side.url, err)
			}
			vectors[i] = parsed.Vectors[0]
		}
		for i, x := range vectors[0] {
			if math.Abs(float64(x-vectors[1][i])) > 1e-6 {
				return fmt.Errorf("component %d is %v directly and %v through the gateway", i, x, vectors[1][i])
			}
		}
	}
	return nil
}

// known measures inputs that the gateway has answered before.
func (s subject) known(ctx context.Context, gateway side, o options, r *report) error {
	random := rand.New(rand.NewPCG(2, 0))
	bodies := make([][]byte, 20)
	var before, again samples
	for i := range bodies {
		bodies[i] = requestBody(random, "base64")
		took, _, err := gateway.ask(ctx, bodies[i])
		if err != nil {
			return err
		}
		before = append(before, took)
	}
	for i := range o.requests / 2 {
		took, _, err := gateway.ask(ctx, bodies[i%len(bodies)])
		if err != nil {
			return err
		}
		again = append(again, took)
	}
	r.note("an input known already, base64", "p50 %s, p95 %s (first time p50 %s)", ms(again.at(0.5)), ms(again.at(0.95)), ms(before.at(0.5)))
	return nil
}
