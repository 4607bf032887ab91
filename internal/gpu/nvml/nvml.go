//go:build linux

// Package nvml reads an NVIDIA GPU's counters from the driver's own library,
// which is opened when it is there.
//
// Only gpu/host imports it. The library tells how busy each process has been
// lately, not since when: a Reader adds these shares up to counters, so it has
// to be read at even intervals.
package nvml

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ondol-app/ondol/internal/gpu"
)

// Library is the name under which the driver installs it.
const Library = "libnvidia-ml.so.1"

// Codes of nvmlReturn_t.
const (
	success  = 0
	notFound = 6 // no process was busy
)

// engine is the one name of a GPU's engines: those that compute.
const engine = "sm"

// busiest bounds how many processes are asked for.
const busiest = 1024

// process is nvmlProcessUtilizationSample_t.
type process struct {
	pid       uint32
	_         uint32
	timestamp uint64    // µs
	sm        uint32    // percent
	_         [3]uint32 // likewise: memory, encoder, decoder
}

// memory is nvmlMemory_t.
type memory struct{ total, _, used uint64 }

// utilization is nvmlUtilization_t, percent.
type utilization struct{ gpu, _ uint32 }

// Reader reads all NVIDIA GPUs. One goroutine uses it.
type Reader struct {
	rates     func(device uintptr, to *utilization) int32
	memory    func(device uintptr, to *memory) int32
	processes func(device uintptr, to *process, count *uint32, since uint64) int32

	devices []uintptr
	seen    []uint64 // µs: the newest sample of each device
	used    map[gpu.Client]gpu.Use
	at      time.Time // of the last reading
}

// Open loads the library at path and finds the GPUs; gpu.ErrNone where there is
// no such library or no GPU.
func Open(path string) (*Reader, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_LOCAL)
	if err != nil {
		return nil, errors.Join(gpu.ErrNone, err)
	}
	r := &Reader{used: make(map[gpu.Client]gpu.Use)}
	var begin func() int32
	var count func(*uint32) int32
	var device func(index uint32, to *uintptr) int32
	for name, function := range map[string]any{
		"nvmlInit_v2": &begin, "nvmlDeviceGetCount_v2": &count, "nvmlDeviceGetHandleByIndex_v2": &device,
		"nvmlDeviceGetUtilizationRates": &r.rates, "nvmlDeviceGetMemoryInfo": &r.memory, "nvmlDeviceGetProcessUtilization": &r.processes,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("find %s in %s: %w", name, path, err)
		}
		purego.RegisterFunc(function, symbol)
	}
	if code := begin(); code != success {
		return nil, fmt.Errorf("start NVML: code %d", code)
	}
	var n uint32
	if code := count(&n); code != success {
		return nil, fmt.Errorf("count NVIDIA GPUs: code %d", code)
	}
	for i := range n {
		var d uintptr
		if code := device(i, &d); code != success {
			return nil, fmt.Errorf("find NVIDIA GPU %d: code %d", i, code)
		}
		r.devices = append(r.devices, d)
	}
	if len(r.devices) == 0 {
		return nil, gpu.ErrNone
	}
	r.seen = make([]uint64, len(r.devices))
	return r, nil
}

// Read implements gpu.Reader.
func (r *Reader) Read() (gpu.Reading, error) {
	now := time.Now()
	passed := now.Sub(r.at)
	if r.at.IsZero() {
		passed = 0
	}
	r.at = now
	var reading gpu.Reading
	told := false
	for i, device := range r.devices {
		r.device(device, &reading)
		ok, err := r.add(i, device, passed)
		if err != nil {
			return gpu.Reading{}, err
		}
		told = told || ok
	}
	if told {
		reading.Clients = make(map[gpu.Client]gpu.Use, len(r.used))
		for client, use := range r.used {
			reading.Clients[client] = use
		}
	}
	return reading, nil
}

// device adds what a GPU tells of itself.
func (r *Reader) device(device uintptr, to *gpu.Reading) {
	var rates utilization
	if r.rates(device, &rates) == success {
		share := float64(min(rates.gpu, 100)) / 100
		if to.Utilization == nil || *to.Utilization < share {
			to.Utilization = &share
		}
	}
	var bytes memory
	if r.memory(device, &bytes) == success {
		used, total := int64(bytes.used), int64(bytes.total)
		if to.MemoryInUse != nil {
			used, total = used+*to.MemoryInUse, total+*to.WorkingSet
		}
		to.MemoryInUse, to.WorkingSet = &used, &total
	}
}

// add counts what the processes of a GPU did since the last reading; false
// where the driver does not tell.
func (r *Reader) add(i int, device uintptr, passed time.Duration) (told bool, err error) {
	samples := make([]process, busiest)
	n := uint32(len(samples))
	switch code := r.processes(device, unsafe.SliceData(samples), &n, r.seen[i]); code {
	case success:
	case notFound:
		return true, nil
	default:
		return false, nil // not supported by this GPU or driver
	}
	if n > busiest {
		return false, fmt.Errorf("read processes of NVIDIA GPU %d: %d of them", i, n)
	}
	name := strconv.Itoa(i)
	for _, p := range samples[:n] {
		r.seen[i] = max(r.seen[i], p.timestamp)
		client := gpu.Client{Device: name, ID: uint64(p.pid)}
		busy := r.used[client].Engines[engine].Count
		if p.sm <= 100 {
			busy += uint64(passed.Nanoseconds()) / 100 * uint64(p.sm)
		}
		r.used[client] = gpu.Use{PID: int(p.pid), Engines: map[string]gpu.Busy{engine: {Count: busy}}}
	}
	return true, nil
}
