package host

import (
	"errors"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/gpu/drm"
	"github.com/ondol-app/ondol/internal/gpu/nvml"
)

// Open finds what this machine tells.
func Open() gpu.Source { return find("/", nvml.Library) }

// find is Open for a file system below root and a library of NVIDIA's.
func find(root, nvidia string) gpu.Source {
	source := gpu.Source{Missing: gpu.ReasonNoGPU, Conditions: func() gpu.Conditions { return conditions(root) }}
	var readers joined
	take := func(r gpu.Reader, err error) {
		switch {
		case err == nil:
			readers = append(readers, r)
		case !errors.Is(err, gpu.ErrNone):
			source.Missing, source.Err = gpu.ReasonUnreadable, errors.Join(source.Err, err)
		}
	}
	take(opened(drm.New(root)))
	take(opened(nvml.Open(nvidia)))
	if len(readers) > 0 {
		source.Reader = readers
	}
	return source
}

func opened[R gpu.Reader](r R, err error) (gpu.Reader, error) { return r, err }

// joined is the readers of different drivers as one.
type joined []gpu.Reader

func (j joined) Read() (gpu.Reading, error) {
	var all gpu.Reading
	none := true
	for _, r := range j {
		reading, err := r.Read()
		if errors.Is(err, gpu.ErrNone) {
			continue
		}
		if err != nil {
			return gpu.Reading{}, err
		}
		none = false
		all = add(all, reading)
	}
	if none {
		return gpu.Reading{}, gpu.ErrNone
	}
	return all, nil
}

// add puts two machines' worth of GPUs together.
func add(a, b gpu.Reading) gpu.Reading {
	if a.Utilization == nil || b.Utilization != nil && *b.Utilization > *a.Utilization {
		a.Utilization = b.Utilization
	}
	a.MemoryInUse, a.WorkingSet = sum(a.MemoryInUse, b.MemoryInUse), sum(a.WorkingSet, b.WorkingSet)
	if a.Clients == nil {
		a.Clients = b.Clients
		return a
	}
	for client, use := range b.Clients {
		a.Clients[client] = use
	}
	return a
}

func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	total := *a + *b
	return &total
}
