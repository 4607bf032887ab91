package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/trial"
)

// TestVerify is the whole trial with the real engine, while a client works as
// on any day; a key is required, so the gateway's path shows it.
func TestVerify(t *testing.T) {
	h := newHome(t)
	if code, out, errOut := h.ondol(t, "config", "set", "require_key", "true"); code != 0 {
		t.Fatalf("config set: exit %d, %s%s", code, out, errOut)
	}
	h.serve(t)
	token, err := os.ReadFile(filepath.Join(h.dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	working, rest := context.WithCancel(t.Context())
	served := make(chan int, 1)
	go func() { served <- h.work(t, working, strings.TrimSpace(string(token))) }()
	out := filepath.Join(t.TempDir(), "reports")
	code, stdout, stderr := h.ondol(t, "verify", "--out", out, "--distinct")
	rest()
	others := <-served
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	for _, want := range []string{"Passed: full trial, 76 of 76", "LONGEST WAIT", "gateway", "not available", "covers everything", "p95 of ten requests"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the screen has no %q:\n%s", want, stdout)
		}
	}
	if n := strings.Count(stderr, "at once"); n != 12 {
		t.Errorf("%d lines of progress for 12 steps:\n%s", n, stderr)
	}
	r := onlyReport(t, out)
	completeReport(t, r)
	if !r.Distinct || r.Quick || r.Others.Requests < 1 || r.Others.Requests > int64(others) {
		t.Errorf("distinct %v, quick %v, %d other requests of %d", r.Distinct, r.Quick, r.Others.Requests, others)
	}

	kept, err := h.client.Verifications(t.Context())
	if err != nil || len(kept) != 1 || kept[0].ID != r.ID || len(kept[0].Samples) != 76 {
		t.Errorf("kept: %v, %d reports", err, len(kept))
	}
	oneAtATime(t, h)
}

// work is a client that asks for one text after the other until ctx ends. It
// returns how many requests it made.
func (h *home) work(t *testing.T, ctx context.Context, key string) int {
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Error(err)
		return 0
	}
	for n := 0; ; n++ {
		body := fmt.Sprintf(`{"input":"an editor asks for line %d"}`, n)
		request, err := http.NewRequestWithContext(t.Context(), "POST", status.Endpoint+"/embeddings", bytes.NewBufferString(body))
		if err != nil {
			t.Error(err)
			return n
		}
		request.Header.Set("Authorization", "Bearer "+key)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return n
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("a client beside the trial got status %d", response.StatusCode)
			return n
		}
		if ctx.Err() != nil {
			return n + 1
		}
	}
}

func onlyReport(t *testing.T, dir string) trial.Report {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "ondol-verify-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("reports in %s: %v, %v", dir, files, err)
	}
	body, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var r trial.Report
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(strings.TrimSuffix(files[0], ".json") + ".md")
	if err != nil || !strings.Contains(string(page), r.Paths[0].Engine.Fingerprint) {
		t.Errorf("page: %v\n%s", err, page)
	}
	return r
}

// completeReport checks that a passed trial has every figure of the contract.
func completeReport(t *testing.T, r trial.Report) {
	t.Helper()
	if !r.Verdict.Pass || r.Requests != 76 || len(r.Samples) != 76 || len(r.Rows) != 12 || r.DeadlineMS != 240000 {
		t.Errorf("verdict %+v, %d requests, %d samples, %d rows, deadline %d", r.Verdict, r.Requests, len(r.Samples), len(r.Rows), r.DeadlineMS)
	}
	requests := 0
	for _, row := range r.Rows {
		requests += row.Requests
		if row.OK != row.Requests || row.Finite != row.Requests || row.Dimension != 128 || row.ElapsedMS <= 0 || row.RequestsPerSecond <= 0 ||
			row.P50MS == nil || row.P95MS == nil || *row.P50MS > *row.P95MS || *row.P95MS > *row.MaxMS ||
			*row.NormMin < 0.99 || *row.NormMax > 1.01 || (row.LongestWaitMS == nil) != (row.Path == "direct") {
			t.Errorf("row %+v", row)
		}
	}
	if last := r.Rows[11]; requests != 76 || last.Path != "gateway" || last.Concurrency != 10 || *last.LongestWaitMS <= 0 {
		t.Errorf("%d requests; ten medium inputs at once waited %v", requests, *last.LongestWaitMS)
	}
	if a := r.Agreement; len(a) != 1 || a[0].Compared != 38 || a[0].Different != 0 || *a[0].MinCosine < 0.9999 {
		t.Errorf("agreement %+v", a)
	}
	if *r.AtEnd != (trial.AtEnd{}) {
		t.Errorf("at the end %+v", r.AtEnd)
	}
	for _, p := range r.Paths {
		e := p.Engine
		if e.Fingerprint == "" || e.Model != "ondol-starter-en" || e.Build == "" || e.Profile != "starter" || !slices.Contains(e.Flags, "-ngl") {
			t.Errorf("engine %+v", e)
		}
	}
	if r.Cache.Misses < 38 || r.GPU.Available || r.GPU.Reason == "" || r.Machine.CPUs < 1 || r.Machine.OS == "" {
		t.Errorf("cache %+v, GPU %+v, machine %+v", r.Cache, r.GPU, r.Machine)
	}
}

// oneAtATime begins a trial, is refused a second, and leaves the first: the
// gate is free again.
func oneAtATime(t *testing.T, h *home) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	begun, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		_, err := h.client.Verify(ctx, control.VerifyRequest{}, func(trial.Progress) { begun <- struct{}{} })
		ended <- err
	}()
	<-begun
	if code, out, errOut := h.ondol(t, "verify"); code != 1 || !strings.Contains(errOut, "A trial is running already.") {
		t.Errorf("a second trial: exit %d, %s%s", code, out, errOut)
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the trial that was left: %v", err)
	}
	atRest(t, h)
}

func atRest(t *testing.T, h *home) {
	t.Helper()
	within(t, patience, "a gate at rest", func() error {
		status, err := h.client.Status(t.Context())
		if a := status.Admission; err == nil && a.Executing+a.Draining+a.Waiting != 0 {
			err = fmt.Errorf("%+v", a)
		}
		return err
	})
}

// The engine stands still, as one that is too slow: with a deadline of a
// second the trial fails, says why, and leaves nothing behind.
func TestVerifyFailsAtItsDeadline(t *testing.T) {
	h := newHome(t)
	engine := h.waitReady(t, h.serve(t))
	report, err := h.client.Verify(t.Context(), control.VerifyRequest{Quick: true, DeadlineMS: 1000}, func(p trial.Progress) {
		signal := syscall.SIGCONT
		if p.Phase == trial.Running && p.Bad == 0 {
			signal = syscall.SIGSTOP
		}
		if err := syscall.Kill(engine.PID, signal); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for _, s := range report.Samples {
		if s.Outcome == trial.Late {
			late++
			if s.ElapsedMS < 1000 || s.Code != trial.CodeDeadline {
				t.Errorf("sample %+v", s)
			}
		}
	}
	if report.Verdict.Pass || len(report.Verdict.Reasons) == 0 || report.Verdict.Reasons[0].Code != trial.ReasonLate ||
		report.Verdict.Reasons[0].Args["seconds"] != "1" || late == 0 {
		t.Errorf("verdict %+v, %d late", report.Verdict, late)
	}
	if *report.AtEnd != (trial.AtEnd{}) || len(report.Samples) != 18 {
		t.Errorf("at the end %+v after %d requests", report.AtEnd, len(report.Samples))
	}
	// The command says it, and ends with 1: nothing is answered in a millisecond.
	code, out, errOut := h.ondol(t, "verify", "--quick", "--deadline", "1ms")
	if code != 1 || !strings.Contains(out, "Failed: quick trial") || !strings.Contains(out, "requests had no answer within 0.001 s.") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	atRest(t, h)
}
