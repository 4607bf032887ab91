package settings_test

import (
	"strings"
	"testing"
)

func TestModels(t *testing.T) {
	for file, says := range map[string]string{
		`mirror = "https://hub.example/base"`:    "",
		`mirror = "http://127.0.0.1:8000"`:       "",
		`mirror = "http://[::1]:8000"`:           "",
		`proxy = "socks5://10.0.0.1:1080"`:       "",
		`key = "huggingface"`:                    "",
		`mirror = "http://hub.example"`:          "models.mirror = http://hub.example: an https address",
		`mirror = "hub.example"`:                 "an https address",
		`mirror = ""`:                            "an https address",
		`mirror = "https://me:pass@hub.example"`: "models.mirror = …: an https address",
		`proxy = "http://me:pass@10.0.0.1:3128"`: "models.proxy = …: an address",
		`proxy = "10.0.0.1:3128"`:                "HTTPS_PROXY",
		`key = "hf_verysecret"`:                  "models.key = …: the name of an account",
		`downloads = 0`:                          "from 1 to 4",
		`stall = "0s"`:                           "from 1s to 10m",
	} {
		_, err := load(t, "[models]\n"+file+"\n", nil, nil)
		if (err == nil) != (says == "") || (err != nil && !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", file, err, says)
		}
		if err != nil && (strings.Contains(err.Error(), "pass") && !strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "verysecret")) {
			t.Errorf("%s: the error holds a secret: %v", file, err)
		}
	}
	got, err := load(t, "[models]\nmirror = \"https://file.example\"\n", map[string]string{"HF_ENDPOINT": "https://env.example"}, nil)
	if err != nil || got.Models.Mirror != "https://env.example" {
		t.Errorf("%+v, %v", got, err)
	}
}
