package models_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/build/tools/gguf"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/models"
)

func fixture(t *testing.T) *models.Model {
	t.Helper()
	m, err := models.Inspect(enginetest.Qwen3Shaped(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What is on the GPU follows -ngl: the last layers, of which the output is one.
func TestGPUShare(t *testing.T) {
	m := fixture(t)
	need := func(flags string) models.Need { return m.Estimate(strings.Fields("-c 8192 -np 2 "+flags), 1<<30) }
	none, some, all := need("-ngl 0"), need("-ngl 34"), need("-ngl 99")
	if none.GPU != 0 {
		t.Errorf("-ngl 0 has %d bytes on the GPU", none.GPU)
	}
	if all.GPU != all.Weights+all.KV+all.Compute {
		t.Errorf("-ngl 99 leaves something on the CPU: %+v", all)
	}
	if some.GPU >= all.GPU || some.GPU < all.GPU*30/36 || some.Compute != 2*all.Compute {
		t.Errorf("-ngl 34: %+v, all: %+v", some, all)
	}
	if cpu := need("-ngl 99 -nkvo"); cpu.GPU != all.GPU-all.KV {
		t.Errorf("-nkvo: %+v", cpu)
	}
	if auto := need("-ngl auto"); auto != all {
		t.Errorf("-ngl auto: %+v", auto)
	}
}

// Builds not known to do better compute logits for every token of a batch.
func TestOlderBuildsNeedMore(t *testing.T) {
	m := fixture(t)
	flags := strings.Fields("--embeddings -c 8192 -b 4096 -ub 4096 -np 2 -ngl 0")
	older, known := m.Estimate(flags, 0), m.Estimate(flags, 11669)
	if more := older.Total - known.Total; more != 4*4096*257 {
		t.Errorf("%d bytes more", more)
	}
}

func TestWeigh(t *testing.T) {
	m := fixture(t)
	flags := func(s string) []string { return strings.Fields(s) }
	profiles := []models.Profile{{Name: "large", Flags: flags("-c 65536 -b 8192 -ub 8192 -np 4")}, {Name: "middle", Flags: flags("-c 16384 -b 4096 -ub 4096 -np 2")}, {Name: "tiny", Flags: flags("-c 2048 -b 512 -ub 512 -np 1")}}
	for _, test := range []struct {
		machine models.Machine
		fits    bool
		smaller string
	}{
		{models.Machine{Total: 16 << 30}, true, ""},
		{models.Machine{Total: 16 << 30, WorkingSet: 10 << 30}, true, ""},
		{models.Machine{Total: 1 << 30}, false, "middle"},
		{models.Machine{Total: 16 << 30, WorkingSet: 1 << 30}, false, "middle"},
		{models.Machine{Total: 400 << 20}, false, "tiny"},
		{models.Machine{Total: 100 << 20}, false, ""},
	} {
		v := m.Weigh(test.machine, profiles[0], profiles, 1<<30)
		if v.Fits != test.fits || v.Smaller != test.smaller || v.Profile != "large" || v.Budget != test.machine.Budget() {
			t.Errorf("%+v: %+v", test.machine, v)
		}
	}
}

// Figures that no model has must not turn an estimate negative.
func TestEstimateOfAbsurdHeaders(t *testing.T) {
	huge := uint32(1<<32 - 1)
	path := write(t, filepath.Join(t.TempDir(), "m.gguf"), "blk.0.x", gguf.KV{Key: "general.architecture", Value: "qwen3"},
		gguf.KV{Key: "qwen3.block_count", Value: huge}, gguf.KV{Key: "qwen3.embedding_length", Value: huge}, gguf.KV{Key: "qwen3.context_length", Value: huge},
		gguf.KV{Key: "qwen3.feed_forward_length", Value: huge}, gguf.KV{Key: "qwen3.attention.head_count", Value: huge},
		gguf.KV{Key: "qwen3.attention.head_count_kv", Value: huge}, gguf.KV{Key: "qwen3.attention.key_length", Value: huge})
	m, err := models.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"", "-c 2147483647 -b 2147483647 -ub 2147483647 -np 2147483647 -fa off -ctk f32 -ctv f32", "-np 2147483647 -kvu"} {
		n := m.Estimate(strings.Fields(flags), 0)
		for _, part := range []int64{n.Weights, n.KV, n.Compute, n.Output, n.Engine, n.Total, n.GPU} {
			if part < 0 {
				t.Errorf("%s: %+v", flags, n)
				break
			}
		}
		if (models.Machine{Total: 64 << 30}).Fits(n) {
			t.Errorf("%s fits: %+v", flags, n)
		}
	}
}

func TestMetalWorkingSet(t *testing.T) {
	for total, want := range map[int64]float64{8: 5.33, 16: 10.67, 32: 21.33, 36: 27, 64: 48, 96: 72} { // GiB
		if got := float64(models.MetalWorkingSet(total<<30)) / (1 << 30); got < want-0.01 || got > want+0.01 {
			t.Errorf("%d GiB: %.2f, want %.2f", total, got, want)
		}
	}
}

func TestThisMachine(t *testing.T) {
	m, err := models.ThisMachine()
	if err != nil {
		t.Fatal(err)
	}
	if m.Total < 1<<28 || m.Total > 1<<50 || m.Budget() <= m.Total/2 || m.Budget() >= m.Total || m.WorkingSet > m.Total {
		t.Errorf("%+v, budget %d", m, m.Budget())
	}
}
