package models_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/build/tools/qwen3"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/models"
)

// bufferLine is how llama-server reports memory:
// "… I sched_reserve:        CPU compute buffer size =   264.16 MiB".
var bufferLine = regexp.MustCompile(`(model|output|KV|compute) buffer size = +([0-9.]+) MiB`)

// reported starts the real llama-server and sums up its buffers by kind, bytes.
func reported(t *testing.T, model string, flags []string) map[string]float64 {
	t.Helper()
	dir, err := os.MkdirTemp("", "mem") // short: a socket's path has few bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := append([]string{"-lv", "4", "-m", model, "--host", filepath.Join(dir, "s.sock")}, flags...)
	cmd := exec.CommandContext(ctx, enginetest.LlamaServer(t), args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(log)
	var last string
	for lines.Scan() {
		last = lines.Text()
		if m := bufferLine.FindStringSubmatch(last); m != nil {
			mib, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			sums[m[1]] += mib * (1 << 20)
		}
		if strings.Contains(last, "load_model: initializing, n_slots") {
			break
		}
	}
	cancel()
	_ = cmd.Wait() // killed
	if sums["model"] == 0 || sums["compute"] == 0 {
		t.Fatalf("no buffers reported; the last line is %q", last)
	}
	return sums
}

// What the estimate is worth: every buffer within 15 % of what the engine
// reports, the sum at most 5 % too high and 1 % too low.
func TestEstimateIsWhatTheEngineReports(t *testing.T) {
	dir := t.TempDir()
	shape := func(name string, s qwen3.Shape) string {
		path := filepath.Join(dir, name+".gguf")
		s.Seed = 1
		if err := qwen3.Write(path, s); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const (
		starter  = "--embeddings -ngl 34 -c 32768 -b 8192 -ub 8192 -np 4"
		standard = "--embeddings --pooling last -ngl 34 -c 65536 -b 8192 -ub 8192 -np 4"
		small    = "--embeddings --pooling last -ngl 34 -c 16384 -b 4096 -ub 4096 -np 2"
	)
	words := shape("vocabulary", qwen3.Shape{Blocks: 2, Width: 64, Heads: 4, KVHeads: 2, HeadWidth: 64, FeedForward: 512, Vocabulary: 151669})
	heads := shape("heads", qwen3.Shape{Blocks: 2, Width: 256, Heads: 32, KVHeads: 8, HeadWidth: 128, FeedForward: 512, Vocabulary: 300})
	forward := shape("forward", qwen3.Shape{Blocks: 2, Width: 256, Heads: 4, KVHeads: 2, HeadWidth: 64, FeedForward: 8192, Vocabulary: 300})
	// The widths of Qwen3-Embedding-0.6B, with 2 of its 28 blocks: of one alone
	// only the rows of the outputs would be computed.
	real := shape("qwen3-0.6b", qwen3.Shape{Blocks: 2, Width: 1024, Heads: 16, KVHeads: 8, HeadWidth: 128, FeedForward: 3072, Vocabulary: 300})
	for _, test := range []struct{ name, model, flags string }{
		{"starter", enginetest.StarterModel(t), starter},
		{"starter, no flash attention", enginetest.StarterModel(t), starter + " -fa off"},
		{"fixture, small", enginetest.Qwen3Shaped(t), small},
		{"0.6B, standard", real, standard},
		{"0.6B, small", real, small},
		{"0.6B, small batch", real, "--embeddings --pooling last -c 16384 -b 512 -ub 512 -np 2"},
		{"a large vocabulary", words, small},
		{"many heads", heads, "--embeddings --pooling last -c 16384 -b 2048 -ub 2048 -np 2"},
		{"many heads, no flash attention", heads, "--embeddings --pooling last -c 4096 -b 1024 -ub 1024 -np 2 -fa off"},
		{"one cache for all", heads, "--embeddings --pooling last -c 16384 -b 2048 -ub 2048 -np 2 -kvu"},
		{"a small cache", heads, "--embeddings --pooling last -c 16384 -b 2048 -ub 2048 -np 2 -ctk q8_0 -ctv q4_0"},
		{"odd sizes", heads, "--embeddings --pooling last -c 10000 -b 2048 -ub 4096 -np 3"},
		{"no flags", heads, "--embeddings --pooling last"},
		{"a wide feed-forward part", forward, "--embeddings --pooling last -c 16384 -b 2048 -ub 2048 -np 2"},
		{"writing", forward, "-c 16384 -np 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			flags := strings.Fields(test.flags)
			m, err := models.Inspect(test.model)
			if err != nil {
				t.Fatal(err)
			}
			// Without a GPU every layer is on the CPU, which has one compute buffer.
			need := m.Estimate(append(flags, "-ngl", "0"), 1<<30)
			got := reported(t, test.model, flags)
			var sum, want float64
			for _, part := range []struct {
				kind     string
				estimate int64
			}{{"model", need.Weights}, {"KV", need.KV}, {"compute", need.Compute}, {"output", need.Output}} {
				real := got[part.kind]
				sum, want = sum+float64(part.estimate), want+real
				// The log has two decimals: below a tenth of a MiB they say little.
				if off := float64(part.estimate) - real; off > 0.15*real+100<<10 || off < -0.15*real-100<<10 {
					t.Errorf("%s: estimated %.2f MiB, reported %.2f MiB", part.kind, float64(part.estimate)/(1<<20), real/(1<<20))
				}
			}
			off := sum/want - 1
			t.Logf("%.1f MiB, estimate %+.1f %%", want/(1<<20), 100*off)
			if off > 0.05 || off < -0.01 {
				t.Errorf("sum: estimated %.1f MiB, reported %.1f MiB (%+.1f %%)", sum/(1<<20), want/(1<<20), 100*off)
			}
		})
	}
}
