package indexer

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/document"
)

func TestRefuse(t *testing.T) {
	own := []string{"/home/a/.local/share/ondol", "/Users/a/Library/Application Support/Ondol"}
	for _, tt := range []struct {
		goos, root string
		want       document.RefusedReason
		holder     string
	}{
		{"linux", "/home/a/notes", "", ""},
		{"linux", "/home/a", "", ""},
		{"linux", "/home/a/.local/share/ondol-papers", "", ""},
		{"linux", "/home/a/.local/share/ondol", document.RefusedOwn, own[0]},
		{"linux", "/home/a/.local/share/ondol/models", document.RefusedOwn, own[0]},
		{"linux", "/home/a/.local/share/ONDOL", "", ""},
		{"linux", "/", document.RefusedSystem, "/"},
		{"linux", "/proc", document.RefusedSystem, "/proc"},
		{"linux", "/proc/1/fd", document.RefusedSystem, "/proc"},
		{"linux", "/sys", document.RefusedSystem, "/sys"},
		{"linux", "/dev/shm", document.RefusedSystem, "/dev"},
		{"linux", "/system", "", ""},
		{"linux", "/System", "", ""},
		{"darwin", "/", document.RefusedSystem, "/"},
		{"darwin", "/System", document.RefusedSystem, "/System"},
		{"darwin", "/system/library/Fonts", document.RefusedSystem, "/System/Library"},
		{"darwin", "/System/Volumes/Data/papers", "", ""},
		{"darwin", "/dev", document.RefusedSystem, "/dev"},
		{"darwin", "/private/var", document.RefusedSystem, "/private/var"},
		{"darwin", "/private/var/folders/x/T/papers", "", ""},
		{"darwin", "/Users/a", "", ""},
		{"darwin", "/users/A/library/application support/ondol/models", document.RefusedOwn, own[1]},
		{"darwin", "/proc", "", ""},
	} {
		err := refuse(tt.goos, tt.root, own)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s %s: %v", tt.goos, tt.root, err)
			}
			continue
		}
		var refused *document.FolderRefusedError
		if !errors.As(err, &refused) || refused.Reason != tt.want || refused.Holder != tt.holder {
			t.Errorf("%s %s: %v, want %s of %s", tt.goos, tt.root, err, tt.want, tt.holder)
			continue
		}
		if !strings.Contains(err.Error(), tt.root) || !strings.Contains(err.Error(), "choose a folder of documents") {
			t.Errorf("%q names neither folder nor remedy", err)
		}
	}
}

func TestOwnBelow(t *testing.T) {
	for _, tt := range []struct {
		goos, root string
		own, want  []string
	}{
		{"linux", "/home/a", []string{"/home/a/ondol/data", "/home/a/ondol/logs", "/run/ondol"}, []string{"ondol/data", "ondol/logs"}},
		{"linux", "/", []string{"/var/ondol"}, []string{"var/ondol"}},
		{"linux", "/home/a/ondol", []string{"/home/a/ondol"}, []string{"."}},
		{"linux", "/home/a/ondol/x", []string{"/home/a/ondol"}, []string{"."}},
		{"linux", "/home/a/on", []string{"/home/a/ondol"}, nil},
		{"darwin", "/users/a", []string{"/Users/A/Library/Ondol"}, []string{"library/ondol"}},
	} {
		if got := slices.Sorted(maps.Keys(ownBelow(tt.goos, tt.root, tt.own))); !cmp.Equal(got, tt.want) {
			t.Errorf("%s in %s: %q, want %q", tt.own, tt.root, got, tt.want)
		}
	}
}

func TestResolved(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got := resolved([]string{"", filepath.Join(dir, "link"), filepath.Join(dir, "link/not/yet")})
	want := []string{filepath.Join(dir, "real"), filepath.Join(dir, "real/not/yet")}
	if !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
