package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/upstream"
)

// steady is a GPU that others use by a share that the test sets before it is
// read.
type steady struct {
	share float64
	used  float64
	at    time.Time
	err   error
}

func (s *steady) Read() (gpu.Reading, error) {
	s.used += s.share * time.Since(s.at).Seconds()
	s.at = time.Now()
	return gpu.Reading{Clients: map[gpu.Client]gpu.Use{{ID: 1}: {PID: 7, Engines: map[string]gpu.Busy{"gpu": {Count: uint64(s.used * 1e9)}}}}}, s.err
}

func TestATrialTellsOthersLoad(t *testing.T) {
	for name, test := range map[string]struct {
		source func(*steady) gpu.Source
		known  bool
		want   func(trial.GPU) bool
	}{
		"a share of a half": {func(s *steady) gpu.Source { return gpu.Source{Reader: s} }, true,
			func(g trial.GPU) bool { return g.Available && *g.OthersMean > 0.49 && *g.OthersMax < 0.51 }},
		"no GPU": {func(*steady) gpu.Source { return gpu.Source{Missing: gpu.ReasonNoGPU} }, true,
			func(g trial.GPU) bool { return !g.Available && g.Reason == "no_gpu" }},
		"a reader that fails": {func(s *steady) gpu.Source { s.err = errors.New("broken"); return gpu.Source{Reader: s} }, true,
			func(g trial.GPU) bool { return !g.Available && g.Reason == "unreadable" }},
		"work that cannot be told apart": {func(s *steady) gpu.Source { return gpu.Source{Reader: s} }, false,
			func(g trial.GPU) bool { return !g.Available && g.Reason == "no_shares" }},
	} {
		synctest.Test(t, func(t *testing.T) {
			sampler, err := gpu.New(gpu.Config{
				Open:      func() gpu.Source { return test.source(&steady{share: 0.5, at: time.Now()}) },
				Ours:      func() ([]int, bool) { return nil, test.known },
				Executing: func() bool { return true },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- sampler.Run(ctx) }()
			ended := othersOnGPU(sampler)
			time.Sleep(10 * time.Second)
			if got := ended(); !test.want(got) {
				t.Errorf("%s: %+v", name, got)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func settingsWith(t *testing.T, set func(*settings.Settings)) *settings.Settings {
	t.Helper()
	l, err := settings.Load(settings.Config{File: t.TempDir() + "/none.toml", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	set(&l.Settings)
	return &l.Settings
}

func TestLimitsOfYielding(t *testing.T) {
	l := yieldLimits(settingsWith(t, func(s *settings.Settings) { s.Yield.GPU, s.Yield.Battery = 40, false }))
	if err := l.Validate(); err != nil || l.Busy != 0.4 || l.Quiet != 0.1 || l.Battery || !l.Low || l.Calm != 15*time.Second {
		t.Errorf("%+v, %v", l, err)
	}
	l = yieldLimits(settingsWith(t, func(s *settings.Settings) { s.Roles.Embed.Kind = settings.KindOllama }))
	if err := l.Validate(); err != nil || l.Busy != 1 {
		t.Errorf("where others run the engine: %+v, %v", l, err)
	}
}

// A server on this machine works for us in processes of its own; one elsewhere
// does not.
func TestWhoseProcesses(t *testing.T) {
	for url, known := range map[string]bool{"http://127.0.0.1:11434": false, "https://engine.example": true} {
		engine, err := newRemote(upstream.RoleEmbed, settings.Role{Kind: settings.KindOllama, URL: url, Model: "m"}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		for what, p := range map[string]*parts{
			"embedding": {engine: remoteEmbedder{engine}}, "another role": {roles: []*role{{engine: remoteEngine{engine}}}},
		} {
			pids, got := p.ourProcesses()
			if got != known || known && !slices.Equal(pids, []int{os.Getpid()}) {
				t.Errorf("%s at %s: %v, known %v", what, url, pids, got)
			}
		}
	}
}
