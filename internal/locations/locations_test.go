package locations_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/locations"
)

func environment(goos, home string, vars map[string]string) locations.Environment {
	return locations.Environment{GOOS: goos, UID: 501, Home: home, Getenv: func(k string) string { return vars[k] }}
}

func TestResolve(t *testing.T) {
	support := "/Users/mina/Library/Application Support/Ondol"
	tests := []struct {
		name string
		env  locations.Environment
		want locations.Paths
	}{
		{"mac", environment("darwin", "/Users/mina", nil), locations.Paths{
			Settings: support + "/settings.toml", Data: support, Run: support + "/run",
			Logs: "/Users/mina/Library/Logs/Ondol", Cache: "/Users/mina/Library/Caches/Ondol",
		}},
		{"xdg defaults", environment("linux", "/home/mina", nil), locations.Paths{
			Settings: "/home/mina/.config/ondol/settings.toml", Data: "/home/mina/.local/share/ondol",
			Run: "/home/mina/.local/share/ondol/run", Logs: "/home/mina/.local/state/ondol/logs",
			Cache: "/home/mina/.cache/ondol",
		}},
		// The specification says that a relative value is invalid and to be ignored.
		{"xdg set, one relative", environment("linux", "/home/mina", map[string]string{
			"XDG_DATA_HOME": "/d", "XDG_CONFIG_HOME": "conf", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c",
		}), locations.Paths{
			Settings: "/home/mina/.config/ondol/settings.toml", Data: "/d/ondol", Run: "/d/ondol/run",
			Logs: "/s/ondol/logs", Cache: "/c/ondol",
		}},
		{"one folder for all", environment("darwin", "", map[string]string{"ONDOL_HOME": "/nowhere/o"}), locations.Paths{
			Settings: "/nowhere/o/settings.toml", Data: "/nowhere/o/data", Run: "/nowhere/o/run",
			Logs: "/nowhere/o/logs", Cache: "/nowhere/o/cache",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := locations.Resolve(tt.env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

// A shell leaves a tilde in quotes as it is.
func TestTildeIsTheHomeFolder(t *testing.T) {
	for value, want := range map[string]string{
		"~/ondol": "/nowhere/mina/ondol/data", "~": "/nowhere/mina/data", "~/~odd": "/nowhere/mina/~odd/data",
	} {
		p, err := locations.Resolve(environment("linux", "/nowhere/mina", map[string]string{"ONDOL_HOME": value}))
		if err != nil || p.Data != want {
			t.Errorf("%s: %s, %v; want %s", value, p.Data, err, want)
		}
	}
	if _, err := locations.Resolve(environment("linux", "", map[string]string{"ONDOL_HOME": "~/a"})); err == nil || !strings.Contains(err.Error(), "HOME") {
		t.Errorf("without a home: %v", err)
	}
}

func TestResolveWithoutHome(t *testing.T) {
	_, err := locations.Resolve(environment("linux", "", nil))
	if err == nil || !strings.Contains(err.Error(), "ONDOL_HOME") {
		t.Fatalf("error does not name the remedy: %v", err)
	}
}

// A socket's whole path must fit sun_path, whatever the home's depth, and
// every process must come to the same answer.
func TestSocketPathsFit(t *testing.T) {
	deep := "/" + strings.Repeat("deep/", 30)
	seen := map[string]bool{}
	for _, home := range []string{"/h", deep + "a", deep + "b"} {
		env := environment("darwin", "/Users/mina", map[string]string{"ONDOL_HOME": home})
		p, err := locations.Resolve(env)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := locations.Resolve(env)
		if again != p {
			t.Errorf("second answer differs: %v, %v", p, again)
		}
		if socket := filepath.Join(p.Run, strings.Repeat("s", 32)); len(socket) > 103 {
			t.Errorf("%d bytes, over 103: %s", len(socket), socket)
		}
		if seen[p.Run] {
			t.Errorf("two homes share %s", p.Run)
		}
		seen[p.Run] = true
	}
}

func TestHomeBehindLinkIsOneHome(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, dir+"-link"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir + "-link") })
	direct, _ := locations.Resolve(environment("linux", "", map[string]string{"ONDOL_HOME": dir + "/new/home"}))
	linked, _ := locations.Resolve(environment("linux", "", map[string]string{"ONDOL_HOME": dir + "-link/new/home"}))
	if direct != linked {
		t.Errorf("direct %v, through the link %v", direct, linked)
	}
}

func TestMakeIsPrivate(t *testing.T) {
	dir := t.TempDir()
	p, err := locations.Resolve(environment("linux", "", map[string]string{"ONDOL_HOME": dir}))
	if err != nil {
		t.Fatal(err)
	}
	// One folder is there already and open: it must be closed, not accepted.
	if err := os.Mkdir(p.Logs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatalf("second time: %v", err)
	}
	for _, sub := range []string{p.Data, p.Models(), p.Logs, p.Cache, p.Run} {
		info, err := os.Stat(sub)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %04o, want 0700", sub, info.Mode().Perm())
		}
	}
	if err := p.CheckRun(); err != nil {
		t.Errorf("own folder: %v", err)
	}
}

func TestCheckRunRefuses(t *testing.T) {
	dir := t.TempDir()
	open, link, file := dir+"/open", dir+"/link", dir+"/file"
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { // past the umask
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{open, link, file, dir + "/missing"} {
		if err := (locations.Paths{Run: run}).CheckRun(); err == nil {
			t.Errorf("%s was trusted", run)
		}
	}
}
