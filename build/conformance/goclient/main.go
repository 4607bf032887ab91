// Command goclient is OpenAI's client for Go against the app that ONDOL_CONFORMANCE names, as main.mjs beside it
// is for the npm clients, and reports in the same lines.
//
// It is a module and a program of its own, so that its large package is neither linked into the app's tests nor
// compiled with the race detector.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const tolerance = 1e-6 // as in suite.mjs

var texts = []string{"the automobile repair manual", "시의회는 내년 예산안을 심의했다 budget law",
	"import { useState } from \"react\";", "a chocolate cake\nneeds butter", "the automobile repair manual"}

// suite is the client, and the test that started this program.
type suite struct {
	Base, Control, Model string
	client               openai.Client
}

type check struct {
	name string
	run  func(context.Context) error
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var s suite
	if err := json.Unmarshal([]byte(os.Getenv("ONDOL_CONFORMANCE")), &s); err != nil {
		return fmt.Errorf("read ONDOL_CONFORMANCE: %w", err)
	}
	s.client = openai.NewClient(option.WithBaseURL(s.Base+"/v1"), option.WithAPIKey("any key will do"))
	checks := []check{
		{"single", func(ctx context.Context) error { return s.served(ctx, texts[0]) }},
		{"batch", func(ctx context.Context) error { return s.served(ctx, texts...) }},
		{"dimensions", s.dimensions},
		{"too long", func(ctx context.Context) error {
			_, err := s.embed(ctx, openai.EmbeddingNewParams{Model: s.Model}, strings.Repeat("budget law ", 6000))
			return refused(err, http.StatusBadRequest, "context_length_exceeded", "tokens", "at most 8192", "split")
		}},
		{"wrong model", func(ctx context.Context) error {
			_, err := s.embed(ctx, openai.EmbeddingNewParams{Model: "no-such-model"}, "cake")
			return refused(err, http.StatusNotFound, "model_not_found", "no-such-model", s.Model)
		}},
		{"models", s.models},
		{"retry", s.retry},
	}
	out := json.NewEncoder(os.Stdout)
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.name
	}
	if err := out.Encode(map[string]any{"plan": []any{map[string]any{"client": "openai-go", "checks": names}}}); err != nil {
		return err
	}
	for _, c := range checks {
		began := time.Now()
		line := map[string]any{"client": "openai-go", "check": c.name, "ok": true}
		if err := c.run(context.Background()); err != nil {
			line["ok"], line["error"] = false, err.Error()
		}
		line["ms"] = time.Since(began).Milliseconds()
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) embed(ctx context.Context, params openai.EmbeddingNewParams, texts ...string) ([][]float64, error) {
	params.Input.OfArrayOfStrings = texts
	if len(texts) == 1 {
		params.Input = openai.EmbeddingNewParamsInputUnion{OfString: openai.String(texts[0])}
	}
	reply, err := s.client.Embeddings.New(ctx, params)
	if err != nil {
		return nil, err
	}
	var vectors [][]float64
	for _, item := range reply.Data {
		vectors = append(vectors, item.Embedding)
	}
	return vectors, nil
}

// served checks that texts are embedded, and that the vectors are the engine's own.
func (s *suite) served(ctx context.Context, texts ...string) error {
	got, err := s.embed(ctx, openai.EmbeddingNewParams{Model: s.Model}, texts...)
	if err != nil {
		return err
	}
	want, err := s.reference(ctx, texts)
	if err != nil {
		return err
	}
	return same(got, want)
}

func (s *suite) reference(ctx context.Context, texts []string) (vectors [][]float64, err error) {
	return vectors, s.ask(ctx, "/reference", texts, &vectors)
}

func same(got, want [][]float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d vectors, want %d", len(got), len(want))
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			return fmt.Errorf("vector %d has %d dimensions, want %d", i, len(got[i]), len(want[i]))
		}
		for j := range want[i] {
			if !(math.Abs(got[i][j]-want[i][j]) <= tolerance) {
				return fmt.Errorf("vector %d, component %d: %v, the engine has %v", i, j, got[i][j], want[i][j])
			}
		}
	}
	return nil
}

func refused(err error, status int, code string, says ...string) error {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.StatusCode != status || e.Code != code {
		return fmt.Errorf("error %v, want status %d and code %s", err, status, code)
	}
	for _, part := range says {
		if !strings.Contains(e.Message, part) {
			return fmt.Errorf("no %q in %q", part, e.Message)
		}
	}
	return nil
}

// dimensions checks that a shorter vector is the longer one cut, with length 1 again.
func (s *suite) dimensions(ctx context.Context) error {
	got, err := s.embed(ctx, openai.EmbeddingNewParams{Model: s.Model, Dimensions: openai.Int(64)}, texts...)
	if err != nil {
		return err
	}
	want, err := s.reference(ctx, texts)
	if err != nil {
		return err
	}
	for i := range want {
		norm := 0.0
		want[i] = want[i][:64]
		for _, x := range want[i] {
			norm += x * x
		}
		for j := range want[i] {
			want[i][j] /= math.Sqrt(norm)
		}
	}
	return same(got, want)
}

func (s *suite) models(ctx context.Context) error {
	page, err := s.client.Models.List(ctx)
	if err != nil {
		return err
	}
	if len(page.Data) == 0 || page.Data[0].ID != s.Model {
		return fmt.Errorf("listed: %+v", page.Data)
	}
	one, err := s.client.Models.Get(ctx, s.Model)
	if err == nil && one.ID != s.Model {
		err = fmt.Errorf("got %q", one.ID)
	}
	return err
}

// retry checks that the client is refused while the queue is full, comes back by itself and is served.
func (s *suite) retry(ctx context.Context) error {
	if err := s.ask(ctx, "/hold", nil, nil); err != nil {
		return err
	}
	err := s.served(ctx, "the budget of openai-go")
	var released struct{ Refused int }
	err = errors.Join(err, s.ask(ctx, "/release", nil, &released))
	if err == nil && released.Refused == 0 {
		err = errors.New("nothing was refused")
	}
	return err
}

// ask is a request to the test.
func (s *suite) ask(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Control+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s: %w", path, resp.Status, reply, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(reply, into)
}
