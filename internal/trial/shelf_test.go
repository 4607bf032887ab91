package trial_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/internal/trial"
)

func TestShelfKeepsTheLast(t *testing.T) {
	shelf := trial.Shelf{Dir: filepath.Join(t.TempDir(), "data", "verify"), Keep: 3}
	if list, err := shelf.List(); err != nil || len(list) != 0 {
		t.Fatalf("before the first: %v, %v", list, err)
	}
	ids := []string{"20260101T000000.000Z", "20260102T000000.000Z", "20260103T000000.000Z", "20260103T000000.001Z", "20270101T000000.000Z"}
	for _, id := range ids {
		if err := shelf.Save(trial.Report{ID: id, Requests: 76}); err != nil {
			t.Fatal(err)
		}
	}
	// What a crash in the middle of a save left, and what cannot be read.
	left := filepath.Join(shelf.Dir, ".report-123")
	for path, text := range map[string]string{left: "{", filepath.Join(shelf.Dir, "20260104T000000.000Z.json"): `{"id":`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := shelf.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list {
		got = append(got, r.ID)
	}
	if want := "20270101T000000.000Z 20260103T000000.001Z 20260103T000000.000Z"; strings.Join(got, " ") != want || list[0].Requests != 76 {
		t.Errorf("kept %v, want %s", got, want)
	}
	if err := shelf.Save(trial.Report{ID: "20280101T000000.000Z"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what a crash left is still there")
	}
	if info, err := os.Stat(filepath.Join(shelf.Dir, "20280101T000000.000Z.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
