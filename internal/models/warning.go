package models

import (
	"strconv"

	"github.com/ondol-app/ondol/internal/gguf"
	"github.com/ondol-app/ondol/internal/upstream"
)

// WarningCode names what is wrong with a model file; its sentence is
// model.warning.<code> in assets/locales.
type WarningCode string

// The warnings. Fatal ones say that the file cannot serve at all.
const (
	WarnTruncated      WarningCode = "truncated"       // path, size, need: the file is cut off; fatal
	WarnPartMissing    WarningCode = "part_missing"    // path: a part of it is not there; fatal
	WarnPoolingMissing WarningCode = "pooling_missing" // the file does not say how a text becomes one vector
	WarnEOSMissing     WarningCode = "eos_missing"     // texts get no end token, whose vector is the text's
	WarnEOSWrong       WarningCode = "eos_wrong"       // eos, want: texts end with a token it was not trained on
	WarnHeadMissing    WarningCode = "head_missing"    // a reranker without the layer that scores; fatal
	WarnRerankPooling  WarningCode = "rerank_pooling"  // pooling: a reranker not converted as one; fatal
	WarnRerankTemplate WarningCode = "rerank_template" // a Qwen3 reranker without the prompt it was trained on
)

// String returns the code as it stands in JSON.
func (c WarningCode) String() string { return string(c) }

// Fatal reports whether a model with this warning cannot serve.
func (c WarningCode) Fatal() bool {
	switch c {
	case WarnTruncated, WarnPartMissing, WarnHeadMissing, WarnRerankPooling:
		return true
	}
	return false
}

// Warning is one thing wrong with a model file.
type Warning struct {
	Code WarningCode       `json:"code"`
	Args map[string]string `json:"args,omitempty"`
}

// Qwen3's vocabulary, of which every conversion of the real models has all,
// and the token that its embedding models end a text with, <|endoftext|>. Files
// converted before llama.cpp's pull request 14314 name the chat models' token.
const (
	qwen3Vocabulary = 151000
	qwen3EOS        = 151643
)

// warn finds what is wrong with a whole file.
func (m *Model) warn() {
	add := func(code WarningCode, pairs ...string) {
		w := Warning{Code: code}
		for i := 0; i+1 < len(pairs); i += 2 {
			if w.Args == nil {
				w.Args = map[string]string{}
			}
			w.Args[pairs[i]] = pairs[i+1]
		}
		m.Warnings = append(m.Warnings, w)
	}
	switch m.Role {
	case upstream.RoleRerank:
		if !m.RerankHead {
			add(WarnHeadMissing)
		}
		if m.Pooling != gguf.PoolingRank.String() {
			add(WarnRerankPooling, "pooling", m.Pooling)
		}
		if m.Architecture == "qwen3" && !m.RerankPrompt {
			add(WarnRerankTemplate)
		}
	case upstream.RoleEmbed:
		if m.Pooling == "" {
			add(WarnPoolingMissing)
		}
		if m.layout.encoder {
			return // its vector is not that of the last token
		}
		last := m.Pooling == "" || m.Pooling == gguf.PoolingLast.String()
		if last && (m.AddsEOS == nil || !*m.AddsEOS) {
			add(WarnEOSMissing)
		}
		if m.Architecture == "qwen3" && m.Vocabulary > qwen3Vocabulary && m.EOS != nil && *m.EOS != qwen3EOS {
			add(WarnEOSWrong, "eos", strconv.FormatInt(*m.EOS, 10), "want", strconv.Itoa(qwen3EOS))
		}
	}
}

// Broken is the first warning with which the model cannot serve; nil when it can.
func (m *Model) Broken() *Warning {
	for i := range m.Warnings {
		if m.Warnings[i].Code.Fatal() {
			return &m.Warnings[i]
		}
	}
	return nil
}
