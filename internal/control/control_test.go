package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/history"
	"github.com/ondol-app/ondol/internal/indexer"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/search"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/upstream"
	"github.com/ondol-app/ondol/internal/vector"
	"github.com/ondol-app/ondol/internal/yielding"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var soon int64 = 7

var day = time.Date(2026, 4, 10, 9, 30, 0, 0, time.UTC)

// parts is every part that control needs: fakes that remember what they were
// asked and fail with err when it is set.
type parts struct {
	err     error
	asked   []string
	status  llamaserver.Status
	list    []document.Folder
	docs    []document.Document
	query   document.DocumentQuery
	log     []string
	made    []indexer.Generation
	held    []trust.Quarantined
	beside  engines.State
	request search.Request
	hold    func(ctx context.Context) // called by Search
}

var (
	twice, limit = 2.0, 1.1
	slowFinding  = engines.Finding{Check: engines.CheckSpeed, Value: &twice, Bound: engines.AtMost, Limit: &limit}
)

var (
	busy, others = 0.87, 0.15
	warm         = gpu.Status{Available: true, At: &day, Utilization: &busy, Others: &others, Conditions: gpu.Conditions{Thermal: gpu.ThermalSerious}}
	waits        = &yielding.State{Since: day, Reasons: []yielding.Reason{yielding.Thermal}}
)

func newParts() *parts {
	return &parts{
		status: llamaserver.Status{State: llamaserver.Ready, Cause: llamaserver.CauseProgress, Since: day, PID: 42, Flags: []string{"-ngl", "34"}},
		list: []document.Folder{
			{ID: 1, Path: "/home/a", State: document.FolderWatching, LastScan: day, Added: day,
				Counts: document.Counts{Found: 5, Indexed: 3, Skipped: 1, Pending: 1, Chunks: 9, Reasons: map[document.Reason]int64{"binary": 1}}},
			{ID: 2, Path: "/home/b", State: document.FolderWatching, LastScan: day.Add(time.Hour), Added: day,
				Counts: document.Counts{Found: 2, Indexed: 2, Chunks: 4}},
		},
		docs: []document.Document{
			{ID: 3, FolderID: 1, Path: "a.md", Kind: "markdown", Size: 10, Modified: day, State: document.Indexed, Chunks: 2},
			{ID: 5, FolderID: 2, Path: "b.txt", Kind: "text", Size: 20, Modified: day, State: document.Failed, Reason: "unreadable", RetryAt: day},
			{ID: 9, FolderID: 1, Path: "예산안.txt", Kind: "text", Size: 30, Modified: day, State: document.Found},
		},
		log: []string{"one", "two", "three"},
		beside: engines.State{Phase: engines.Checked, Since: day, Live: engines.Setup{Model: "/m/a.gguf"}, Candidate: &engines.Candidate{
			Order: engines.Order{Flags: []string{"-ub", "512"}}, Setup: engines.Setup{Model: "/m/a.gguf", Flags: []string{"-ub", "512"}},
			Model: "a", At: day, Outcome: engines.Refused, Verdict: &engines.Verdict{At: day, Findings: []engines.Finding{slowFinding}, Rows: []trial.Row{}, Reasons: []trial.Reason{}}}},
		made: []indexer.Generation{
			{Place: indexer.InService, Generation: document.Generation{
				Maker: document.Maker{Fingerprint: "f1", Dim: 128, Model: "starter", Build: "0.7.0", Recipe: "{}"}, State: document.Active,
				Texts: 12, Embedded: 12, Vectors: 13, Bytes: 16384, Created: day, Completed: day, Activated: day, Used: day}},
			{Place: indexer.Candidate, Remaining: &soon, Generation: document.Generation{
				Maker: document.Maker{Fingerprint: "f2", Dim: 1024, Model: "qwen3"}, State: document.Building,
				Texts: 12, Embedded: 5, Vectors: 5, Bytes: 16384, Created: day, Used: day}},
		},
	}
}

func (p *parts) note(format string, args ...any) error {
	p.asked = append(p.asked, fmt.Sprintf(format, args...))
	return p.err
}

func (p *parts) Snapshot() llamaserver.Status        { return p.status }
func (p *parts) Start(context.Context) error         { return p.note("start") }
func (p *parts) Stop(context.Context) error          { return p.note("stop") }
func (p *parts) Restart(context.Context) error       { return p.note("restart") }
func (p *parts) LogTail(lines int) ([]string, error) { return p.log, p.note("log %d", lines) }
func (p *parts) Counters() control.Counters {
	return control.Counters{EmbeddedChunks: 13, ReusedChunks: 4}
}
func (p *parts) Generations(context.Context) ([]indexer.Generation, error) { return p.made, p.err }
func (p *parts) VectorCost(_ context.Context, dim int) (bytes, texts int64, err error) {
	return int64(dim) * 26, 12, p.note("cost %d", dim)
}
func (p *parts) Stats() admission.Stats {
	return admission.Stats{Executing: 1, Waiting: 2, Totals: map[admission.Outcome]uint64{admission.Served: 3}}
}
func (p *parts) Remove(_ context.Context, id document.FolderID) error { return p.note("remove %d", id) }
func (p *parts) Rescan(_ context.Context, id document.FolderID) error { return p.note("rescan %d", id) }
func (p *parts) Retry(_ context.Context, id document.ID) error        { return p.note("retry %d", id) }

func (p *parts) State() engines.State { return p.beside }
func (p *parts) Try(_ context.Context, o engines.Order) (engines.State, error) {
	if o.NGL == nil || *o.NGL != 20 || !o.Quick || len(o.Flags) != 2 {
		return p.beside, fmt.Errorf("order %+v", o)
	}
	return p.beside, p.err
}
func (p *parts) Promote(_ context.Context, o engines.Promotion) (engines.State, error) {
	return p.beside, p.note("promote %+v", o)
}
func (p *parts) Drop(context.Context) (engines.State, error) { return p.beside, p.note("drop") }
func (p *parts) Rollback(_ context.Context, inPlace bool) (engines.State, error) {
	return p.beside, p.note("rollback %v", inPlace)
}

func (p *parts) Add(_ context.Context, path string) (document.Folder, error) {
	return document.Folder{ID: 7, Path: path, State: document.FolderScanning, Added: day}, p.note("add %s", path)
}

func (p *parts) Quarantined(context.Context) ([]trust.Quarantined, error) { return p.held, p.err }

func (p *parts) LiftQuarantine(_ context.Context, hash string) (int, error) {
	return len(p.held), p.note("lift %s", hash)
}

func (p *parts) Evidence(context.Context) ([]trust.Evidence, error) {
	return []trust.Evidence{{ID: 1, Code: "crash", Log: []string{"a line"}}}, p.err
}

func (p *parts) Recheck(context.Context) error { return p.note("check") }

func (p *parts) Folders(context.Context) ([]document.Folder, error) { return p.list, p.err }

func (p *parts) Documents(_ context.Context, q document.DocumentQuery) ([]document.Document, error) {
	p.query = q
	var page []document.Document
	for _, d := range p.docs {
		if d.ID > q.After && len(page) < q.Limit {
			page = append(page, d)
		}
	}
	return page, p.err
}

func (p *parts) Document(_ context.Context, id document.ID) (document.Document, error) {
	for _, d := range p.docs {
		if d.ID == id {
			return d, p.err
		}
	}
	return document.Document{}, document.ErrNotFound
}

func (p *parts) Text(_ context.Context, id document.ID, r document.Range) (document.Stretch, error) {
	if r.Line > 3 {
		return document.Stretch{Lines: 3, Bytes: 12}, p.err
	}
	return document.Stretch{Text: "two\n", Line: 2, Offset: 4, Lines: 3, Bytes: 12}, p.note("text %d %+v", id, r)
}

func (p *parts) Events(_ context.Context, after uint64, _ int) ([]event.Event, event.Span, error) {
	return nil, event.Span{Oldest: 1, Newest: 12}, p.err
}

func (p *parts) EventSpan(context.Context) (event.Span, error) {
	return event.Span{Oldest: 1, Newest: 12}, p.err
}

func (p *parts) Seconds() []history.Point { return []history.Point{{At: day, Waiting: 3}} }
func (p *parts) Minutes() []history.Point { return []history.Point{} }

func (p *parts) Recorded() <-chan struct{} { return nil }
func (p *parts) List(context.Context) (control.ModelList, error) {
	return control.ModelList{Models: []control.Model{p.model()}, Machine: &models.Machine{Total: 16, WorkingSet: 12},
		Unreadable: []models.Unreadable{{Place: models.Place{Source: models.SourceOllama, Path: "/o"}, Reason: "no"}}}, p.note("list")
}

func (p *parts) Inspect(_ context.Context, path string) (control.Model, error) {
	return p.model(), p.note("inspect %s", path)
}

func (p *parts) Use(_ context.Context, req control.UseModel) (control.UsedModel, error) {
	return control.UsedModel{Model: p.model(), Profile: "small", Applies: control.AppliesNextStart, Before: map[string]string{"engine.model": "", "engine.profile": "standard"}},
		p.note("use %+v", req)
}

func (p *parts) model() control.Model {
	eos := int64(5)
	return control.Model{InUse: true, Memory: &models.Verdict{Profile: "standard", Need: models.Need{Weights: 1, Total: 9}, Budget: 8, Smaller: "small"},
		Found: models.Found{Ref: "Qwen/Q:q.gguf", Source: models.SourceHuggingFace, Model: models.Model{
			Path: "/hub/q.gguf", Name: "q", Size: 10, Parts: 1, Modified: day, Architecture: "qwen3", Role: upstream.RoleEmbed, Dimension: 1024,
			Pooling: "last", EOS: &eos, Quantization: "Q8_0", Warnings: []models.Warning{{Code: models.WarnEOSMissing}}}}}
}

func (p *parts) Search(ctx context.Context, req search.Request) (search.Reply, error) {
	p.request = req
	if p.hold != nil {
		p.hold(ctx)
	}
	return search.Reply{}, p.err
}

func setup(t testing.TB, p *parts, change func(*control.Config)) *control.Server {
	t.Helper()
	cfg := control.Config{
		Version:  "1.2.3",
		Socket:   filepath.Join(shortDir(t), "control.sock"),
		Endpoint: func() string { return "http://127.0.0.1:7434/v1" },
		Engine:   p,
		Gate:     p,
		Trust:    p,
		Validity: func() control.Validity {
			return control.Validity{Rejected: 2, LastAt: &day, LastReasons: []string{"not_finite"}}
		},
		GPU:        func(context.Context) gpu.Status { return warm },
		Yielding:   func() *yielding.State { return waits },
		Indexer:    p,
		Index:      p,
		Journal:    p,
		Search:     p,
		Models:     p,
		Candidates: p,
		Recent:     p,
		Settings:   fakeSettings{p},
		Logger:     slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := control.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shortDir is a folder whose name leaves room for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func call(s *control.Server, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/ondol/v1/"+path, strings.NewReader(body))
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// golden compares status, the headers that matter and the indented body.
func golden(t *testing.T, name string, w *httptest.ResponseRecorder) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", w.Code)
	for _, n := range []string{"Allow", "Content-Type", "Retry-After"} {
		if v := w.Header().Get(n); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", n, v)
		}
	}
	b.WriteString("\n")
	var v any
	if json.Unmarshal(w.Body.Bytes(), &v) == nil {
		pretty, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		b.Write(pretty)
		b.WriteString("\n")
	} else {
		b.WriteString(w.Body.String())
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestRoutes(t *testing.T) {
	tests := []struct {
		name, method, path, body string
		status                   int
		asked                    string // of the parts, joined by ", "
	}{
		{"folders", "GET", "folders", "", 200, ""},
		{"add_folder", "POST", "folders", `{"path":"/home/c/../d/"}`, 200, "add /home/d"},
		{"remove_folder", "DELETE", "folders/2", "", 204, "remove 2"},
		{"rescan_folder", "POST", "folders/2/rescan", "", 204, "rescan 2"},
		{"documents", "GET", "documents", "", 200, ""},
		{"document", "GET", "documents/9", "", 200, ""},
		{"documents_chosen", "GET", "documents?path=/home/a/sub&kinds=text,markdown&limit=1", "", 200, ""},
		{"document_text", "GET", "documents/9?from=2&to=2&bytes=100", "", 200, "text 9 {Line:2 LastLine:2 Offset:0 Bytes:100}"},
		{"document_text_offset", "GET", "documents/9?offset=4", "", 200, "text 9 {Line:0 LastLine:0 Offset:4 Bytes:65536}"},
		{"refused_text_behind", "GET", "documents/9?from=4", "", 400, ""},
		{"refused_text_twice", "GET", "documents/9?from=4&offset=2", "", 400, ""},
		{"refused_text_backwards", "GET", "documents/9?from=4&to=2", "", 400, ""},
		{"refused_text_bytes", "GET", "documents/9?bytes=3", "", 400, ""},
		{"refused_kinds", "GET", "documents?kinds=text,film", "", 400, ""},
		{"refused_outside", "GET", "documents?path=/home/ab", "", 404, ""},
		{"refused_outside_search", "POST", "search", `{"query":"x","path":"/etc/*.conf"}`, 404, ""},
		{"retry_document", "POST", "documents/5/retry", "", 204, "retry 5"},
		{"engine", "GET", "engine", "", 200, ""},
		{"engine_start", "POST", "engine/start", "", 200, "start"},
		{"engine_stop", "POST", "engine/stop", "", 200, "stop"},
		{"engine_restart", "POST", "engine/restart", "", 200, "restart"},
		{"engine_logs", "GET", "engine/logs?lines=3", "", 200, "log 3"},
		{"engine_logs_default", "GET", "engine/logs", "", 200, "log 100"},
		{"candidate", "GET", "engine/candidate", "", 200, ""},
		{"candidate_try", "POST", "engine/candidate", `{"ngl":20,"flags":["-ub","512"],"quick":true}`, 200, ""},
		{"candidate_drop", "DELETE", "engine/candidate", "", 200, "drop"},
		{"promote", "POST", "engine/promote", `{"force":true}`, 200, "promote {Force:true Now:false}"},
		{"rollback", "POST", "engine/rollback", `{}`, 200, "rollback false"},
		{"generations", "GET", "generations", "", 200, ""},
		{"generations_cost", "GET", "generations?dimension=1024", "", 200, "cost 1024"},
		{"models", "GET", "models", "", 200, "list"},
		{"models_inspect", "GET", "models/inspect?path=/hub/../hub/q.gguf", "", 200, "inspect /hub/q.gguf"},
		{"models_use", "POST", "models/use", `{"name":"q","profile":"small"}`, 200, "use {Path: Name:q Profile:small NextStart:false InPlace:false Quick:false Force:false Now:false}"},
		{"refused_model_path", "GET", "models/inspect?path=q.gguf", "", 400, ""},
		{"refused_model_twice", "POST", "models/use", `{"name":"q","path":"/q"}`, 400, ""},
		{"refused_model_relative", "POST", "models/use", `{"path":"q"}`, 400, ""},
		{"settings", "GET", "settings", "", 200, ""},
		{"settings_chain", "GET", "settings/chain", "", 200, ""},
		{"settings_change", "PATCH", "settings", `{"changes":{"admission.executing":"3"}}`, 200, "change 3"},
		{"settings_preview", "POST", "settings/preview", `{"changes":{"admission.executing":"3"}}`, 200, "preview 3"},
		{"settings_preview_broken", "POST", "settings/preview", `{"changes":{"admission.executing":"9"}}`, 200, "preview 9"},
		{"refused_settings", "PATCH", "settings", `{"changes":{"admission.executing":"9"}}`, 409, "change 9"},
		{"refused_setting", "POST", "settings/preview", `{"changes":{"admission.excuting":"3"}}`, 400, "preview "},
		{"refused_no_changes", "PATCH", "settings", `{}`, 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newParts()
			w := call(setup(t, p, nil), tt.method, tt.path, tt.body)
			if w.Code != tt.status {
				t.Errorf("status = %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if got := strings.Join(p.asked, ", "); got != tt.asked {
				t.Errorf("asked %q, want %q", got, tt.asked)
			}
			golden(t, tt.name, w)
		})
	}
}

func TestStatus(t *testing.T) {
	get := func(p *parts) control.Status {
		t.Helper()
		w := call(setup(t, p, nil), "GET", "status", "")
		var status control.Status
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || w.Code != 200 {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		return status
	}
	later := day.Add(time.Hour)
	p := newParts()
	want := control.Status{
		Seq: 12, OldestSeq: 1, Version: "1.2.3", Endpoint: "http://127.0.0.1:7434/v1",
		Engine: p.status, Admission: p.Stats(),
		Validity: control.Validity{Rejected: 2, LastAt: &day, LastReasons: []string{"not_finite"}},
		GPU:      warm,
		Index: control.IndexStatus{
			Counts:  document.Counts{Found: 7, Indexed: 5, Skipped: 1, Pending: 1, Chunks: 13, Reasons: map[document.Reason]int64{"binary": 1}},
			Folders: 2, LastScan: &later, Counters: control.Counters{EmbeddedChunks: 13, ReusedChunks: 4},
			Yielding: waits, Generations: p.made,
		},
		Roles:    []control.RoleStatus{},
		Capacity: chainOf(2),
		Problems: []control.Problem{},
	}
	if diff := cmp.Diff(want, get(p)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	p.status.State, p.status.Cause = llamaserver.Failed, llamaserver.CauseBudget
	p.status.LastError = &llamaserver.Problem{Code: llamaserver.CodeCrash, Message: "it ended", Remedy: llamaserver.RemedyLog}
	p.list[0].State, p.list[0].Reason = document.FolderOffline, "missing"
	p.list[1].Counts.Failed, p.list[1].Counts.Indexed = 1, 1
	wantProblems := []control.Problem{
		{Code: "engine_failed", Severity: control.SeverityError, Since: &day,
			Args: map[string]string{"cause": "budget_spent", "problem": "crash", "detail": "it ended", "remedy": "read_log"}},
		{Code: "folder_offline", Severity: control.SeverityWarning, Args: map[string]string{"path": "/home/a", "reason": "missing"}},
		{Code: "documents_failed", Severity: control.SeverityWarning, Args: map[string]string{"path": "/home/b", "count": "1"}},
	}
	if diff := cmp.Diff(wantProblems, get(p).Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if got := get(&parts{}); got.Index.LastScan != nil || got.Problems == nil || got.Index.Generations == nil {
		t.Errorf("status of an empty index = %+v", got)
	}
}

func TestPages(t *testing.T) {
	p := newParts()
	s := setup(t, p, nil)
	var ids []document.ID
	path := "documents?limit=2&state=failed&folder=1"
	for range 3 {
		w := call(s, "GET", path, "")
		var page control.Documents
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		for _, d := range page.Documents {
			ids = append(ids, d.ID)
		}
		if p.query.State != document.Failed || p.query.Folder != 1 || p.query.Limit != 3 {
			t.Errorf("query = %+v", p.query)
		}
		if page.Next == "" {
			break
		}
		path = "documents?limit=2&state=failed&folder=1&cursor=" + page.Next
	}
	if diff := cmp.Diff([]document.ID{3, 5, 9}, ids); diff != "" {
		t.Errorf("ids over all pages (-want +got):\n%s", diff)
	}
	// Exactly a page: no empty page follows.
	var page control.Documents
	if err := json.Unmarshal(call(s, "GET", "documents?limit=3", "").Body.Bytes(), &page); err != nil || len(page.Documents) != 3 || page.Next != "" {
		t.Errorf("page = %+v, %v", page, err)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name, method, path, body string
		status                   int
		code, says               string
	}{
		{"unknown_field", "POST", "folders", `{"path":"/a","recursive":true}`, 400, "unknown_field", "recursive"},
		{"search_unknown_field", "POST", "search", `{"query":"x","lmit":3}`, 400, "unknown_field", "lmit"},
		{"wrong_type", "POST", "folders", `{"path":7}`, 400, "invalid_value", "path"},
		{"trailing", "POST", "folders", `{"path":"/a"}{}`, 400, "bad_request", "follows"},
		{"empty_body", "POST", "folders", ``, 400, "bad_request", "empty"},
		{"cut_body", "POST", "folders", `{"path":"/a`, 400, "bad_request", "too early"},
		{"syntax", "POST", "folders", `{path:"/a"}`, 400, "bad_request", "not valid JSON"},
		{"too_large", "POST", "search", `{"query":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "request_too_large", "1048576"},
		{"time", "POST", "search", `{"query":"x","after":"yesterday"}`, 400, "invalid_value", "2026-04-10T00:00:00Z"},
		{"relative", "POST", "folders", `{"path":"notes"}`, 400, "invalid_value", "absolute path"},
		{"no_path", "POST", "folders", `{}`, 400, "invalid_value", "absolute path"},
		{"unknown_parameter", "GET", "documents?stat=failed", "", 400, "unknown_parameter", "stat"},
		{"no_parameters", "GET", "status?verbose=1", "", 400, "unknown_parameter", "known here: none"},
		{"twice", "GET", "documents?state=failed&state=found", "", 400, "invalid_value", "twice"},
		{"state", "GET", "documents?state=broken", "", 400, "invalid_value", "found, embedding"},
		{"folder_id", "GET", "documents?folder=x", "", 400, "invalid_value", "folder"},
		{"cursor", "GET", "documents?cursor=abc", "", 400, "invalid_value", "cursor"},
		{"limit", "GET", "documents?limit=1001", "", 400, "invalid_value", "1 to 1000"},
		{"lines", "GET", "engine/logs?lines=0", "", 400, "invalid_value", "lines"},
		{"dimension", "GET", "generations?dimension=-1", "", 400, "invalid_value", "dimension"},
		{"id", "GET", "documents/abc", "", 400, "invalid_value", "id"},
		{"id_zero", "DELETE", "folders/0", "", 400, "invalid_value", "id"},
		{"no_such_document", "GET", "documents/4", "", 404, "not_found", "not found"},
		{"body_where_none", "POST", "engine/stop", `{"force":true}`, 400, "bad_request", "no body"},
		{"method", "PUT", "folders", `{}`, 405, "method_not_allowed", "GET or POST"},
		{"route", "GET", "nowhere", "", 404, "unknown_route", "/ondol/v1/nowhere"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newParts()
			w := call(setup(t, p, nil), tt.method, tt.path, tt.body)
			var body struct{ Error control.Error }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatalf("%q: %v", w.Body, err)
			}
			all := body.Error.Message + " | " + body.Error.Remedy
			if w.Code != tt.status || body.Error.Code != tt.code || !strings.Contains(all, tt.says) {
				t.Errorf("got %d %s %q, want %d %s with %q", w.Code, body.Error.Code, all, tt.status, tt.code, tt.says)
			}
			if len(p.asked) != 0 {
				t.Errorf("asked %v", p.asked)
			}
			golden(t, "refused_"+tt.name, w)
		})
	}
	r := httptest.NewRequest("POST", "/ondol/v1/folders", strings.NewReader(`{"path":"/a"}`))
	r.Header.Set("Content-Type", "text/plain")
	w := httptest.NewRecorder()
	setup(t, newParts(), nil).Handler().ServeHTTP(w, r)
	golden(t, "refused_media", w)
}

func TestAddFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "note.md")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(control.AddFolder{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	p := newParts()
	w := call(setup(t, p, nil), "POST", "folders", string(body))
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"code":"not_a_folder"`) || len(p.asked) != 0 {
		t.Errorf("got %d %s, asked %v", w.Code, w.Body, p.asked)
	}
}

// What is wrong with a path is said of the path, once.
func TestAddRefusesPaths(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	write := filepath.Join(dir, "file")
	if err := os.WriteFile(write, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	tests := []struct {
		path, code, message string
		err                 error // of the indexer
	}{
		{"", "invalid_value", "path is missing or relative", nil},
		{"notes/a", "invalid_value", "path is missing or relative", nil},
		{loop, "link_loop", loop + " leads through links that never end", nil},
		{write + "/below", "not_a_folder", write + "/below is not a folder", nil},
		{"/" + strings.Repeat("x", 5000), "invalid_value", "path is none that a system has", nil},
		{"/a\x00b", "invalid_value", "path is none that a system has", nil},
		{dir, "folder_exists", dir + " is already watched", fmt.Errorf("add folder: add folder: %w", document.ErrFolderExists)},
		{missing, "path_not_found", missing + " does not exist", fmt.Errorf("add folder: %w", &fs.PathError{Op: "lstat", Path: missing, Err: fs.ErrNotExist})},
		{dir, "permission_denied", dir + " may not be read", fmt.Errorf("add folder: %w", &fs.PathError{Op: "open", Path: dir, Err: fs.ErrPermission})},
	}
	for _, tt := range tests {
		p := newParts()
		p.err = tt.err
		body, err := json.Marshal(control.AddFolder{Path: tt.path})
		if err != nil {
			t.Fatal(err)
		}
		w := call(setup(t, p, nil), "POST", "folders", string(body))
		var got struct{ Error control.Error }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", w.Body, err)
		}
		if got.Error.Code != tt.code || got.Error.Message != tt.message {
			t.Errorf("%.40q: got %s %q, want %s %q", tt.path, got.Error.Code, got.Error.Message, tt.code, tt.message)
		}
		if tt.code != "invalid_value" && got.Error.Args["path"] != tt.path {
			t.Errorf("%.40q: args %v", tt.path, got.Error.Args)
		}
	}
}

func TestUnknownIDsAreNamedOnce(t *testing.T) {
	for path, want := range map[string]string{
		"POST documents/99/retry": "document 99 was not found in the index", "DELETE folders/7": "folder 7 was not found in the index",
		"POST folders/7/rescan": "folder 7 was not found in the index", "GET documents/99": "document 99 was not found in the index",
	} {
		p := newParts()
		p.err = fmt.Errorf("retry: retry: %w", document.ErrNotFound)
		method, route, _ := strings.Cut(path, " ")
		w := call(setup(t, p, nil), method, route, "")
		if w.Code != 404 || !strings.Contains(w.Body.String(), `"message":"`+want+`"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestErrorsOfTheParts(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		code   string
	}{
		{"folder_exists", document.ErrFolderExists, 409, "folder_exists"},
		{"folder_refused", &document.FolderRefusedError{Path: "/", Reason: document.RefusedSystem, Holder: "/"}, 403, "folder_refused"},
		{"folder_overlaps", &document.FolderOverlapError{Path: "/a/b", Existing: "/a", Inside: true}, 409, "folder_overlaps"},
		{"not_found", document.ErrNotFound, 404, "not_found"},
		{"path_not_found", &fs.PathError{Op: "stat", Path: "/a", Err: fs.ErrNotExist}, 400, "path_not_found"},
		{"permission", &fs.PathError{Op: "open", Path: "/a", Err: fs.ErrPermission}, 403, "permission_denied"},
		{"unavailable", &embedding.UnavailableError{State: "loading", RetryAfter: 1500 * time.Millisecond}, 503, "engine_unavailable"},
		{"not_ready", &llamaserver.NotReadyError{State: llamaserver.Failed, RetryAfter: 4 * time.Second}, 503, "engine_unavailable"},
		{"queue_full", &admission.RejectedError{Reason: "queue_full", RetryAfter: time.Second}, 429, "queue_full"},
		{"search", &search.InvalidError{Field: "query", Message: "it is empty", Remedy: "type a word"}, 400, "invalid_value"},
		{"invalid_vector", &vector.InvalidError{Problems: []vector.Problem{{Index: 0, Reason: vector.ReasonZero}}}, 502, "invalid_vector"},
		{"stopping", admission.ErrClosed, 503, "stopping"},
		{"engine gone", llamaserver.ErrClosed, 503, "stopping"},
		{"internal", errors.New("disk is full"), 500, "internal_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newParts()
			p.err = tt.err
			w := call(setup(t, p, nil), "POST", "folders", `{"path":"/a"}`)
			var body struct{ Error control.Error }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatalf("%q: %v", w.Body, err)
			}
			if w.Code != tt.status || body.Error.Code != tt.code {
				t.Errorf("got %d %s, want %d %s", w.Code, body.Error.Code, tt.status, tt.code)
			}
		})
	}
}

func TestNewNeedsEveryPart(t *testing.T) {
	if _, err := control.New(control.Config{}); err == nil {
		t.Error("an empty Config was taken")
	}
	if _, err := control.New(control.Config{Socket: "/s", Engine: newParts()}); err == nil {
		t.Error("a Config without an index was taken")
	}
}

func TestTrust(t *testing.T) {
	hash := trust.HashOf("x").String()
	p := newParts()
	s := setup(t, p, func(c *control.Config) {
		c.Validity = func() control.Validity { return control.Validity{Quarantined: 2} }
	})
	p.status.OneAtATime = &llamaserver.OneAtATime{Since: day, Text: "long", Detail: "cosine 0.9900"}
	p.status.LastError = &llamaserver.Problem{Code: llamaserver.CodeCrash, Message: `it said "a secret"`, Log: []string{"a secret"}}
	p.held = []trust.Quarantined{{Fingerprint: "f", SHA256: hash, Reason: trust.ReasonPoison, At: day}}
	for _, test := range []struct {
		method, path string
		code         int
		says         string
	}{
		{"GET", "engine/quarantine", 200, hash},
		{"GET", "engine/quarantine?sha256=x", 400, "unknown_parameter"},
		{"DELETE", "engine/quarantine?sha256=x", 400, "invalid_value"},
		{"DELETE", "engine/quarantine?sha256=" + hash, 200, `{"lifted":1}`},
		{"DELETE", "engine/quarantine", 200, `{"lifted":1}`},
		{"POST", "engine/check", 200, `"state":"ready"`},
		{"GET", "engine/report", 200, `"code":"crash"`},
		{"GET", "status", 200, `"code":"one_at_a_time"`},
		{"GET", "status", 200, `"code":"quarantine"`},
	} {
		w := call(s, test.method, test.path, "")
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s %s: %d, %s; want %d and %s", test.method, test.path, w.Code, w.Body, test.code, test.says)
		}
		if strings.HasSuffix(test.path, "report") && strings.Contains(w.Body.String(), "secret") {
			t.Errorf("the report shows %s", w.Body)
		}
	}
	p.held = nil
	if w := call(s, "DELETE", "engine/quarantine?sha256="+hash, ""); w.Code != 404 {
		t.Errorf("what is not held: %d, %s", w.Code, w.Body)
	}
	if want := []string{"lift " + hash, "lift ", "check", "lift " + hash}; !slices.Equal(p.asked, want) {
		t.Errorf("asked for %q, want %q", p.asked, want)
	}
}
