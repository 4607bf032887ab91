package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/gguf"
	"github.com/ondol-app/ondol/internal/upstream"
)

// Model is what a file says of itself. Numbers that it does not tell are 0.
type Model struct {
	Path         string        `json:"path"`  // absolute; of the first part where there are several
	Name         string        `json:"name"`  // of the file, without .gguf
	Title        string        `json:"title"` // as the file calls its model; may be empty
	Size         int64         `json:"size"`  // of all parts, bytes
	Parts        int           `json:"parts"` // files that make up the model
	Modified     time.Time     `json:"modified"`
	Architecture string        `json:"architecture"` // "qwen3", "bert" …
	Role         upstream.Role `json:"role"`         // what it can serve; empty when it is no model of text
	Blocks       int           `json:"blocks"`
	Dimension    int           `json:"dimension"` // components of a vector
	Context      int           `json:"context"`   // tokens it was made for
	Vocabulary   int           `json:"vocabulary"`
	Pooling      string        `json:"pooling"`      // mean, cls, last, rank, none; empty when not told
	AddsEOS      *bool         `json:"adds_eos"`     // whether a text gets an end token; nil when not told
	EOS          *int64        `json:"eos"`          // id of the end token; nil when not told
	Quantization string        `json:"quantization"` // "Q8_0" …; empty when not told
	RerankHead   bool          `json:"rerank_head"`  // it has the layer that scores
	ChatTemplate bool          `json:"chat_template"`
	RerankPrompt bool          `json:"rerank_template"`
	Warnings     []Warning     `json:"warnings"` // never null

	layout layout
}

// partName is how llama.cpp names the parts of a split model.
var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// maxParts of a model; the largest published ones have some dozens.
const maxParts = 512

// NotFirstPartError says that a file is a later part of a model.
type NotFirstPartError struct{ First string }

func (e *NotFirstPartError) Error() string {
	return "it is a part of a model; name the first part, " + e.First
}

// Inspect reads the header of the GGUF file at path, and of its other parts.
// The error is one of package gguf, a *NotFirstPartError, or of the system.
func Inspect(path string) (*Model, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("inspect model: %w", err)
	}
	head, err := gguf.Read(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Path: path, Name: strings.TrimSuffix(filepath.Base(path), ".gguf"), Title: head.Text("general.name"), Modified: info.ModTime().UTC(),
		Architecture: head.Architecture(), Blocks: head.Of("block_count", 0), Dimension: head.Of("embedding_length", 0),
		Context: head.Of("context_length", 0), Vocabulary: head.Vocabulary(), Pooling: head.Pooling().String(), Quantization: head.Quantization(),
		ChatTemplate: head.Text("tokenizer.chat_template") != "", RerankPrompt: head.Text("tokenizer.chat_template.rerank") != "",
		Warnings: []Warning{},
	}
	if adds, ok := head.Number("tokenizer.ggml.add_eos_token"); ok {
		m.AddsEOS = new(adds != 0)
	}
	if id, ok := head.Number("tokenizer.ggml.eos_token_id"); ok {
		m.EOS = &id
	}
	if err := m.readParts(head); err != nil {
		return nil, err
	}
	m.layout.learn(head)
	m.Role = m.role()
	m.warn()
	return m, nil
}

// readParts adds up what the parts hold; head is the first one's.
func (m *Model) readParts(head *gguf.Header) error {
	m.part(m.Path, head)
	count, _ := head.Number("split.count")
	name := partName.FindStringSubmatch(filepath.Base(m.Path))
	if count < 2 || name == nil {
		return nil
	}
	part := func(i int64) string {
		return filepath.Join(filepath.Dir(m.Path), fmt.Sprintf("%s-%05d-of-%s.gguf", name[1], i, name[3]))
	}
	if no, _ := head.Number("split.no"); no != 0 {
		return &NotFirstPartError{First: part(1)}
	}
	if count > maxParts {
		return &gguf.DamagedError{Reason: fmt.Sprintf("it has %d parts", count)}
	}
	for i := int64(2); i <= count; i++ {
		next, err := gguf.Read(part(i))
		if errors.Is(err, fs.ErrNotExist) {
			m.Warnings = append(m.Warnings, Warning{Code: WarnPartMissing, Args: map[string]string{"path": part(i)}})
			continue
		}
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		m.part(part(i), next)
	}
	return nil
}

// part takes one file in.
func (m *Model) part(path string, h *gguf.Header) {
	m.Parts++
	m.Size += h.Size
	if h.Size < h.Need {
		m.Warnings = append(m.Warnings, Warning{Code: WarnTruncated, Args: map[string]string{
			"path": path, "size": strconv.FormatInt(h.Size, 10), "need": strconv.FormatInt(h.Need, 10),
		}})
	}
	for _, t := range h.Tensors {
		m.layout.weigh(t)
		if strings.HasPrefix(t.Name, "cls.") || strings.HasPrefix(t.Name, "cls_") {
			m.RerankHead = true
		}
	}
}

// role says what a model is for. Where pooling does not tell, its name must:
// an embedding model converted without pooling looks like one that writes.
func (m *Model) role() upstream.Role {
	called := strings.ToLower(m.Name + " " + m.Title)
	switch {
	case m.Architecture == "" || m.Architecture == "clip" || m.Blocks == 0:
		return "" // an image projector, an adapter
	case m.Pooling == gguf.PoolingRank.String(), strings.Contains(called, "rerank"):
		return upstream.RoleRerank
	case m.Pooling != "" && m.Pooling != gguf.PoolingNone.String(), m.layout.encoder, strings.Contains(called, "embed"):
		return upstream.RoleEmbed
	}
	return upstream.RoleChat
}
