package llamaclient

import (
	"bytes"
	"encoding/json"

	"github.com/ondol-app/ondol/internal/vector"
)

// item is one vector of a reply.
type item struct {
	index  int // -1 = it has none that could be right
	values []float32
	err    error // one unreadable vector is a problem of that vector, not of the reply
}

// ParseEmbeddings reads an OpenAI-shaped reply, in floats or base64, and checks
// it against want. The error is a *vector.InvalidError.
func ParseEmbeddings(body []byte, want vector.Expect) (Reply, error) {
	items, tokens, ok := quickReply(body, want.Count)
	if !ok {
		var err error
		if items, tokens, err = exactReply(body); err != nil {
			return Reply{}, malformed()
		}
	}
	if len(items) != want.Count {
		return Reply{}, &vector.InvalidError{Problems: []vector.Problem{{Index: vector.WholeReply, Reason: vector.ReasonCount}}}
	}
	seen := make([]int, want.Count)
	vectors := make([][]float32, want.Count)
	unreadable := make([]bool, want.Count)
	for _, item := range items {
		if item.index < 0 || item.index >= want.Count {
			continue // the input it should have named is seen to be missing
		}
		seen[item.index]++
		vectors[item.index] = item.values
		unreadable[item.index] = item.err != nil
	}
	var problems []vector.Problem
	for i, times := range seen {
		switch {
		case times != 1:
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonIndex})
		case unreadable[i]:
			problems = append(problems, vector.Problem{Index: i, Reason: vector.ReasonMalformed})
		}
	}
	if problems != nil {
		return Reply{}, &vector.InvalidError{Problems: problems}
	}
	if err := vector.Check(vectors, want); err != nil {
		return Reply{}, err
	}
	return Reply{Vectors: vectors, PromptTokens: tokens}, nil
}

// exactReply reads any JSON.
func exactReply(body []byte) (items []item, tokens int, err error) {
	var reply struct {
		Data []struct {
			Index     *int       `json:"index"`
			Embedding wireVector `json:"embedding"`
		} `json:"data"`
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return nil, 0, err
	}
	for _, read := range reply.Data {
		it := item{index: -1, values: read.Embedding.values, err: read.Embedding.err}
		if read.Index != nil {
			it.index = *read.Index
		}
		items = append(items, it)
	}
	return items, reply.Usage.PromptTokens, nil
}

// wireVector takes either encoding and keeps what is wrong with it.
type wireVector struct {
	values []float32
	err    error
}

func (w *wireVector) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '"' {
		w.values, w.err = vector.DecodeJSON(raw)
		return nil
	}
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') >= 0 {
		var unescaped string
		if err := json.Unmarshal(raw, &unescaped); err != nil {
			return err
		}
		text = []byte(unescaped)
	}
	w.values, w.err = vector.DecodeBase64(text)
	return nil
}
