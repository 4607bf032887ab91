package models_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/build/tools/gguf"
	"github.com/ondol-app/ondol/build/tools/tinymodels"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/upstream"
)

// write makes a small model of the pairs, with one tensor of the name.
func write(t *testing.T, path, tensor string, pairs ...gguf.KV) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	fill := func(_ int, values []float32) {
		for i := range values {
			values[i] = float32(len(path))
		}
	}
	if err := gguf.Write(path, pairs, []gguf.Tensor{{Name: tensor, Type: gguf.F32, Width: 64, Rows: 64, Fill: fill}}); err != nil {
		t.Fatal(err)
	}
	return path
}

// qwen is the header of a Qwen3 conversion; an override of nil takes a key out.
func qwen(overrides map[string]any) []gguf.KV {
	var pairs []gguf.KV
	for _, kv := range []gguf.KV{
		{Key: "general.architecture", Value: "qwen3"}, {Key: "general.name", Value: "Qwen3 Embedding"}, {Key: "general.file_type", Value: uint32(7)},
		{Key: "qwen3.block_count", Value: uint32(2)}, {Key: "qwen3.embedding_length", Value: uint32(64)}, {Key: "qwen3.context_length", Value: uint32(512)},
		{Key: "qwen3.pooling_type", Value: uint32(3)}, {Key: "tokenizer.ggml.add_eos_token", Value: true}, {Key: "tokenizer.ggml.eos_token_id", Value: uint32(151643)},
		{Key: "tokenizer.ggml.tokens", Value: make([]string, 151669)}, {Key: "tokenizer.chat_template.rerank", Value: "yes or no"},
	} {
		value, changed := overrides[kv.Key]
		switch {
		case changed && value == nil:
			continue
		case changed:
			kv.Value = value
		}
		pairs = append(pairs, kv)
	}
	return pairs
}

func TestInspectRealModels(t *testing.T) {
	starter, err := models.Inspect(enginetest.StarterModel(t))
	if err != nil {
		t.Fatal(err)
	}
	if starter.Role != upstream.RoleEmbed || starter.Dimension != 128 || starter.Blocks != 1 || starter.Pooling != "cls" || starter.Quantization != "Q8_0" ||
		starter.Parts != 1 || len(starter.Warnings) != 0 || starter.Broken() != nil {
		t.Errorf("starter: %+v", starter)
	}
	shaped, err := models.Inspect(enginetest.Qwen3Shaped(t))
	if err != nil {
		t.Fatal(err)
	}
	if shaped.Role != upstream.RoleEmbed || shaped.Dimension != 2560 || shaped.Blocks != 36 || *shaped.EOS != 256 || !*shaped.AddsEOS || len(shaped.Warnings) != 0 {
		t.Errorf("fixture: %+v", shaped)
	}
	dir := t.TempDir()
	for name, make := range map[string]func(string) error{"rerank": tinymodels.WriteReranker, "chat": tinymodels.WriteTalker} {
		path := filepath.Join(dir, name+"-tiny.gguf")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		m, err := models.Inspect(path)
		if err != nil {
			t.Fatal(err)
		}
		if m.Role.String() != name || len(m.Warnings) != 0 || m.RerankHead != (name == "rerank") {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		tensor    string
		overrides map[string]any
		want      string
		broken    bool
	}{
		"good":                  {tensor: "blk.0.x"},
		"no pooling":            {overrides: map[string]any{"qwen3.pooling_type": nil}, want: "pooling_missing"},
		"no EOS":                {overrides: map[string]any{"tokenizer.ggml.add_eos_token": nil}, want: "eos_missing"},
		"EOS switched off":      {overrides: map[string]any{"tokenizer.ggml.add_eos_token": false}, want: "eos_missing"},
		"an old conversion":     {overrides: map[string]any{"qwen3.pooling_type": nil, "tokenizer.ggml.add_eos_token": nil, "tokenizer.ggml.eos_token_id": uint32(151645)}, want: "pooling_missing eos_missing eos_wrong"},
		"mean needs no EOS":     {overrides: map[string]any{"qwen3.pooling_type": uint32(1), "tokenizer.ggml.add_eos_token": nil}},
		"reranker":              {tensor: "cls.output.weight", overrides: map[string]any{"qwen3.pooling_type": uint32(4)}},
		"reranker, no head":     {overrides: map[string]any{"qwen3.pooling_type": uint32(4)}, want: "head_missing", broken: true},
		"reranker, no template": {tensor: "cls.output.weight", overrides: map[string]any{"qwen3.pooling_type": uint32(4), "tokenizer.chat_template.rerank": nil}, want: "rerank_template"},
		"reranker by name only": {overrides: map[string]any{"general.name": "Qwen3 Reranker", "qwen3.pooling_type": nil}, want: "head_missing rerank_pooling", broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.tensor == "" {
				test.tensor = "blk.0.x"
			}
			m, err := models.Inspect(write(t, filepath.Join(dir, "m.gguf"), test.tensor, qwen(test.overrides)...))
			if err != nil {
				t.Fatal(err)
			}
			var codes []string
			for _, w := range m.Warnings {
				codes = append(codes, w.Code.String())
			}
			if got := strings.Join(codes, " "); got != test.want || (m.Broken() != nil) != test.broken {
				t.Errorf("warnings %q, broken %v; want %q", got, m.Broken(), test.want)
			}
		})
	}
}

func TestACutOffFileIsBroken(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "m.gguf"), "blk.0.x", qwen(nil)...)
	whole, err := models.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, whole.Size-100); err != nil {
		t.Fatal(err)
	}
	m, err := models.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if w := m.Broken(); w == nil || w.Code != models.WarnTruncated || w.Args["path"] != path {
		t.Errorf("warnings %+v", m.Warnings)
	}
}

func TestSplitModels(t *testing.T) {
	dir := t.TempDir()
	part := func(no, count uint16, name string) string {
		return write(t, filepath.Join(dir, name), "blk.0.x", append(qwen(nil), gguf.KV{Key: "split.count", Value: uint32(count)}, gguf.KV{Key: "split.no", Value: uint32(no)})...)
	}
	first := part(0, 2, "big-00001-of-00002.gguf")
	m, err := models.Inspect(first)
	if err != nil || m.Parts != 1 || m.Broken() == nil || m.Broken().Code != models.WarnPartMissing {
		t.Fatalf("with a part missing: %+v, %v", m, err)
	}
	one := m.Size
	second := part(1, 2, "big-00002-of-00002.gguf")
	if m, err = models.Inspect(first); err != nil || m.Parts != 2 || m.Size != 2*one || len(m.Warnings) != 0 {
		t.Errorf("whole: %+v, %v", m, err)
	}
	_, err = models.Inspect(second)
	if later, ok := errors.AsType[*models.NotFirstPartError](err); !ok || later.First != first {
		t.Errorf("a later part: %v", err)
	}
	if found := discover(t, models.Place{Source: models.SourceOwn, Path: dir}); len(found.Models) != 1 || len(found.Unreadable) != 0 {
		t.Errorf("found %+v", found)
	}
}

func discover(t *testing.T, places ...models.Place) models.Discovery {
	t.Helper()
	found, err := models.Discover(t.Context(), places)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func refs(d models.Discovery) []string {
	list := []string{}
	for _, m := range d.Models {
		list = append(list, m.Source.String()+" "+m.Ref)
	}
	return list
}

func TestDiscover(t *testing.T) {
	root := t.TempDir()
	at := func(elements ...string) string { return filepath.Join(append([]string{root}, elements...)...) }
	link := func(target string, elements ...string) {
		path := at(elements...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
	}
	file := func(text string, elements ...string) {
		path := at(elements...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	model := func(elements ...string) string { return write(t, at(elements...), "blk.0.x", qwen(nil)...) }

	own := model("own", "mine.gguf")
	// The same file under a second name is told once.
	if err := os.Link(own, at("own", "mine-again.gguf")); err != nil {
		t.Fatal(err)
	}
	// Hugging Face: two revisions of one blob, one dangling link, a repository without a snapshot.
	model("hub", "models--Qwen--Q3", "blobs", "aa")
	link("../../blobs/aa", "hub", "models--Qwen--Q3", "snapshots", "1111", "q3-f16.gguf")
	link("../../blobs/aa", "hub", "models--Qwen--Q3", "snapshots", "2222", "sub.gguf")
	link("../../blobs/gone", "hub", "models--Qwen--Q3", "snapshots", "2222", "gone.gguf")
	file("2222", "hub", "models--Qwen--Q3", "refs", "main")
	file("x", "hub", "models--a--b", "refs", "main")
	file("x", "hub", "datasets--a--b", "snapshots", "1", "x.gguf")
	// Ollama: a model, one of another format, a path in a digest, a manifest that is none.
	digest := strings.Repeat("0f", 32)
	model("ollama", "blobs", "sha256-"+digest)
	other := strings.Repeat("1e", 32)
	file("safetensors", "ollama", "blobs", "sha256-"+other)
	manifest := func(digest string) string {
		return `{"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:` + strings.Repeat("9", 64) + `"},{"mediaType":"application/vnd.ollama.image.model","digest":"` + digest + `"}]}`
	}
	file(manifest("sha256:"+digest), "ollama", "manifests", "registry.ollama.ai", "library", "qwen3-embedding", "0.6b")
	file(manifest("sha256:"+other), "ollama", "manifests", "registry.ollama.ai", "somebody", "other", "latest")
	file(manifest("sha256:../../own/mine.gguf"), "ollama", "manifests", "registry.ollama.ai", "library", "evil", "latest")
	file("{", "ollama", "manifests", "hf.co", "a", "b", "c")
	// LM Studio: a projector beside the model, a damaged file, a file that is none.
	model("lms", "publisher", "repo", "nomic.gguf")
	model("lms", "publisher", "repo", "mmproj-nomic.gguf")
	file("GGUF\x03\x00\x00\x00", "lms", "publisher", "repo", "damaged.gguf")
	file("x", "lms", "publisher", "repo", "readme.md")
	write(t, at("lms", "publisher", "vision.gguf"), "v.x", gguf.KV{Key: "general.architecture", Value: "clip"})
	// llama.cpp's cache holds a link to our own model.
	link(own, "llama", "owner_repo_mine.gguf")

	got := discover(t,
		models.Place{Source: models.SourceOwn, Path: at("own")},
		models.Place{Source: models.SourceStarter, Path: enginetest.StarterModel(t)},
		models.Place{Source: models.SourceHuggingFace, Path: at("hub")},
		models.Place{Source: models.SourceOllama, Path: at("ollama")},
		models.Place{Source: models.SourceLMStudio, Path: at("lms")},
		models.Place{Source: models.SourceLMStudio, Path: at("not there")},
		models.Place{Source: models.SourceLlamaCpp, Path: at("llama")},
	)
	want := []string{"own mine", "starter ondol-starter-en", "lm_studio publisher/repo/nomic", "hugging_face Qwen/Q3:sub.gguf", "ollama qwen3-embedding:0.6b"}
	// own: mine-again sorts before mine, and is the same file
	want[0] = "own mine-again"
	if diff := cmp.Diff(want, refs(got)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	var unreadable []string
	for _, u := range got.Unreadable {
		unreadable = append(unreadable, u.Source.String()+" "+strings.TrimPrefix(u.Path, root))
	}
	if diff := cmp.Diff([]string{"ollama /ollama", "lm_studio /lms/publisher/repo/damaged.gguf"}, unreadable); diff != "" {
		t.Errorf("unreadable (-want +got):\n%s", diff)
	}
}

// A folder that may not be read is told; the others are looked at. Root may
// read everything, so a file in the folder's place stands in for it.
func TestAPlaceThatCannotBeReadIsTold(t *testing.T) {
	dir := t.TempDir()
	notAFolder := filepath.Join(dir, "file")
	if err := os.WriteFile(notAFolder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "own", "m.gguf"), "blk.0.x", qwen(nil)...)
	got := discover(t, models.Place{Source: models.SourceHuggingFace, Path: notAFolder}, models.Place{Source: models.SourceOwn, Path: filepath.Join(dir, "own")})
	if len(got.Models) != 1 || len(got.Unreadable) != 1 || got.Unreadable[0].Path != notAFolder {
		t.Errorf("found %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := models.Discover(ctx, []models.Place{{Source: models.SourceOwn, Path: dir}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPlaces(t *testing.T) {
	at := func(goos string, env map[string]string) []string {
		var list []string
		for _, p := range models.Places(models.Environment{GOOS: goos, Home: "/h", Own: "/o", Getenv: func(k string) string { return env[k] }}) {
			list = append(list, p.Source.String()+" "+p.Path)
		}
		return list
	}
	for name, test := range map[string]struct {
		goos string
		env  map[string]string
		want []string
	}{
		"macOS": {"darwin", nil, []string{"own /o", "hugging_face /h/.cache/huggingface/hub", "ollama /h/.ollama/models",
			"lm_studio /h/.lmstudio/models", "lm_studio /h/.cache/lm-studio/models", "llama_cpp /h/Library/Caches/llama.cpp"}},
		"Linux": {"linux", map[string]string{"XDG_CACHE_HOME": "/c"}, []string{"own /o", "hugging_face /c/huggingface/hub", "ollama /h/.ollama/models",
			"lm_studio /h/.lmstudio/models", "lm_studio /h/.cache/lm-studio/models", "llama_cpp /c/llama.cpp", "ollama /usr/share/ollama/.ollama/models"}},
		"set": {"linux", map[string]string{"HF_HOME": "/hf", "OLLAMA_MODELS": "/ol", "LLAMA_CACHE": "/ll"}, []string{"own /o", "hugging_face /hf/hub", "ollama /ol",
			"lm_studio /h/.lmstudio/models", "lm_studio /h/.cache/lm-studio/models", "llama_cpp /ll"}},
		"the nearer one": {"darwin", map[string]string{"HF_HOME": "/hf", "HF_HUB_CACHE": "/hub", "LLAMA_CACHE": "relative"}, []string{"own /o", "hugging_face /hub", "ollama /h/.ollama/models",
			"lm_studio /h/.lmstudio/models", "lm_studio /h/.cache/lm-studio/models", "llama_cpp /h/Library/Caches/llama.cpp"}},
	} {
		if diff := cmp.Diff(test.want, at(test.goos, test.env)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
