package prom_test

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/prom"
	"github.com/ondol-app/ondol/internal/yielding"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// busy is a gate that has seen something of everything.
func busy() admission.Stats {
	p := admission.NewPolicy(admission.Limits{Executing: 2, Waiting: 2, Wait: time.Minute, Background: 1})
	at := func(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }
	for i, ticket := range []admission.Ticket{1, 2, 3, 4, 5} {
		p.Arrive(at(float64(i)/10), ticket, admission.LaneClient) // the fifth is refused
	}
	p.Arrive(at(.5), 6, admission.LaneBackground)
	p.Release(at(1), 1, admission.Served) // the third begins
	p.Drain(2)
	p.Count(admission.EngineUnavailable)
	return p.Stats(at(2))
}

func config() prom.Config {
	return prom.Config{
		Roles: []prom.Role{
			{Name: "embed", Admission: busy,
				Validity: func() embedding.Validity { return embedding.Validity{Checked: 41, Rejected: 3} },
				Engine:   func() prom.Engine { return prom.Engine{Ready: true, Restarts: 2} }},
			{Name: "chat", Admission: func() admission.Stats { return admission.NewPolicy(admission.DefaultLimits()).Stats(time.Unix(0, 0)) },
				Engine: func() prom.Engine { return prom.Engine{} }},
		},
		Cache: func() prom.Cache { return prom.Cache{Hits: 7, Misses: 8, Joins: 9, Entries: 10, Bytes: 11} },
		Index: func() (prom.Index, error) {
			return prom.Index{Counts: document.Counts{Found: 10, Indexed: 4, Skipped: 3, Failed: 2, Pending: 1, Chunks: 99},
				Folders: 2, EmbeddedChunks: 50, ReusedChunks: 5}, nil
		},
		GPU: func() gpu.Status {
			busy, others, contention, bytes := 0.87, 0.15, 0.4, int64(5_300_000_000)
			return gpu.Status{Available: true, Utilization: &busy, Others: &others, Contention: &contention, MemoryInUse: &bytes} // what is not known is left out
		},
		Yielding: func() prom.Yielding {
			return prom.Yielding{Reasons: []yielding.Reason{yielding.GPU, yielding.Battery}, Pauses: 4}
		},
	}
}

func build(t *testing.T, c prom.Config) *prom.Collector {
	t.Helper()
	collector, err := prom.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return collector
}

func page(t *testing.T, c *prom.Collector) string {
	t.Helper()
	handler, err := prom.Handler(c)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPage(t *testing.T) {
	var ours []string
	text := page(t, build(t, config()))
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, "# HELPTY"), "ondol_") {
			ours = append(ours, line)
		}
	}
	got := strings.Join(ours, "")
	file := filepath.Join("testdata", "metrics.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	for _, name := range []string{"go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(text, name) {
			t.Errorf("no %s on the page", name)
		}
	}
}

func TestNamesFollowTheConventions(t *testing.T) {
	problems, err := testutil.CollectAndLint(build(t, config()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A figure that is known only later is on the page then.
func TestFiguresThatComeLater(t *testing.T) {
	c := config()
	var now gpu.Status
	c.GPU = func() gpu.Status { return now }
	handler, err := prom.Handler(build(t, c))
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{false, true} {
		if known {
			now = config().GPU()
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "ondol_gpu_utilization_ratio 0.87") != known {
			t.Errorf("known %v: status %d\n%s", known, w.Code, w.Body)
		}
	}
}

// Every metric that is collected stands in the package comment, and the reverse.
func TestPackageCommentIsComplete(t *testing.T) {
	source, err := os.ReadFile("prom.go")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(build(t, config()))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(source), "\npackage prom")
	documented := strings.Count(comment, "ondol_")
	if documented != len(families) {
		t.Errorf("%d metrics in the package comment, %d collected", documented, len(families))
	}
	for _, f := range families {
		if !strings.Contains(comment, f.GetName()) {
			t.Errorf("%s is not in the package comment", f.GetName())
		}
	}
}

func TestWhatIsNotThereIsLeftOut(t *testing.T) {
	c := config()
	c.Cache = nil
	c.Index = func() (prom.Index, error) { return prom.Index{}, errors.New("the database is closing") }
	c.Roles = c.Roles[:1]
	c.Roles[0].Validity, c.Roles[0].Engine = nil, nil
	text := page(t, build(t, c))
	for _, absent := range []string{"ondol_cache", "ondol_index", "ondol_engine", "ondol_vectors", `role="chat"`} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is on the page", absent)
		}
	}
	if !strings.Contains(text, `ondol_admission_draining{role="embed"} 1`) {
		t.Error("the gate is not on the page")
	}
}

func TestNewRefuses(t *testing.T) {
	stats := func() admission.Stats { return admission.Stats{} }
	for name, roles := range map[string][]prom.Role{
		"no name":      {{Admission: stats}},
		"no admission": {{Name: "embed"}},
		"twice":        {{Name: "embed", Admission: stats}, {Name: "embed", Admission: stats}},
	} {
		if _, err := prom.New(prom.Config{Roles: roles}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
