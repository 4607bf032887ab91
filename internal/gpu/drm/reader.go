package drm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/gpu"
)

// walkEvery is how often all processes are looked through for open GPUs; in
// between, those found are read again.
const walkEvery = 5 * time.Second

// timed are the drivers that tell times of their clients.
var timed = []string{"amdgpu", "i915", "xe"}

// Reader reads the GPUs below a root. One goroutine uses it.
type Reader struct {
	root   string
	open   []held
	walked time.Time
}

// held is a GPU that a process has open.
type held struct {
	pid  int
	path string // of its fdinfo
}

// New reads the machine's GPUs; root is "/" but for tests. The error is
// gpu.ErrNone where there are none.
func New(root string) (*Reader, error) {
	r := &Reader{root: root}
	if cards, err := r.cards(); err != nil || len(cards) == 0 {
		return nil, errors.Join(gpu.ErrNone, err)
	}
	return r, nil
}

// cards lists the devices' folders.
func (r *Reader) cards() ([]string, error) {
	nodes, err := filepath.Glob(filepath.Join(r.root, "sys/class/drm/renderD*"))
	if err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	for i, node := range nodes {
		nodes[i] = filepath.Join(node, "device")
	}
	return nodes, nil
}

// Read implements gpu.Reader.
func (r *Reader) Read() (gpu.Reading, error) {
	cards, err := r.cards()
	if err != nil {
		return gpu.Reading{}, err
	}
	if len(cards) == 0 {
		return gpu.Reading{}, gpu.ErrNone // it was taken out
	}
	var reading gpu.Reading
	tells := false
	for _, card := range cards {
		device(card, &reading)
		tells = tells || slices.Contains(timed, driver(card))
	}
	clients, silent, err := r.clients()
	if err != nil {
		return gpu.Reading{}, err
	}
	// A kernel too old for the driver's counters is as silent as nouveau.
	if len(clients) > 0 || tells && !silent {
		reading.Clients = clients
	}
	return reading, nil
}

// driver is the name of a device's driver; empty when it is not known.
func driver(card string) string {
	path, err := os.Readlink(filepath.Join(card, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(path)
}

// device adds what amdgpu tells of a whole card; other drivers have no such
// files.
func device(card string, to *gpu.Reading) {
	if percent, ok := number(filepath.Join(card, "gpu_busy_percent")); ok {
		share := float64(min(max(percent, 0), 100)) / 100
		if to.Utilization == nil || *to.Utilization < share {
			to.Utilization = &share
		}
	}
	add := func(name string, sum **int64) {
		if bytes, ok := number(filepath.Join(card, name)); ok {
			if *sum != nil {
				bytes += **sum
			}
			*sum = &bytes
		}
	}
	add("mem_info_vram_used", &to.MemoryInUse)
	add("mem_info_vram_total", &to.WorkingSet)
}

func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// clients are all that can be seen and tell times, each once: descriptors are
// duplicated and inherited. silent: there are some that tell none.
func (r *Reader) clients() (all map[gpu.Client]gpu.Use, silent bool, err error) {
	if now := time.Now(); now.Sub(r.walked) >= walkEvery {
		if r.open, err = r.walk(); err != nil {
			return nil, false, err
		}
		r.walked = now
	}
	all = make(map[gpu.Client]gpu.Use)
	for _, h := range r.open {
		file, err := os.Open(h.path)
		if err != nil {
			continue // closed, or ended
		}
		e, ok := parse(file)
		_ = file.Close() // it was only read
		if !ok {
			continue
		}
		if e.engines == nil {
			silent = true
		} else if _, known := all[e.client]; !known {
			all[e.client] = gpu.Use{PID: h.pid, Engines: e.engines}
		}
	}
	return all, silent, nil
}

// walk looks through the processes whose descriptors may be seen.
func (r *Reader) walk() ([]held, error) {
	proc := filepath.Join(r.root, "proc")
	processes, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []held
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		descriptors, err := os.ReadDir(filepath.Join(proc, p.Name(), "fd"))
		if err != nil {
			continue // ended, or another user's
		}
		for _, d := range descriptors {
			target, err := os.Readlink(filepath.Join(proc, p.Name(), "fd", d.Name()))
			if err == nil && strings.HasPrefix(target, "/dev/dri/") {
				found = append(found, held{pid, filepath.Join(proc, p.Name(), "fdinfo", d.Name())})
			}
		}
	}
	return found, nil
}
