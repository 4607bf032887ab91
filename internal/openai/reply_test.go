package openai_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/openai"
)

// wireReply is the reply as encoding/json reads and writes it.
type wireReply struct {
	Object string     `json:"object"`
	Data   []wireItem `json:"data"`
	Model  string     `json:"model"`
	Usage  wireUsage  `json:"usage"`
}

type wireItem struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

type wireUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// unit is a random normalised vector.
func unit(rng *rand.Rand, dim int) []float32 {
	v := make([]float32, dim)
	var sum float64
	for i := range v {
		v[i] = float32(rng.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return v
}

func base64Of(v []float32) string {
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(raw.Bytes())
}

func TestAppendJSONEqualsEncodingJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	any32 := make([]float32, 0, 4096)
	for len(any32) < cap(any32) {
		if f := math.Float32frombits(rng.Uint32()); !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) {
			any32 = append(any32, f)
		}
	}
	edges := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1e-6, math.Nextafter32(1e-6, 0), -1e-7, 1e-9, 1e-10, 1e20, 1e21,
		math.Nextafter32(1e21, 0), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 1.1754944e-38, 16777216, 0.1, 1. / 3}
	tests := []struct {
		name    string
		model   string
		vectors [][]float32
	}{
		{"starter", "starter", [][]float32{unit(rng, 128)}},
		{"large", "qwen3", [][]float32{unit(rng, 2560), unit(rng, 2560), unit(rng, 2560)}},
		{"odd lengths", "m", [][]float32{unit(rng, 1), unit(rng, 2), unit(rng, 191), unit(rng, 192), unit(rng, 193), unit(rng, 577)}},
		{"every magnitude", "m", [][]float32{any32}},
		{"edges", "m", [][]float32{edges}},
		{"model to escape", "온돌 <\"a\\b\n&>", [][]float32{{1}}},
	}
	for _, tt := range tests {
		for _, enc := range []openai.Encoding{openai.EncodingFloat, openai.EncodingBase64} {
			t.Run(tt.name+"/"+enc.String(), func(t *testing.T) {
				want := wireReply{Object: "list", Model: tt.model, Usage: wireUsage{77, 77}}
				for i, v := range tt.vectors {
					item := wireItem{Object: "embedding", Index: i, Embedding: v}
					if enc == openai.EncodingBase64 {
						item.Embedding = base64Of(v)
					}
					want.Data = append(want.Data, item)
				}
				wantJSON, err := json.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				r := openai.EmbeddingReply{Model: tt.model, Vectors: tt.vectors, Encoding: enc, PromptTokens: 77}
				got, err := r.AppendJSON([]byte("kept"))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, append([]byte("kept"), wantJSON...)) {
					t.Errorf("reply differs from encoding/json:\n%s", cmp.Diff("kept"+string(wantJSON), string(got)))
				}
			})
		}
	}
}

// A float32 that was written reads back as the same bits.
func TestAppendJSONRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	v := unit(rng, 2560)
	r := openai.EmbeddingReply{Model: "m", Vectors: [][]float32{v}, Encoding: openai.EncodingFloat}
	body, err := r.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Data []struct{ Embedding []float32 }
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, got.Data[0].Embedding); diff != "" {
		t.Errorf("vector (-sent +read):\n%s", diff)
	}
}

func TestAppendJSONRefusesNotFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, enc := range []openai.Encoding{openai.EncodingFloat, openai.EncodingBase64} {
			r := openai.EmbeddingReply{Vectors: [][]float32{{1, 0}, {0, bad}}, Encoding: enc}
			if out, err := r.AppendJSON(nil); err == nil {
				t.Errorf("%v as %s: wrote %s, want an error", bad, enc, out)
			}
		}
	}
}

func TestSizeHoldsTheReply(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, dim := range []int{1, 128, 2560} {
		for _, enc := range []openai.Encoding{openai.EncodingFloat, openai.EncodingBase64} {
			r := openai.EmbeddingReply{Model: "some-model", Encoding: enc, PromptTokens: 1 << 40}
			for range 2048 / dim {
				r.Vectors = append(r.Vectors, unit(rng, dim))
			}
			out, err := r.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(out) > r.Size() {
				t.Errorf("dim %d %s: %d bytes, estimated %d", dim, enc, len(out), r.Size())
			}
		}
	}
}

func TestEnvelope(t *testing.T) {
	full := openai.Error{Message: "m", Type: openai.TypeInvalidRequest, Param: "input", Code: "c"}
	if got, want := string(full.Envelope()), `{"error":{"message":"m","type":"invalid_request_error","param":"input","code":"c"}}`; got != want {
		t.Errorf("envelope = %s, want %s", got, want)
	}
	bare := openai.Error{Message: "m", Type: openai.TypeServer}
	if got, want := string(bare.Envelope()), `{"error":{"message":"m","type":"server_error","param":null,"code":null}}`; got != want {
		t.Errorf("envelope = %s, want %s", got, want)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, dim := range []int{128, 2560} {
		for _, enc := range []openai.Encoding{openai.EncodingFloat, openai.EncodingBase64} {
			r := openai.EmbeddingReply{Model: "m", Vectors: [][]float32{unit(rng, dim)}, Encoding: enc, PromptTokens: 9}
			b.Run(fmt.Sprintf("dim=%d/%s", dim, enc), func(b *testing.B) {
				buf := make([]byte, 0, r.Size())
				b.ReportAllocs()
				for b.Loop() {
					out, err := r.AppendJSON(buf[:0])
					if err != nil {
						b.Fatal(err)
					}
					b.SetBytes(int64(len(out)))
				}
			})
		}
	}
}
