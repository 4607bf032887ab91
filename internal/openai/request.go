package openai

import (
	"strconv"
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

// Decoder turns the token ids of one input into text.
type Decoder func(ids []uint) (string, error)

// ParseEmbeddings reads one request body. Unknown fields are ignored; null
// counts as absent, because several clients send it; names are matched
// exactly and a known name may stand only once. Escaped lone surrogates
// become U+FFFD (texts cut in the middle of an emoji come that way); raw
// bytes that are not UTF-8 are refused, and so are token ids with a nil decode. The error is an
// *Error fit for a 400. Nothing of the request refers to body afterwards.
//
// A decode is for a client whose vocabulary is known: [int] is one input,
// [[int]] are several, each turned into text by it.
func ParseEmbeddings(body []byte, decode Decoder) (EmbeddingRequest, error) {
	p := parser{scanner: scanner{data: body}, decode: decode}
	p.req.Encoding = EncodingFloat
	err := p.object()
	return p.req, err
}

// parser walks the top-level object once, so that a value of the wrong type is
// seen as it is and never turned into a zero value.
type parser struct {
	scanner
	req    EmbeddingRequest
	seen   [len(fields)]bool
	decode Decoder
}

// fields are the names that mean something here.
var fields = [...]string{"input", "model", "encoding_format", "dimensions"}

func (p *parser) object() error {
	if !utf8.Valid(p.data) {
		return invalid("", CodeInvalidJSON, "the body is not valid UTF-8; encode the JSON as UTF-8")
	}
	if c := p.peek(); c != '{' {
		if err := p.skip(0); err != nil {
			return err
		}
		return invalid("", CodeInvalidJSON, `the body must be a JSON object such as {"model":"…","input":"…"}`)
	}
	if err := p.members(p.field); err != nil {
		return err
	}
	if p.peek(); p.pos < len(p.data) {
		return invalid("", CodeInvalidJSON, "something follows the JSON object; send exactly one object")
	}
	if len(p.req.Inputs) == 0 {
		return invalid("input", CodeMissingField, "input is missing; send a string or an array of 1 to 2048 strings")
	}
	return nil
}

func (p *parser) field(name []byte) error {
	at := -1
	for i, known := range fields {
		if string(name) == known {
			at = i
		}
	}
	if at < 0 {
		return p.skip(1)
	}
	if p.seen[at] {
		return invalid(fields[at], CodeDuplicateField, fields[at]+" stands twice in the body; send it once")
	}
	p.seen[at] = true
	if p.peek() == 'n' {
		return p.word("null")
	}
	switch fields[at] {
	case "input":
		return p.input()
	case "model":
		return p.model()
	case "encoding_format":
		return p.encoding()
	default:
		return p.dimensions()
	}
}

func (p *parser) model() error {
	if p.peek() != '"' {
		return p.wrong(invalid("model", CodeInvalidValue, "model must be a string; GET /v1/models lists the names"))
	}
	s, err := p.text()
	p.req.Model = string(s)
	return err
}

func (p *parser) encoding() error {
	refusal := invalid("encoding_format", CodeInvalidValue, `encoding_format must be "float" or "base64"`)
	if p.peek() != '"' {
		return p.wrong(refusal)
	}
	s, err := p.text()
	if err != nil {
		return err
	}
	switch {
	case string(s) == string(EncodingFloat):
		p.req.Encoding = EncodingFloat
	case string(s) == string(EncodingBase64):
		p.req.Encoding = EncodingBase64
	default:
		return refusal
	}
	return nil
}

func (p *parser) dimensions() error {
	refusal := invalid("dimensions", CodeInvalidValue, "dimensions must be a whole number of at least 1; leave it out for the model's own")
	if c := p.peek(); c != '-' && (c < '0' || c > '9') {
		return p.wrong(refusal)
	}
	num, err := p.number()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(num))
	if err != nil || n < 1 {
		return refusal
	}
	p.req.Dimensions = n
	return nil
}

// wrong is refusal for a value of the wrong kind, unless the value is no JSON at all.
func (p *parser) wrong(refusal error) error {
	if err := p.skip(1); err != nil {
		return err
	}
	return refusal
}

func (p *parser) input() error {
	switch p.peek() {
	case '"':
		s, err := p.text()
		if err != nil {
			return err
		}
		if len(s) == 0 {
			return invalid("input", CodeInvalidValue, "input is an empty string; send some text")
		}
		p.req.Inputs = []string{string(s)}
		return nil
	case '[':
		return p.inputs()
	}
	return p.wrong(invalid("input", CodeInvalidValue, "input must be a string or an array of strings"))
}
