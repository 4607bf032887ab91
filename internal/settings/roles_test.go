package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/upstream"
)

func TestRolesAsASet(t *testing.T) {
	for _, tt := range []struct{ file, says string }{
		{`rerank = {kind = "local", model = "/m.gguf"}`, ""},
		{`chat = {kind = "ollama", url = "http://127.0.0.1:11434", model = "qwen"}`, ""},
		{`embed = {kind = "openai", url = "https://studio.example/v1", model = "m", key = "studio"}`, ""},
		{`embed = {kind = "openai", url = "http://10.0.0.2:8080", model = "m", plain_http = true}`, ""},
		{`embed = {kind = "openai", url = "http://10.0.0.2:8080", model = "m"}`, "roles.embed.url = http://10.0.0.2:8080: http would send texts to 10.0.0.2 unencrypted"},
		{`embed = {kind = ""}`, "roles.embed.kind = : one of local"},
		{`rerank = {kind = "ollama", url = "http://127.0.0.1:11434", model = "m"}`, "Ollama does not rerank"},
		{`rerank = {kind = "local"}`, "roles.rerank.model = : the path of a GGUF"},
		{`chat = {kind = "openai", url = "http://127.0.0.1:1"}`, "roles.chat.model = : the name of a model"},
		{`chat = {kind = "openai", model = "m"}`, "roles.chat.url = : an address"},
		{`chat = {kind = "cloud"}`, "roles.chat.kind = cloud: one of local"},
		{`chat = {plain_http = "yes"}`, "roles.chat.plain_http = yes: true or false"},
		{`chat = {kind = "openai", url = "http://127.0.0.1:1", model = "m", key = "sk-verysecret"}`, "not the key itself"},
		{`chat = {kind = "openai", url = "https://me:verysecret@host", model = "m"}`, "password does not belong"},
	} {
		_, err := load(t, "[roles]\n"+tt.file+"\n", nil, nil)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", tt.file, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want %q", tt.file, err, tt.says)
		case err != nil && strings.Contains(err.Error(), "verysecret"):
			t.Errorf("%s: the refusal repeats the secret: %v", tt.file, err)
		}
	}
}

func TestSetWritesTruthValuesAndTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.toml")
	for _, set := range [][2]string{{"roles.rerank.plain_http", "true"}, {"require_key", "true"}, {"roles.chat.executing", "2"},
		{"roles.chat.url", "http://127.0.0.1:11434"}, {"roles.chat.model", "m"}, {"roles.chat.kind", "ollama"}} {
		if err := change(path, set[0], set[1], nil); err != nil {
			t.Fatalf("%v: %v", set, err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := load(t, string(data), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !got.RequireKey || !got.Roles.Of(upstream.RoleRerank).PlainHTTP || got.Roles.Chat.Executing != 2 {
		t.Errorf("%s gives %+v", data, got.Settings)
	}
	if err := change(path, "require_key", "perhaps", nil); err == nil {
		t.Error("require_key = perhaps was taken")
	}
}
