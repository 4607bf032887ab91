package openai

import (
	"fmt"
	"strconv"
)

// inputs reads the array of inputs: strings, or the token ids of one input,
// or arrays of token ids.
func (p *parser) inputs() error {
	var ids []uint // of a flat array
	i := 0
	err := p.list('[', ']', func() error {
		var err error
		switch c := p.peek(); {
		case c == '"' && ids == nil:
			err = p.inputText(i)
		case c == '[' && ids == nil:
			err = p.inputIDs(i)
		case c == '-' || c >= '0' && c <= '9':
			if len(p.req.Inputs) > 0 || p.decode == nil {
				return tokenIDs()
			}
			ids, err = p.id(ids)
		default:
			err = p.wrong(invalid("input", CodeInvalidValue, fmt.Sprintf("input[%d] must be a string", i)))
		}
		i++
		return err
	})
	switch {
	case err != nil:
		return err
	case ids != nil:
		return p.add(0, ids)
	case len(p.req.Inputs) == 0:
		return invalid("input", CodeInvalidValue, "input is an empty array; send 1 to 2048 strings")
	}
	return nil
}

func (p *parser) inputText(i int) error {
	s, err := p.text()
	if err != nil {
		return err
	}
	if len(s) == 0 {
		return invalid("input", CodeInvalidValue, fmt.Sprintf("input[%d] is an empty string; leave it out", i))
	}
	return p.keep(string(s))
}

func (p *parser) keep(text string) error {
	if len(p.req.Inputs) == MaxInputs {
		return invalid("input", CodeInvalidValue, fmt.Sprintf("input has more than %d items; send it in several requests", MaxInputs))
	}
	p.req.Inputs = append(p.req.Inputs, text)
	return nil
}

func (p *parser) inputIDs(i int) error {
	if p.decode == nil {
		return tokenIDs()
	}
	var ids []uint
	err := p.list('[', ']', func() (err error) {
		ids, err = p.id(ids)
		return err
	})
	if err != nil {
		return err
	}
	return p.add(i, ids)
}

// id reads one token id.
func (p *parser) id(ids []uint) ([]uint, error) {
	refusal := invalid("input", CodeInvalidValue, "a token id must be a whole number from 0 up; or send text")
	if c := p.peek(); c < '0' || c > '9' {
		return nil, p.wrong(refusal)
	}
	num, err := p.number()
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(string(num), 10, 32)
	if err != nil {
		return nil, refusal
	}
	return append(ids, uint(id)), nil
}

// add keeps the text of one input's token ids.
func (p *parser) add(i int, ids []uint) error {
	text, err := p.decode(ids)
	if err != nil {
		return invalid("input", CodeInvalidValue, fmt.Sprintf("input[%d] cannot be decoded: %s; send text", i, err))
	}
	if text == "" {
		return invalid("input", CodeInvalidValue, fmt.Sprintf("input[%d] holds no token id; leave it out", i))
	}
	return p.keep(text)
}

// tokenIDs refuses ids: nothing tells whose vocabulary they come from, and
// ids of another one would give vectors that look right and are wrong.
func tokenIDs() error {
	return invalid("input", CodeTokenIDs, "input holds token ids, whose vocabulary is unknown here; send text instead "+
		"(LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False)), or a key for which decode_token_ids is set")
}
