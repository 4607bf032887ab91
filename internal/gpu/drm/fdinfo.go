package drm

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/ondol-app/ondol/internal/gpu"
)

// entry is one file of /proc/PID/fdinfo that belongs to a GPU.
type entry struct {
	driver  string
	client  gpu.Client
	engines map[string]gpu.Busy // those that compute; nil where the driver tells no times
}

// parse reads one; false for a file of something else. Engines come as
// nanoseconds (drm-engine-*: amdgpu, i915) or as cycles out of those that have
// passed (drm-cycles-*, drm-total-cycles-*: xe).
func parse(r io.Reader) (entry, bool) {
	var e entry
	of, width := make(map[string]uint64), make(map[string]uint64)
	counts := make(map[string]uint64)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		key, value, found := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(value)
		if !found || len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseUint(fields[0], 10, 64)
		number := err == nil
		switch name := key; {
		case name == "drm-driver":
			e.driver = fields[0]
		case name == "drm-pdev":
			e.client.Device = fields[0]
		case name == "drm-client-id" && number:
			e.client.ID = n
		case !number:
		case cut(&name, "drm-engine-capacity-"):
			width[name] = n
		case cut(&name, "drm-engine-"), cut(&name, "drm-cycles-"):
			counts[name] = n
		case cut(&name, "drm-total-cycles-"):
			of[name] = n
		}
	}
	for name, n := range counts {
		if e.engines == nil {
			e.engines = make(map[string]gpu.Busy)
		}
		if computes(name) {
			e.engines[name] = gpu.Busy{Count: n, Of: of[name], Width: width[name]}
		}
	}
	return e, e.driver != ""
}

// cut takes a prefix off; false when there is none.
func cut(name *string, prefix string) bool {
	rest, found := strings.CutPrefix(*name, prefix)
	if found {
		*name = rest
	}
	return found
}

// computes reports whether an engine's work is in the way of computation. Those
// that copy (dma, copy, bcs), decode and encode (dec, enc, jpeg, vpe, video,
// video-enhance, vcs, vecs) work beside it.
func computes(engine string) bool {
	for _, beside := range []string{"dma", "copy", "bcs", "dec", "enc", "jpeg", "vpe", "video", "vcs", "vecs"} {
		if strings.HasPrefix(engine, beside) {
			return false
		}
	}
	return true
}
