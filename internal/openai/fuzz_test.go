package openai_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/openai"
	"github.com/ondol-app/ondol/internal/vector"
)

// FuzzBase64 decodes any text as vectors come over the wire: what is accepted
// is the standard encoding of whole floats, and what the reply writes of them
// decodes to the same bits.
func FuzzBase64(f *testing.F) {
	for _, s := range []string{"", "AACAPwAAAEA=", "AACAPwAAAEA", "AAC/fw==", "AACAfwAAgP8=", "AQAAgA==", "A", "====", "AACAPw==\n", "AACAPw==AACAPw==", "AAC-Pw==", "온돌"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := vector.DecodeBase64([]byte(text))
		if err != nil {
			if !errors.Is(err, vector.ErrEncoding) {
				t.Fatalf("%q: error %v is not ErrEncoding", text, err)
			}
			return
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != 4*len(v) {
			t.Fatalf("%q: %d floats, %d bytes, %v", text, len(v), len(raw), err)
		}
		reply := openai.EmbeddingReply{Vectors: [][]float32{v}, Encoding: openai.EncodingBase64}
		body, err := reply.AppendJSON(nil)
		finite := true
		for _, x := range v {
			finite = finite && !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0)
		}
		if finite != (err == nil) {
			t.Fatalf("%v was written with error %v", v, err)
		}
		if err != nil {
			return
		}
		var got struct{ Data []struct{ Embedding string } }
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		again, err := base64.StdEncoding.DecodeString(got.Data[0].Embedding)
		if err != nil || !bytes.Equal(raw, again) {
			t.Fatalf("%x came back as %x, %v", raw, again, err)
		}
		floats := openai.EmbeddingReply{Vectors: [][]float32{v}, Encoding: openai.EncodingFloat}
		if body, err = floats.AppendJSON(nil); err != nil || !json.Valid(body) {
			t.Fatalf("%v as numbers: %s, %v", v, body, err)
		}
	})
}

// What is refused as no JSON is none, but for what the message says.
func FuzzRefusalIsJust(f *testing.F) {
	for _, s := range []string{`{"a":1.5e-7,"input":"x"}`, `{"input":"\u00e9\n"}`, `{"input":["a","b"],"b":[true,false,null,{}]}`, `{"a":-0}`, `{"a":01}`, `{"a":1.}`, `{"a":"\x"}`, `[1]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := openai.ParseEmbeddings(body, nil)
		var e *openai.Error
		if errors.As(err, &e) && e.Code == openai.CodeInvalidJSON && json.Valid(body) {
			if !strings.Contains(e.Message, "UTF-8") && !strings.Contains(e.Message, "must be a JSON object") && !strings.Contains(e.Message, "depth") {
				t.Errorf("%q is JSON, and refused: %s", body, e.Message)
			}
		}
		_, err = openai.ParseEmbeddings(body, func(ids []uint) (string, error) { return fmt.Sprint(ids), nil })
		if err == nil && !json.Valid(body) {
			t.Errorf("accepted invalid JSON %q", body)
		}
		if _, err := openai.ParseRerank(body); err == nil && !json.Valid(body) {
			t.Errorf("accepted invalid JSON %q", body)
		}
	})
}

func TestParseEmbeddingsOfTokenIDs(t *testing.T) {
	decode := func(ids []uint) (string, error) {
		if len(ids) == 0 {
			return "", nil
		}
		if ids[0] == 9 {
			return "", errors.New("unknown id 9")
		}
		return fmt.Sprint(ids), nil
	}
	tests := []struct {
		body string
		want []string
		says string // of the refusal
	}{
		{`{"input":[1,2]}`, []string{"[1 2]"}, ""},
		{`{"input":[[1,2],[3]]}`, []string{"[1 2]", "[3]"}, ""},
		{`{"input":["a",[1]]}`, []string{"a", "[1]"}, ""},
		{`{"input":["a","b"]}`, []string{"a", "b"}, ""},
		{`{"input":["a",1]}`, nil, "token ids"},
		{`{"input":[1,"a"]}`, nil, "input[1]"},
		{`{"input":[1,[2]]}`, nil, "input[1]"},
		{`{"input":[[]]}`, nil, "input[0] holds no token id"},
		{`{"input":[[1],[9]]}`, nil, "input[1] cannot be decoded: unknown id 9"},
		{`{"input":[-1]}`, nil, "whole number"},
		{`{"input":[1.5]}`, nil, "whole number"},
		{`{"input":[[1,"a"]]}`, nil, "whole number"},
		{`{"input":[99999999999]}`, nil, "whole number"},
		{`{"input":[1,}`, nil, "not valid JSON"},
		{`{"input":[[1],[2]` + strings.Repeat(",[1]", openai.MaxInputs) + `]}`, nil, "2048"},
	}
	for _, tt := range tests {
		got, err := openai.ParseEmbeddings([]byte(tt.body), decode)
		if tt.says != "" {
			var e *openai.Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, tt.says) {
				t.Errorf("%.60s: %v, want a refusal with %q", tt.body, err, tt.says)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got.Inputs); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", tt.body, err, diff)
		}
	}
}

// Every exponent from 1e-6 to 1, and what lies beside powers of two and of
// ten, is written as encoding/json does.
func TestAppendVectorEqualsEncodingJSON(t *testing.T) {
	var v []float32
	around := func(f float32) {
		bits := math.Float32bits(f)
		for d := range uint32(9) {
			x := math.Float32frombits(bits - 4 + d)
			v = append(v, x, -x)
		}
	}
	for e := -24; e < 4; e++ {
		for m := range 64 {
			around(float32(math.Ldexp(1+float64(m)/64, e)))
		}
	}
	for x := float32(1e-7); x < 100; x *= 10 {
		around(x)
		around(x * 9.5)
	}
	state := uint32(1)
	for range 200_000 { // a xorshift walk through [2^-20, 1)
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		v = append(v, math.Float32frombits(0x35800000+state%(20<<23)))
	}
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := openai.AppendVector(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		a, b := bytes.Split(want, []byte(",")), bytes.Split(got, []byte(","))
		for i := range a {
			if !bytes.Equal(a[i], b[i]) {
				t.Fatalf("%x: %s, want %s", math.Float32bits(v[i]), b[i], a[i])
			}
		}
	}
}
