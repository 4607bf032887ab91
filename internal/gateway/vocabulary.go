package gateway

import (
	"fmt"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/ondol-app/ondol/internal/openai"
)

// VocabularyCL100K is the vocabulary of OpenAI's embedding models, with which
// LangChain's OpenAIEmbeddings makes token ids unless told otherwise.
const VocabularyCL100K = "cl100k_base"

// decoderOf returns what turns ids of a vocabulary into text; nil for no
// vocabulary. The tables are built when the first ids come, in a tenth of a second.
func decoderOf(vocabulary string) (openai.Decoder, error) {
	switch vocabulary {
	case "":
		return nil, nil
	case VocabularyCL100K:
		table := sync.OnceValue(func() *codec.Codec {
			c := codec.NewCl100kBase()
			// A text cut after so many tokens may end inside a character.
			c.SetErrorMode(codec.ErrorModeReplace)
			return c
		})
		return func(ids []uint) (string, error) { return table().Decode(ids) }, nil
	}
	return nil, fmt.Errorf("the vocabulary %q is not known; decode_token_ids can be %q or empty", vocabulary, VocabularyCL100K)
}
