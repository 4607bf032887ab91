package embedding_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

func truncating(inputs ...string) embedding.Request {
	return embedding.Request{Lane: admission.LaneClient, Inputs: inputs, Truncate: true}
}

// What is embedded is the longest beginning that fits: 998 bytes, as the fake
// engine adds two tokens, and never half of a grapheme.
func TestTruncate(t *testing.T) {
	family := "👩‍👩‍👧‍👦" // one grapheme of 25 bytes
	tests := map[string]struct{ input, want string }{
		"fits":              {strings.Repeat("x", 998), strings.Repeat("x", 998)},
		"one too many":      {strings.Repeat("x", 999), strings.Repeat("x", 998)},
		"much too long":     {strings.Repeat("ab", 100_000), strings.Repeat("ab", 499)},
		"inside a rune":     {"x" + strings.Repeat("온", 400), "x" + strings.Repeat("온", 332)},
		"inside a grapheme": {strings.Repeat(family, 60), strings.Repeat(family, 998/len(family))},
		"combining mark":    {strings.Repeat("x", 997) + "e\u0301" + "tail", strings.Repeat("x", 997)},
		"line end at limit": {strings.Repeat("x", 997) + "\r\n" + "tail", strings.Repeat("x", 997)},
		"short":             {"short", "short"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openCached(t, &fakeClient{}, admission.DefaultLimits())
				defer d.stop()
				r := <-d.ask(t.Context(), truncating("before", tt.input, tt.want))
				if r.err != nil {
					t.Fatal(r.err)
				}
				if !slices.Equal(r.result.Vectors[1], fakeVector(tt.want)) {
					t.Error("not the vector of the cut text")
				}
				cut := []int(nil)
				if tt.input != tt.want {
					cut = []int{1}
				}
				if tokens := 8 + 2*(len(tt.want)+2); !slices.Equal(r.result.Truncated, cut) || r.result.Tokens != tokens {
					t.Errorf("truncated %v, %d tokens, want %v and %d", r.result.Truncated, r.result.Tokens, cut, tokens)
				}
				d.wantCalls(t, []string{"before", tt.want})
				asked := len(strings.Join(d.client.counted, ""))
				if len(d.client.counted) > 60 || asked > 50_000 {
					t.Errorf("counted %d times, %d bytes in all", len(d.client.counted), asked)
				}
				// The cut text is what is cached.
				if r := <-d.ask(t.Context(), client(tt.want)); r.err != nil || r.result.Cached != 1 {
					t.Errorf("%+v, %v", r.result, r.err)
				}
				if r := <-d.ask(t.Context(), truncating(tt.input)); r.err != nil || r.result.Cached != 1 || len(r.result.Truncated) != len(cut) {
					t.Errorf("%+v, %v", r.result, r.err)
				}
				d.wantIdle(t)
			})
		})
	}
}

// mergingClient counts words, so that counts stand still for many bytes.
type mergingClient struct{ *fakeClient }

func (c mergingClient) Embed(ctx context.Context, inputs []string, want vector.Expect) (llamaclient.Reply, error) {
	reply, err := c.fakeClient.Embed(ctx, inputs, want)
	reply.PromptTokens = len(strings.Fields(strings.Join(inputs, " ")))
	return reply, err
}

func (c mergingClient) CountTokens(_ context.Context, texts []string) ([]int, error) {
	counts := make([]int, len(texts))
	for i, text := range texts {
		counts[i] = len(strings.Fields(text))
	}
	return counts, nil
}

func TestTruncateWhereTokensAreWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{}, admission.DefaultLimits())
		defer d.stop()
		d.engine.become("f1", mergingClient{d.client})
		word := "온돌방은따뜻하다 "
		r := <-d.ask(t.Context(), truncating(strings.Repeat(word, 5000)))
		if r.err != nil || r.result.Tokens != 1000 || !slices.Equal(r.result.Truncated, []int{0}) {
			t.Fatalf("%d tokens, %v, %v", r.result.Tokens, r.result.Truncated, r.err)
		}
		calls, _ := d.client.seen()
		if got := calls[0][0]; len(strings.Fields(got)) != 1000 || !utf8.ValidString(got) || len(got) != 1000*len(word) {
			t.Errorf("%d bytes, %d words", len(got), len(strings.Fields(got)))
		}
	})
}

func TestNothingFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openCached(t, &fakeClient{}, admission.DefaultLimits())
		defer d.stop()
		d.engine.alter(func(i *embedding.Instance) { i.MaxTokens = 12 })
		var long *embedding.TooLongError
		r := <-d.ask(t.Context(), truncating("ok", "👩‍👩‍👧‍👦 and more"))
		if !errors.As(r.err, &long) || long.Index != 1 || long.Limit != 12 {
			t.Errorf("error = %v", r.err)
		}
		// Without the wish nothing is cut.
		r = <-d.ask(t.Context(), client("ok", "twelve bytes and more"))
		if !errors.As(r.err, &long) || long.Index != 1 {
			t.Errorf("error = %v", r.err)
		}
		if calls, _ := d.client.seen(); len(calls) != 0 {
			t.Errorf("engine calls: %v", calls)
		}
		d.wantIdle(t)
	})
}
