package keychain_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/keychain"
)

var (
	_ keychain.Keychain = keychain.System{}
	_ keychain.Keychain = &keychain.Memory{}
)

const secret = "a secret nobody may see"

func TestMemory(t *testing.T) {
	m := &keychain.Memory{}
	if _, err := m.Get(t.Context(), "a"); !errors.Is(err, keychain.ErrNotFound) {
		t.Errorf("Get of nothing = %v", err)
	}
	for range 2 {
		if err := m.Set(t.Context(), "a", secret); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := m.Get(t.Context(), "a"); err != nil || got != secret {
		t.Errorf("Get = %q, %v", got, err)
	}
	if err := m.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := m.Delete(t.Context(), "a"); !errors.Is(err, keychain.ErrNotFound) {
		t.Errorf("second Delete = %v", err)
	}
}

func TestAccountNames(t *testing.T) {
	for name, good := range map[string]bool{
		"openai": true, "my-mac.2_x": true, "": false, "-w": false, "a b": false, "a;b": false, "한글": false, strings.Repeat("a", 65): false,
	} {
		if err := keychain.CheckAccount(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
		if err := (keychain.System{}).Set(t.Context(), name, secret); !good && (err == nil || errors.Is(err, keychain.ErrUnavailable)) {
			t.Errorf("%q reached the system: %v", name, err)
		}
	}
}

// Where the system keeps no secrets, nothing else does: no error is hidden, no file is made.
func TestNoKeychainIsAnError(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, home)
	}
	t.Setenv("PATH", home)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(home, "nobody"))
	err := keychain.System{}.Set(t.Context(), "a", secret)
	if !errors.Is(err, keychain.ErrUnavailable) || strings.Contains(err.Error(), secret) {
		t.Errorf("Set = %v", err)
	}
	if _, err := (keychain.System{}).Get(t.Context(), "a"); !errors.Is(err, keychain.ErrUnavailable) {
		t.Errorf("Get = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (keychain.System{}).Get(ctx, "a"); !errors.Is(err, keychain.ErrUnavailable) {
		t.Errorf("Get without time = %v", err)
	}
	files, err := os.ReadDir(home)
	if err != nil || len(files) > 0 {
		t.Errorf("files were made: %v, %v", files, err)
	}
}
