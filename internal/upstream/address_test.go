package upstream_test

import (
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/upstream"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		raw   string
		plain bool
		want  string // the URL, or what the refusal names
		ok    bool
		stays bool
	}{
		{"http://127.0.0.1:11434", false, "http://127.0.0.1:11434", true, true},
		{"http://[::1]:8080/v1/", false, "http://[::1]:8080/v1", true, true},
		{"http://LOCALHOST:1", false, "http://LOCALHOST:1", true, true},
		{"https://studio.example/v1", false, "https://studio.example/v1", true, false},
		{"http://192.168.1.5:8080", true, "http://192.168.1.5:8080", true, false},
		{"http://192.168.1.5:8080", false, "plain_http", false, false},
		{"http://localhost.example", false, "plain_http", false, false},
		{"http://127.0.0.1.example", false, "plain_http", false, false},
		{"https://me:secret@host", false, "keychain", false, false},
		{"https://host/v1?key=1", false, "without ?", false, false},
		{"ftp://host", false, "https or http", false, false},
		{"host:8080", false, "needed", false, false},
		{"", false, "needed", false, false},
		{"https://:443", false, "needed", false, false},
	} {
		u, err := upstream.ParseURL(tt.raw, tt.plain)
		switch {
		case !tt.ok:
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %v, want a refusal that says %q", tt.raw, err, tt.want)
			}
		case err != nil:
			t.Errorf("%q: %v", tt.raw, err)
		case u.String() != tt.want || upstream.Loopback(u) != tt.stays:
			t.Errorf("%q: %s, loopback %v", tt.raw, u, upstream.Loopback(u))
		}
	}
}
