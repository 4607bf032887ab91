package llamaserver

import (
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/ondol-app/ondol/internal/trust"
)

// alarms are lines by which llama-server says that what it computes must not be
// believed, though it goes on: a GPU that gave up (ggml-metal, ggml-cuda), a
// graph that could not be computed. An assertion ends it anyway.
var alarms = regexp.MustCompile(`command buffer \d+ failed with status|kIOGPUCommandBufferCallbackError|CUDA error|vk::DeviceLostError|` +
	`graph_compute[a-z_]*:? .*failed with error|compute failed|GGML_ASSERT\(`)

// evidence is what is known of the engine that p is about. It may be called by
// the owner alone.
func (o *owner) evidence(p *Problem, before State) trust.Evidence {
	e := trust.Evidence{
		At: p.At, Code: string(p.Code), Message: Scrub(p.Message), State: before.String(), Generation: o.machine.generation,
		Began: o.began, Model: o.facts.model.Name, ModelSHA256: o.facts.model.SHA256, Build: o.facts.version, Flags: o.facts.flags,
		Fingerprint: o.facts.fingerprint, Inputs: p.inputs, Log: make([]string, 0, len(p.Log)),
	}
	if e.At.IsZero() {
		e.At = time.Now().UTC()
	}
	if o.facts.canary != nil && !o.facts.canary.OK() {
		e.Canary = *o.facts.canary
	}
	for _, line := range p.Log {
		e.Log = append(e.Log, Scrub(line))
	}
	return e
}

// quoted is what stands in quotes, which is where programs put what others said.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?|'[^']*'|` + "`[^`]*`")

// maxScrubbed bounds one line, bytes.
const maxScrubbed = 300

// Scrub takes out of a line of a log whatever could be somebody's text: what is
// quoted, what follows the word prompt or content, and whatever no program
// writes of itself, which is anything but ASCII.
func Scrub(line string) string {
	line = quoted.ReplaceAllString(line, "…")
	for _, word := range []string{"prompt", "content", "input"} {
		if i := strings.Index(strings.ToLower(line), word+":"); i >= 0 {
			line = line[:i+len(word)+1] + " …"
		}
	}
	var b strings.Builder
	for _, r := range line {
		if b.Len() >= maxScrubbed {
			b.WriteRune('…')
			break
		}
		if r != '…' && (r > unicode.MaxASCII || unicode.IsControl(r)) {
			if !strings.HasSuffix(b.String(), "…") {
				b.WriteRune('…')
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
