package embedding_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

// instantClient answers without work, so that only the door is measured.
type instantClient struct {
	*fakeClient
	vector []float32
}

func (c instantClient) Embed(_ context.Context, inputs []string, _ vector.Expect) (llamaclient.Reply, error) {
	reply := llamaclient.Reply{Vectors: make([][]float32, len(inputs)), PromptTokens: 3 * len(inputs)}
	for i := range reply.Vectors {
		reply.Vectors[i] = c.vector
	}
	return reply, nil
}

// instant is a door to an engine of 2560 dimensions that takes no time.
func instant(b *testing.B, cached bool) *door {
	b.Helper()
	v := make([]float32, 2560)
	for i := range v {
		v[i] = float32(i%11) - 4.5
	}
	if err := vector.Normalize(v); err != nil {
		b.Fatal(err)
	}
	begin := open
	if cached {
		begin = openCached
	}
	d := begin(b, &fakeClient{}, admission.DefaultLimits())
	b.Cleanup(d.stop)
	d.engine.alter(func(i *embedding.Instance) { i.Client, i.Dim = instantClient{d.client, v}, 2560 })
	return d
}

// What Embed adds to a call of the engine's client: key, flight, gate,
// goroutine, check of one vector.
func BenchmarkEmbedAdded(b *testing.B) {
	for name, cached := range map[string]bool{"no cache": false, "cache": true} {
		b.Run(name, func(b *testing.B) {
			d := instant(b, cached)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := d.Embed(b.Context(), client(fmt.Sprint("hello ", i))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a request costs that is known already: no permit, no goroutine.
func BenchmarkEmbedHit(b *testing.B) {
	for _, n := range []int{1, 32, 2048} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := instant(b, true)
			request := client(distinct(n)...)
			if _, err := d.Embed(b.Context(), request); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				got, err := d.Embed(b.Context(), request)
				if err != nil || got.Cached != n {
					b.Fatal(got.Cached, err)
				}
			}
		})
	}
}
