package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/trust"
)

func openTrust(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestReferences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db, ctx := openTrust(t, path), t.Context()
	if ref, err := db.Reference(ctx, "f"); ref != nil || err != nil {
		t.Fatalf("an unknown fingerprint: %v, %v", ref, err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	first := &trust.Reference{Kind: trust.ReferenceSelf, At: at, Vectors: map[trust.Hash][]float32{
		trust.HashOf("a"): {1, -0.5, 3e-8}, trust.HashOf("gone later"): {2, 2, 2}}}
	second := &trust.Reference{Kind: trust.ReferenceCPU, At: at.Add(time.Hour), Vectors: map[trust.Hash][]float32{trust.HashOf("a"): {1, 0, 0}}}
	for _, ref := range []*trust.Reference{first, second} {
		if err := db.SaveReference(ctx, "f", ref); err != nil {
			t.Fatal(err)
		}
		got, err := db.Reference(ctx, "f")
		if diff := cmp.Diff(ref, got); diff != "" || err != nil {
			t.Errorf("reference, %v (-want +got):\n%s", err, diff)
		}
	}
	for i := range 20 { // twenty are kept
		later := &trust.Reference{Kind: trust.ReferenceSelf, At: at.Add(time.Duration(2+i) * time.Hour), Vectors: first.Vectors}
		if err := db.SaveReference(ctx, fmt.Sprint("other ", i), later); err != nil {
			t.Fatal(err)
		}
	}
	if ref, err := db.Reference(ctx, "f"); ref != nil || err != nil {
		t.Errorf("the oldest of 21 is still there: %v, %v", ref, err)
	}
	if ref, err := db.Reference(ctx, "other 0"); ref == nil || err != nil {
		t.Errorf("the second oldest of 21 is gone: %v", err)
	}
}

func TestQuarantine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db, ctx := openTrust(t, path), t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	entry := func(fingerprint, text string) trust.Quarantined {
		return trust.Quarantined{Fingerprint: fingerprint, SHA256: trust.HashOf(text).String(), Reason: trust.ReasonPoison, Tokens: 9, At: at}
	}
	a, b, other := entry("f", "a"), entry("f", "b"), entry("g", "a")
	for _, q := range []trust.Quarantined{a, b, other, a} { // the same again is no second entry
		if err := db.Arrest(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Arrest(ctx, trust.Quarantined{Fingerprint: "f", SHA256: "no hash"}); err == nil {
		t.Error("what is no hash was taken")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTrust(t, path)
	for fingerprint, want := range map[string][]trust.Quarantined{"f": {b, a}, "": {other, b, a}, "h": {}} {
		got, err := db.Quarantined(ctx, fingerprint)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("of %q: %v (-want +got):\n%s", fingerprint, err, diff)
		}
	}
	if _, err := db.Release(ctx, "no hash"); err == nil {
		t.Error("what is no hash was looked for")
	}
	if n, err := db.Release(ctx, a.SHA256); n != 2 || err != nil {
		t.Errorf("released %d, %v, want the text under both fingerprints", n, err)
	}
	if n, err := db.Release(ctx, ""); n != 1 || err != nil {
		t.Errorf("released %d, %v, want the rest", n, err)
	}
	events, _, err := db.Events(ctx, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, e := range events {
		counts[e.Kind.String()]++
	}
	if counts["input.quarantined"] != 3 || counts["quarantine.lifted"] != 2 {
		t.Errorf("events %v", counts)
	}
	for i := range 1001 {
		if err := db.Arrest(ctx, entry("f", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	got, err := db.Quarantined(ctx, "")
	if len(got) != 1000 || got[999].SHA256 != trust.HashOf("1").String() || err != nil {
		t.Errorf("%d are kept, %v", len(got), err)
	}
}

func TestEvidence(t *testing.T) {
	db, ctx := openTrust(t, filepath.Join(t.TempDir(), "index.db")), t.Context()
	for i := range 51 {
		e := trust.Evidence{At: time.Unix(int64(i), 0).UTC(), Code: "crash", Flags: []string{"-ngl", "34"}, Inputs: []trust.Input{{SHA256: "x", Tokens: i}}, Log: []string{"a line"}}
		if err := db.AddEvidence(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := db.Evidence(ctx)
	if err != nil || len(got) != 50 {
		t.Fatalf("%d kept, %v", len(got), err)
	}
	want := trust.Evidence{ID: 51, At: time.Unix(50, 0).UTC(), Code: "crash", Flags: []string{"-ngl", "34"}, Inputs: []trust.Input{{SHA256: "x", Tokens: 50}}, Log: []string{"a line"}}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("newest (-want +got):\n%s", diff)
	}
}
