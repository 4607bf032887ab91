package openai

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxDocuments is how many documents one rerank request may carry.
const MaxDocuments = 2048

// RerankRequest is a valid POST /v1/rerank, in the shape Jina and Cohere share.
type RerankRequest struct {
	Model           string   // empty = the client did not say
	Query           string   // not empty
	Documents       []string // 1 … MaxDocuments, none empty
	TopN            int      // ≥ 1; 0 = all
	ReturnDocuments bool
}

// ParseRerank reads one request body; null counts as absent, unknown fields
// are ignored. A document is a string or an object with "text". The error is
// an *Error fit for a 400.
func ParseRerank(body []byte) (RerankRequest, error) {
	var req RerankRequest
	var wire struct {
		Model           json.RawMessage   `json:"model"`
		Query           json.RawMessage   `json:"query"`
		Documents       []json.RawMessage `json:"documents"`
		TopN            *int              `json:"top_n"`
		ReturnDocuments bool              `json:"return_documents"`
	}
	if err := Object(body, &wire); err != nil {
		return req, err
	}
	var ok bool
	if req.Model, ok = optionalText(wire.Model); !ok {
		return req, invalid("model", CodeInvalidValue, "model must be a string")
	}
	if req.Query, ok = optionalText(wire.Query); !ok || req.Query == "" {
		return req, invalid("query", CodeInvalidValue, "query must be a string that is not empty")
	}
	if n := len(wire.Documents); n == 0 || n > MaxDocuments {
		return req, invalid("documents", CodeInvalidValue, fmt.Sprintf("documents must be an array of 1 to %d texts, not %d; send more in several requests", MaxDocuments, n))
	}
	for i, raw := range wire.Documents {
		text, ok := documentText(raw)
		if !ok || text == "" {
			return req, invalid("documents", CodeInvalidValue, fmt.Sprintf(`documents[%d] must be a string or {"text": "…"} and not empty`, i))
		}
		req.Documents = append(req.Documents, text)
	}
	if wire.TopN != nil {
		if req.TopN = *wire.TopN; req.TopN < 1 {
			return req, invalid("top_n", CodeInvalidValue, "top_n must be a whole number of at least 1; leave it out for all documents")
		}
	}
	req.ReturnDocuments = wire.ReturnDocuments
	return req, nil
}

// Object reads body, which must be one JSON object in UTF-8, into the struct
// that into points to. The error is an *Error fit for a 400.
func Object(body []byte, into any) error {
	s := scanner{data: body}
	if !utf8.Valid(body) {
		return invalid("", CodeInvalidJSON, "the body is not valid UTF-8; encode the JSON as UTF-8")
	}
	kind := s.peek()
	if err := s.skip(0); err != nil {
		return err
	}
	if s.peek(); s.pos < len(body) || kind != '{' {
		return invalid("", CodeInvalidJSON, "the body must be exactly one JSON object")
	}
	if err := json.Unmarshal(body, into); err != nil {
		if e, ok := err.(*json.UnmarshalTypeError); ok && e.Field != "" {
			return invalid(e.Field, CodeInvalidValue, e.Field+" must be of type "+e.Type.String()+", not "+e.Value)
		}
		return invalid("", CodeInvalidValue, "a field has a wrong value: "+err.Error())
	}
	return nil
}

// optionalText is a string; absent and null are empty.
func optionalText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", true
	}
	var text string
	return text, json.Unmarshal(raw, &text) == nil
}

func documentText(raw json.RawMessage) (string, bool) {
	if raw[0] != '{' {
		return optionalText(raw)
	}
	var object struct {
		Text string `json:"text"`
	}
	err := json.Unmarshal(raw, &object)
	return object.Text, err == nil
}

// RerankReply is the reply to POST /v1/rerank.
type RerankReply struct {
	Model   string         `json:"model"`
	Object  string         `json:"object"` // always "list"
	Usage   RerankUsage    `json:"usage"`
	Results []RerankResult `json:"results"` // best first
}

// RerankUsage counts the tokens of queries and documents.
type RerankUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// RerankResult is one document's place in the ranking.
type RerankResult struct {
	Index          int             `json:"index"` // in the request
	RelevanceScore float64         `json:"relevance_score"`
	Document       *RerankDocument `json:"document,omitempty"`
}

// RerankDocument repeats a document to who asked for it.
type RerankDocument struct {
	Text string `json:"text"`
}
