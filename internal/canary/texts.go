package canary

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/trust"
)

// Probe is the shortest canary: the text that tells a poisoned engine from a
// poisonous input.
const Probe = "hello"

// Text is one canary as this model's tokenizer makes it.
type Text struct {
	Name   string
	Text   string
	Tokens int // special tokens included
}

// Hash names the text in a reference.
func (t Text) Hash() trust.Hash { return trust.HashOf(t.Text) }

// Counter tells how many tokens each text has, special tokens included.
type Counter func(ctx context.Context, texts []string) ([]int, error)

const (
	korean = "온돌은 방바닥을 데워 방 전체를 따뜻하게 하는 한국의 난방이다."
	code   = `import { useState } from "react";`
	// imports is cut to 31 and 33 tokens.
	imports = "import numpy as np\nimport the data of the test, then look at the floor of the room and at the wall behind it, " +
		"count the people who live in the house, ask them for the time of the day, and write all of it down in the book on the table."
	verse = "The stone floor of an old house is heated by the smoke of the kitchen fire, which is led through channels under the rooms " +
		"before it leaves by a chimney on the far side. The stone stores the heat for hours, so that people sit, eat and sleep on a warm " +
		"floor long after the fire has gone out. In a large house the channels are laid out like a comb; the nearest part is the hottest, " +
		"and the guest is given that place. Water is carried from the well in the morning, rice is washed, and the fire is lit again. "
	verses = 6
)

// longTokens is how long the longest canary is, at most.
const longTokens = 600

// Texts are the canaries for a model whose longest input is limit tokens; 0 =
// no limit. The same tokenizer always gets the same texts.
func Texts(ctx context.Context, count Counter, limit int) ([]Text, error) {
	c := cutter{ctx: ctx, count: count}
	upTo := func(n int) int {
		if limit > 0 {
			return min(n, limit)
		}
		return n
	}
	// A tokenizer may make two tokens of one rune, so the limit itself is not aimed at.
	above := c.beyond
	if limit > 0 && limit < 40 {
		above = c.cut
	}
	texts := []Text{
		c.cut("short", Probe, upTo(longTokens)),
		c.cut("code", code, upTo(longTokens)),
		c.cut("tokens_31", imports, upTo(31)),
		above("tokens_33", imports, upTo(33)),
		c.cut("korean", korean, upTo(longTokens)), // many tokens where a vocabulary knows no Hangul
		c.cut("long", strings.TrimSpace(strings.Repeat(verse, verses)), upTo(longTokens)),
	}
	if c.err != nil {
		return nil, fmt.Errorf("size canaries: %w", c.err)
	}
	return texts, nil
}

// cutter cuts texts by their tokens; after an error it does nothing more.
type cutter struct {
	ctx   context.Context
	count Counter
	err   error
}

func (c *cutter) tokens(text string) int {
	if c.err != nil {
		return 0
	}
	counts, err := c.count(c.ctx, []string{text})
	if err == nil && len(counts) != 1 {
		err = fmt.Errorf("%d counts for one text", len(counts))
	}
	if err != nil {
		c.err = err
		return 0
	}
	return counts[0]
}

// cut is the longest beginning of text that has at most most tokens.
func (c *cutter) cut(name, text string, most int) Text {
	if n := c.tokens(text); n <= most || c.err != nil {
		return Text{name, text, n}
	}
	begin, tokens, _ := c.around(text, most)
	return Text{name, begin, tokens}
}

// beyond is the shortest beginning of text that has at least least tokens, or
// text when it has fewer.
func (c *cutter) beyond(name, text string, least int) Text {
	if n := c.tokens(text); n < least || c.err != nil {
		return Text{name, text, n}
	}
	_, _, end := c.around(text, least-1)
	return Text{name, end, c.tokens(end)}
}

// around finds two beginnings of text, one rune apart, of which the first has
// at most most tokens and the second more; text as a whole has more.
func (c *cutter) around(text string, most int) (within string, tokens int, beyond string) {
	low, high := 0, len(text) // the beginning of low bytes fits, that of high bytes does not
	for c.err == nil {
		middle := (low + high) / 2
		for middle > low && !utf8.RuneStart(text[middle]) {
			middle--
		}
		if middle == low { // perhaps the rune in between is a long one
			_, size := utf8.DecodeRuneInString(text[low:])
			if middle = low + size; middle >= high {
				break
			}
		}
		if n := c.tokens(text[:middle]); n <= most {
			low, tokens = middle, n
		} else {
			high = middle
		}
	}
	return text[:low], tokens, text[:high]
}
