package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/trial"
)

// scripted makes trials as it is told.
type scripted struct {
	options trial.Options
	steps   []trial.Progress
	err     error                     // after the steps
	wait    func(ctx context.Context) // after the steps
	kept    []trial.Report
}

func (s *scripted) Verify(ctx context.Context, options trial.Options, progress func(trial.Progress)) (trial.Report, error) {
	s.options = options
	for _, step := range s.steps {
		progress(step)
	}
	if s.wait != nil {
		s.wait(ctx)
	}
	if ctx.Err() != nil {
		return trial.Report{}, context.Cause(ctx)
	}
	return trial.Report{ID: "now", Requests: 76}, s.err
}

func (s *scripted) Reports() ([]trial.Report, error) { return s.kept, s.err }

func withTrials(s *scripted) func(*control.Config) {
	return func(c *control.Config) { c.Trials = s }
}

func TestVerifyIsTold(t *testing.T) {
	s := &scripted{steps: []trial.Progress{{Phase: trial.Preparing, Total: 76}, {Phase: trial.Running, Path: "direct", Done: 1, Total: 76}}}
	socket, _ := start(t, newParts(), withTrials(s))
	c := control.NewClient(socket)
	defer c.Close()
	var seen []trial.Progress
	report, err := c.Verify(t.Context(), control.VerifyRequest{Quick: true, DeadlineMS: 1000}, func(p trial.Progress) { seen = append(seen, p) })
	if err != nil || report.ID != "now" || len(seen) != 2 || seen[1] != s.steps[1] {
		t.Errorf("%v, report %+v, progress %+v", err, report, seen)
	}
	if want := (trial.Options{Quick: true, Deadline: time.Second}); s.options != want {
		t.Errorf("options %+v, want %+v", s.options, want)
	}
	s.kept = []trial.Report{{ID: "b"}, {ID: "a"}}
	if kept, err := c.Verifications(t.Context()); err != nil || len(kept) != 2 || kept[0].ID != "b" {
		t.Errorf("kept %+v, %v", kept, err)
	}
}

// Each line is there when it is told, not when the trial ends.
func TestVerifyStreams(t *testing.T) {
	read := make(chan struct{})
	s := &scripted{steps: []trial.Progress{{Phase: trial.Preparing}}, wait: func(context.Context) { <-read }}
	socket, _ := start(t, newParts(), withTrials(s))
	c := control.NewClient(socket)
	defer c.Close()
	report, err := c.Verify(t.Context(), control.VerifyRequest{}, func(trial.Progress) { close(read) })
	if err != nil || report.Requests != 76 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestVerifyRefusals(t *testing.T) {
	tooShort := &trial.TooShortError{MaxTokens: 512, Need: 2562}
	for _, tt := range []struct {
		name   string
		s      *scripted
		body   string
		status int
		code   string
	}{
		{"no trials", nil, "{}", http.StatusNotFound, "unknown_route"},
		{"negative deadline", &scripted{}, `{"deadline_ms":-1}`, http.StatusBadRequest, "invalid_value"},
		{"endless deadline", &scripted{}, `{"deadline_ms":3600001}`, http.StatusBadRequest, "invalid_value"},
		{"unknown field", &scripted{}, `{"slow":true}`, http.StatusBadRequest, "unknown_field"},
		{"short context", &scripted{err: tooShort}, "{}", http.StatusConflict, "verify_too_short"},
		{"running", &scripted{err: &control.Error{Status: http.StatusConflict, Code: control.CodeVerifyRunning}}, "{}", http.StatusConflict, "verify_running"},
		// Once the first line is out, an error is the last one.
		{"in the middle", &scripted{steps: []trial.Progress{{Phase: trial.Running}}, err: errors.New("it broke")}, "{}", http.StatusOK, "internal_error"},
	} {
		server := setup(t, newParts(), func(c *control.Config) {
			if tt.s != nil {
				c.Trials = tt.s
			}
		})
		w := call(server, "POST", "verify", tt.body)
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		var last struct{ Error *control.Error }
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Error == nil {
			t.Errorf("%s: %v in %q", tt.name, err, lines)
			continue
		}
		if w.Code != tt.status || last.Error.Code != tt.code {
			t.Errorf("%s: %d %s, want %d %s", tt.name, w.Code, last.Error.Code, tt.status, tt.code)
		}
	}
}

func TestVerifyEndsWithItsReader(t *testing.T) {
	ended := make(chan error, 1)
	s := &scripted{steps: []trial.Progress{{Phase: trial.Preparing}}, wait: func(ctx context.Context) {
		<-ctx.Done()
		ended <- ctx.Err()
	}}
	socket, _ := start(t, newParts(), withTrials(s))
	c := control.NewClient(socket)
	defer c.Close()
	ctx, leave := context.WithCancel(t.Context())
	_, err := c.Verify(ctx, control.VerifyRequest{}, func(trial.Progress) { leave() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the reader got %v", err)
	}
	<-ended // or the test does not end
}

func TestVerifyWhenTheAppEnds(t *testing.T) {
	begun := make(chan struct{})
	s := &scripted{steps: []trial.Progress{{Phase: trial.Preparing}}, wait: func(ctx context.Context) { <-ctx.Done() }}
	socket, stop := start(t, newParts(), func(c *control.Config) { c.Trials, c.Grace = s, time.Millisecond })
	c := control.NewClient(socket)
	defer c.Close()
	stopped := make(chan error, 1)
	go func() {
		<-begun
		stopped <- stop()
	}()
	_, err := c.Verify(t.Context(), control.VerifyRequest{}, func(trial.Progress) { close(begun) })
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
	var refused *control.Error
	if !errors.As(err, &refused) || refused.Code != control.CodeStopping {
		t.Errorf("error %v", err)
	}
}
