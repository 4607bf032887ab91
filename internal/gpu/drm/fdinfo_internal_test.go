package drm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/gpu"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		file string
		want entry
		ok   bool
	}{
		{"amdgpu", entry{"amdgpu", gpu.Client{Device: "0000:0c:00.0", ID: 119}, map[string]gpu.Busy{
			"gfx": {Count: 49273211}, "compute": {Count: 8817223341},
		}}, true},
		{"i915", entry{"i915", gpu.Client{Device: "0000:00:02.0", ID: 34}, map[string]gpu.Busy{
			"render": {Count: 9288864723}, "compute": {Count: 8000000000, Width: 4},
		}}, true},
		{"xe", entry{"xe", gpu.Client{Device: "0000:03:00.0", ID: 7}, map[string]gpu.Busy{
			"rcs": {Count: 28257900, Of: 7655183225}, "ccs": {Count: 1000, Of: 7655183225, Width: 2},
		}}, true},
		{"nouveau", entry{"nouveau", gpu.Client{Device: "0000:01:00.0", ID: 12}, nil}, true},
		{"eventfd", entry{}, false},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", test.file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := parse(strings.NewReader(string(text)))
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(entry{})); diff != "" || ok != test.ok {
			t.Errorf("%s: %v %s", test.file, ok, diff)
		}
	}
}

// A client whose engines all work beside computation is idle, not silent.
func TestClientThatOnlyDecodes(t *testing.T) {
	got, _ := parse(strings.NewReader("drm-driver:\tamdgpu\ndrm-client-id:\t1\ndrm-engine-dec:\t5 ns\n"))
	if got.engines == nil || len(got.engines) != 0 {
		t.Errorf("%+v", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"amdgpu", "i915", "xe", "nouveau", "eventfd"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, ok := parse(strings.NewReader(text))
		if ok != (e.driver != "") {
			t.Errorf("%v, %+v", ok, e)
		}
		for name := range e.engines {
			if !computes(name) {
				t.Errorf("engine %q", name)
			}
		}
	})
}
