package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/document"
)

// token is one piece of text as the full-text index sees it.
type token struct {
	text       string // folded and stemmed
	position   int    // several tokens may share one; they stand for each other
	start, end int    // byte offsets of what it was cut from
}

// cut cuts text as a phrase of a query or as a document.
func (t *tx) cut(text string, query bool) ([]token, error) {
	var blob []byte
	if err := t.one("SELECT ondol_tokens(?, ?)", []any{text, query}, &blob); err != nil {
		return nil, fmt.Errorf("cut text: %w", err)
	}
	return decodeTokens(blob)
}

// decodeTokens reads what ondol_tokens returns (tokens.c).
func decodeTokens(blob []byte) ([]token, error) {
	const head = 16
	var all []token
	for len(blob) > 0 {
		if len(blob) < head {
			return nil, errors.New("decode tokens: record cut off")
		}
		field := func(i int) int { return int(int32(binary.NativeEndian.Uint32(blob[4*i:]))) }
		n := field(3)
		if n < 0 || len(blob) < head+n {
			return nil, errors.New("decode tokens: record cut off")
		}
		all = append(all, token{text: string(blob[head : head+n]), position: field(0), start: field(1), end: field(2)})
		blob = blob[head+n:]
	}
	return all, nil
}

// phrase is a term of a query, cut: what stands at each position, one after
// the other. It mirrors what FTS5 makes of the same text.
type phrase struct {
	term   int        // index of the term
	text   string     // as it goes into the MATCH expression
	slots  [][]string // per position the tokens that may stand there
	prefix bool       // the tokens of the last slot may go on
	single bool       // the last slot is one CJK character; only that is marked
	weight float64
}

// phrases cuts the terms; those without a letter or digit give no phrase.
func (t *tx) phrases(terms []document.Term) ([]phrase, error) {
	if len(terms) > document.MaxTerms {
		return nil, fmt.Errorf("query has %d terms, at most %d are possible", len(terms), document.MaxTerms)
	}
	var all []phrase
	for i, term := range terms {
		// FTS5 reads an expression up to the first NUL.
		text := strings.ReplaceAll(term.Text, "\x00", " ")
		tokens, err := t.cut(text, true)
		if err != nil {
			return nil, err
		}
		if len(tokens) == 0 {
			continue
		}
		p := phrase{term: i, text: text, prefix: term.Prefix, weight: term.Weight}
		if p.weight == 0 {
			p.weight = 1
		}
		for _, tok := range tokens {
			if tok.position == len(p.slots) {
				p.slots = append(p.slots, nil)
			}
			p.slots[tok.position] = append(p.slots[tok.position], tok.text)
		}
		// Documents hold CJK in pairs: one character is the beginning of a pair,
		// or stands alone at the end of its run.
		p.single = isSingle(tokens[len(tokens)-1].text)
		p.prefix = p.prefix || p.single
		all = append(all, p)
	}
	return all, nil
}

// isSingle reports whether a token of a query is one CJK character.
func isSingle(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n == len(s) && unicode.In(r, unicode.Hangul, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo)
}

// quote makes a phrase of FTS5's query language of any text.
func quote(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

// expression joins phrases into a MATCH expression.
func expression(phrases []phrase, operator string) string {
	var b strings.Builder
	for i, p := range phrases {
		if i > 0 {
			b.WriteString(operator)
		}
		b.WriteString(quote(p.text))
		if p.prefix {
			b.WriteString(" *")
		}
	}
	return b.String()
}
