package llamaclient

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// asEngines writes is what llama-server answers; quick must take it.
const asEnginesWrite = `{"model":"/m.gguf","object":"list","usage":{"prompt_tokens":7,"total_tokens":7},` +
	`"data":[{"embedding":"mpkZP83MTD8=","index":0,"object":"embedding"},{"embedding":"zcxMP5qZGb8=","index":1,"object":"embedding"}]}`

func TestQuickReplyTakesWhatEnginesWrite(t *testing.T) {
	want := []item{{index: 0, values: []float32{.6, .8}}, {index: 1, values: []float32{.8, -.6}}}
	for _, body := range []string{asEnginesWrite, strings.NewReplacer(",", " ,\n", ":", "\t: ", "[", "[ ", "}", "\r\n}").Replace(asEnginesWrite)} {
		items, tokens, ok := quickReply([]byte(body), 2)
		if diff := cmp.Diff(want, items, cmp.AllowUnexported(item{})); diff != "" || tokens != 7 || !ok {
			t.Errorf("%v, %d tokens (-want +got):\n%s", ok, tokens, diff)
		}
	}
}

func TestQuickReplyDeclines(t *testing.T) {
	for _, change := range [][2]string{
		{`"index":0`, `"index":null`}, {`"index":0`, `"index":-1`}, {`"index":0`, `"index":00`}, {`"index":0`, `"index":0.0`},
		{`"index":0`, `"index":1e1`}, {`"index":0`, `"index":12345678901`}, {`"index":0`, `"index":0,"index":1`},
		{`"index":0`, `"INDEX":0`}, {`"index":0`, `"\u0069ndex":0`}, {`"index":0`, `"index":"0"`}, {`"index":0`, `"index":`},
		{`"mpkZP83MTD8="`, `[0.6,0.8]`}, {`"mpkZP83MTD8="`, `null`}, {`"mpkZP83MTD8="`, `"mpkZP83MTD8\u003d"`},
		{`"mpkZP83MTD8="`, "\"mpkZP83M\nTD8=\""}, {`"object":"list"`, `"more":{}`}, {`]}`, `]`}, {`]}`, `]}}`}, {`]}`, `],}`},
		{`"data":[`, `"data":[],"data":[`}, {`"usage":{`, `"usage":null,"x":{`}, {`},{`, `}{`}, {`"model":"/m`, `"model":"/\"m`},
	} {
		body := strings.Replace(asEnginesWrite, change[0], change[1], 1)
		if body == asEnginesWrite {
			t.Fatalf("%s is not there", change[0])
		}
		if items, _, ok := quickReply([]byte(body), 2); ok {
			t.Errorf("%s: took %v", change[1], items)
		}
	}
}

// What the quick reader takes is what the exact one reads.
func FuzzQuickReply(f *testing.F) {
	for _, seed := range []string{asEnginesWrite, `{}`, `{"data":[]}`, `{"data":[{}]}`, `{"data":[{"embedding":"@"}],"usage":{}}`,
		`{"data":[{"index":0,"embedding":"AACAPw=="}]} `, `{"usage":{"prompt_tokens":0}}`, `{"data":[{"index":01}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		quick, tokens, ok := quickReply(body, 2)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if !ok {
			return
		}
		exact, exactTokens, err := exactReply(body)
		if err != nil || tokens != exactTokens {
			t.Fatalf("%q: %d and %d tokens, %v", body, tokens, exactTokens, err)
		}
		sameErrors := cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) || errors.Is(a, b) })
		if diff := cmp.Diff(exact, quick, cmp.AllowUnexported(item{}), cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), sameErrors); diff != "" {
			t.Fatalf("%q (-exact +quick):\n%s", body, diff)
		}
	})
}

func BenchmarkParseReply(b *testing.B) {
	body := []byte(strings.Replace(asEnginesWrite, "mpkZP83MTD8=", base64.StdEncoding.EncodeToString(make([]byte, 4*2560)), 1))
	b.Run("quick", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, ok := quickReply(body, 2); !ok {
				b.Fatal("declined")
			}
		}
	})
	b.Run("exact", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := exactReply(body); err != nil {
				b.Fatal(err)
			}
		}
	})
}
