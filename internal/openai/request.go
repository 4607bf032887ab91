package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxInputs is how many inputs one embeddings request may carry, as in the
// OpenAI API.
const MaxInputs = 2048

// Encoding is how vectors are written in a reply.
type Encoding string

const (
	EncodingFloat  Encoding = "float"  // a JSON array of numbers
	EncodingBase64 Encoding = "base64" // little-endian float32, standard base64
)

// String returns the encoding as it stands in JSON.
func (e Encoding) String() string { return string(e) }

// EmbeddingRequest is a valid POST /v1/embeddings.
type EmbeddingRequest struct {
	Model      string   // empty = the client did not say
	Inputs     []string // 1 … MaxInputs, none empty, valid UTF-8
	Encoding   Encoding // EncodingFloat when the client did not say
	Dimensions int      // ≥ 1; 0 = the client did not say
}

// ParseEmbeddings reads one request body. Unknown fields are ignored; null
// counts as absent, because several clients send it; names are matched
// exactly and a known name may stand only once. Escaped lone surrogates
// become U+FFFD (texts cut in the middle of an emoji come that way); raw
// bytes that are not UTF-8 are refused. The error is an *Error fit for a 400.
func ParseEmbeddings(body []byte) (EmbeddingRequest, error) {
	req := EmbeddingRequest{Encoding: EncodingFloat}
	if !utf8.Valid(body) {
		return req, invalid("", CodeInvalidJSON, "the body is not valid UTF-8; encode the JSON as UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	p := parser{dec: dec, req: &req, seen: make(map[string]bool, 4)}
	if err := p.object(); err != nil {
		return req, err
	}
	if len(req.Inputs) == 0 {
		return req, invalid("input", CodeMissingField, "input is missing; send a string or an array of 1 to 2048 strings")
	}
	return req, nil
}

// parser walks the top-level object once, token by token, so that a value of
// the wrong type is seen as it is and never turned into a zero value.
type parser struct {
	dec  *json.Decoder
	req  *EmbeddingRequest
	seen map[string]bool
}

func (p *parser) object() error {
	tok, err := p.dec.Token()
	if err != nil {
		return syntax(err)
	}
	if tok != json.Delim('{') {
		return invalid("", CodeInvalidJSON, `the body must be a JSON object such as {"model":"…","input":"…"}`)
	}
	for p.dec.More() {
		key, err := p.dec.Token()
		if err != nil {
			return syntax(err)
		}
		// Between braces the decoder yields nothing but strings as keys.
		if err := p.field(key.(string)); err != nil {
			return err
		}
	}
	if _, err := p.dec.Token(); err != nil {
		return syntax(err)
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return invalid("", CodeInvalidJSON, "something follows the JSON object; send exactly one object")
	}
	return nil
}

func (p *parser) field(name string) error {
	switch name {
	case "input", "model", "encoding_format", "dimensions":
		if p.seen[name] {
			return invalid(name, CodeDuplicateField, name+" stands twice in the body; send it once")
		}
		p.seen[name] = true
	default:
		var skipped json.RawMessage
		if err := p.dec.Decode(&skipped); err != nil {
			return syntax(err)
		}
		return nil
	}
	tok, err := p.dec.Token()
	if err != nil {
		return syntax(err)
	}
	if tok == nil {
		return nil
	}
	switch name {
	case "input":
		return p.input(tok)
	case "model":
		return p.model(tok)
	case "encoding_format":
		return p.encoding(tok)
	default:
		return p.dimensions(tok)
	}
}

func (p *parser) model(tok json.Token) error {
	s, ok := tok.(string)
	if !ok {
		return invalid("model", CodeInvalidValue, "model must be a string; GET /v1/models lists the names")
	}
	p.req.Model = s
	return nil
}

func (p *parser) encoding(tok json.Token) error {
	s, _ := tok.(string)
	switch e := Encoding(s); e {
	case EncodingFloat, EncodingBase64:
		p.req.Encoding = e
		return nil
	}
	return invalid("encoding_format", CodeInvalidValue, `encoding_format must be "float" or "base64"`)
}

func (p *parser) dimensions(tok json.Token) error {
	num, _ := tok.(json.Number)
	n, err := strconv.Atoi(num.String())
	if err != nil || n < 1 {
		return invalid("dimensions", CodeInvalidValue, "dimensions must be a whole number of at least 1; leave it out for the model's own")
	}
	p.req.Dimensions = n
	return nil
}

func (p *parser) input(tok json.Token) error {
	switch v := tok.(type) {
	case string:
		if v == "" {
			return invalid("input", CodeInvalidValue, "input is an empty string; send some text")
		}
		p.req.Inputs = []string{v}
		return nil
	case json.Delim:
		if v == '[' {
			return p.inputs()
		}
	}
	return invalid("input", CodeInvalidValue, "input must be a string or an array of strings")
}

func (p *parser) inputs() error {
	for i := 0; p.dec.More(); i++ {
		if i == MaxInputs {
			return invalid("input", CodeInvalidValue, fmt.Sprintf("input has more than %d items; send it in several requests", MaxInputs))
		}
		tok, err := p.dec.Token()
		if err != nil {
			return syntax(err)
		}
		switch v := tok.(type) {
		case string:
			if v == "" {
				return invalid("input", CodeInvalidValue, fmt.Sprintf("input[%d] is an empty string; leave it out", i))
			}
			p.req.Inputs = append(p.req.Inputs, v)
			continue
		case json.Number:
			return tokenIDs()
		case json.Delim:
			if v == '[' {
				return tokenIDs()
			}
		}
		return invalid("input", CodeInvalidValue, fmt.Sprintf("input[%d] must be a string", i))
	}
	if _, err := p.dec.Token(); err != nil {
		return syntax(err)
	}
	if len(p.req.Inputs) == 0 {
		return invalid("input", CodeInvalidValue, "input is an empty array; send 1 to 2048 strings")
	}
	return nil
}

// tokenIDs refuses ids: nothing tells whose vocabulary they come from, and
// ids of another one would give vectors that look right and are wrong.
func tokenIDs() error {
	return invalid("input", CodeTokenIDs, "input holds token ids, whose vocabulary is unknown here; send text instead "+
		"(LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))")
}

// syntax turns a decoder error into the envelope; the decoder's own text
// tells the character at fault and is kept.
func syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("", CodeInvalidJSON, "the JSON body is empty or ends too early; send one complete object")
	}
	what := strings.TrimPrefix(err.Error(), "json: ")
	var at *json.SyntaxError
	if errors.As(err, &at) {
		return invalid("", CodeInvalidJSON, fmt.Sprintf("the body is not valid JSON: %s (near byte %d)", what, at.Offset))
	}
	return invalid("", CodeInvalidJSON, "the body is not valid JSON: "+what)
}
