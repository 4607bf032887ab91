//go:build darwin || linux

package iokit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ondol-app/ondol/internal/gpu"
)

// plane is where user clients are children of the accelerator (IOKitKeys.h).
const plane = "IOService"

// engine is the one name of an Apple GPU's engines: time is told of all
// together.
const engine = "gpu"

// Registry reads the IORegistry. It keeps a few key strings for good and
// nothing else. One goroutine uses it.
type Registry struct {
	*library
	statistics, utilization, inUse ref // of the accelerator
	creator, usage, gpuTime        ref // of a user client
}

// Open loads the frameworks at the two paths.
func Open(coreFoundation, ioKit string) (*Registry, error) {
	l, err := open(coreFoundation, ioKit)
	if err != nil {
		return nil, err
	}
	key := func(name string) ref { return l.stringCreate(0, name, encodingUTF8) }
	return &Registry{
		library:    l,
		statistics: key("PerformanceStatistics"), utilization: key("Device Utilization %"), inUse: key("In use system memory"),
		creator: key("IOUserClientCreator"), usage: key("AppUsage"), gpuTime: key("accumulatedGPUTime"),
	}, nil
}

// Read implements gpu.Reader.
func (r *Registry) Read() (gpu.Reading, error) {
	var accelerators object
	// Port 0 is the main port. The matching dictionary is taken over.
	if code := r.services(0, r.matching("IOAccelerator"), &accelerators); code != 0 {
		return gpu.Reading{}, fmt.Errorf("list GPUs: IOServiceGetMatchingServices %#x", uint32(code))
	}
	if accelerators == 0 {
		return gpu.Reading{}, gpu.ErrNone
	}
	var reading gpu.Reading
	found := 0
	r.each(accelerators, func(accelerator object) {
		found++
		r.device(accelerator, &reading)
		var clients object
		if r.children(accelerator, plane, &clients) != 0 || clients == 0 {
			return
		}
		device := strconv.Itoa(found)
		r.each(clients, func(client object) { r.client(client, device, &reading) })
	})
	if found == 0 {
		return gpu.Reading{}, gpu.ErrNone
	}
	return reading, nil
}

// device adds what an accelerator tells of itself.
func (r *Registry) device(accelerator object, to *gpu.Reading) {
	statistics := r.property(accelerator, r.statistics, 0, 0)
	if statistics == 0 {
		return
	}
	defer r.release(statistics)
	if !r.isDict(statistics) {
		return
	}
	if percent, ok := r.number(r.dictGet(statistics, r.utilization)); ok {
		share := float64(min(max(percent, 0), 100)) / 100 // it can exceed 100
		if to.Utilization == nil || *to.Utilization < share {
			to.Utilization = &share
		}
	}
	if bytes, ok := r.number(r.dictGet(statistics, r.inUse)); ok {
		if to.MemoryInUse != nil {
			bytes += *to.MemoryInUse
		}
		to.MemoryInUse = &bytes
	}
}

// client adds what a child of an accelerator has used, where it is a user
// client that tells.
func (r *Registry) client(child object, device string, to *gpu.Reading) {
	pid, ok := r.pid(child)
	if !ok {
		return
	}
	time, ok := r.time(child)
	if !ok {
		return
	}
	var id uint64
	if r.entryID(child, &id) != 0 {
		return
	}
	if to.Clients == nil {
		to.Clients = make(map[gpu.Client]gpu.Use)
	}
	to.Clients[gpu.Client{Device: device, ID: id}] = gpu.Use{PID: pid, Engines: map[string]gpu.Busy{engine: {Count: time}}}
}

// pid is the process a user client belongs to.
func (r *Registry) pid(child object) (int, bool) {
	creator := r.property(child, r.creator, 0, 0)
	if creator == 0 {
		return 0, false
	}
	defer r.release(creator)
	text, ok := r.text(creator)
	if !ok {
		return 0, false
	}
	return readCreator(text)
}

// readCreator reads "pid 682, WindowServer".
func readCreator(text string) (pid int, ok bool) {
	rest, ok := strings.CutPrefix(text, "pid ")
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, ",")
	pid, err := strconv.Atoi(number)
	return pid, err == nil && pid > 0
}

// time is the GPU time of a user client, ns, by all its interfaces together.
func (r *Registry) time(child object) (uint64, bool) {
	usage := r.property(child, r.usage, 0, 0)
	if usage == 0 {
		return 0, false
	}
	defer r.release(usage)
	if r.typeOf(usage) != r.arrayType() {
		return 0, false
	}
	var sum uint64
	for i := range r.arrayCount(usage) {
		entry := r.arrayGet(usage, i)
		if !r.isDict(entry) {
			continue
		}
		if ns, ok := r.number(r.dictGet(entry, r.gpuTime)); ok && ns > 0 {
			sum += uint64(ns)
		}
	}
	return sum, true
}
