package embedding_test

import (
	"context"
	"testing"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

// instantClient answers without work, so that only the door is measured.
type instantClient struct {
	*fakeClient
	reply llamaclient.Reply
}

func (c instantClient) Embed(context.Context, []string, vector.Expect) (llamaclient.Reply, error) {
	return c.reply, nil
}

// What Embed adds to a call of the engine's client: gate, goroutine, check of
// one vector of 2560 components.
func BenchmarkEmbedAdded(b *testing.B) {
	v := make([]float32, 2560)
	for i := range v {
		v[i] = float32(i%11) - 4.5
	}
	if err := vector.Normalize(v); err != nil {
		b.Fatal(err)
	}
	d := open(b, &fakeClient{}, admission.DefaultLimits())
	defer d.stop()
	d.engine.instance.Client = instantClient{d.client, llamaclient.Reply{Vectors: [][]float32{v}, PromptTokens: 3}}
	d.engine.instance.Dim = 2560
	request := client("hello")
	for b.Loop() {
		if _, err := d.Embed(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}
