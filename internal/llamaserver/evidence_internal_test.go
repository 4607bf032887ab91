package llamaserver

import (
	"strings"
	"testing"
)

func TestScrub(t *testing.T) {
	for line, want := range map[string]string{
		"0.00.015.766 E srv    load_model: failed to load model, 'fake'":       "0.00.015.766 E srv    load_model: failed to load model, …",
		`slot update: prompt: my secret diary`:                                 "slot update: prompt: …",
		`request body {"input":"my secret","content":"x"}`:                     "request body {…:…,…:…}",
		"온돌은 따뜻하다 n_tokens = 9":                                                "… … n_tokens = 9",
		"an unfinished \"quote with a secret":                                  "an unfinished …",
		"ggml_metal_synchronize: error: command buffer 0 failed with status 5": "ggml_metal_synchronize: error: command buffer 0 failed with status 5",
	} {
		if got := Scrub(line); got != want {
			t.Errorf("Scrub(%q) = %q, want %q", line, got, want)
		}
	}
	if got := Scrub(strings.Repeat("x", 1000)); len(got) > maxScrubbed+len("…") {
		t.Errorf("%d bytes are left of a long line", len(got))
	}
}

func TestAlarms(t *testing.T) {
	for line, want := range map[string]bool{
		"ggml_metal_synchronize: error: command buffer 0 failed with status 5":                            true,
		"error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)":               true,
		"/src/ggml.c:123: GGML_ASSERT(ne0 == ne1) failed":                                                 true,
		"0.01.000.000 E graph_compute: ggml_backend_sched_graph_compute_async failed with error -1":       true,
		"0.00.015.766 I srv    load_model: loading model":                                                 false,
		"warning: no usable GPU found, --gpu-layers option will be ignored":                               false,
		"0.00.000.000 I slot      release: id  1 | task 2 | stop processing: n_tokens = 6, truncated = 0": false,
	} {
		if got := alarms.MatchString(line); got != want {
			t.Errorf("alarm at %q = %v", line, got)
		}
	}
}
