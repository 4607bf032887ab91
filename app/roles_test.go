package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/build/tools/tinymodels"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/upstream"
)

// post sends a body and returns the reply's status and text.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func roleOf(t *testing.T, h *home, name upstream.Role) control.RoleStatus {
	t.Helper()
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Roles {
		if r.Role == name {
			return r
		}
	}
	t.Fatalf("no role %s in %+v", name, status.Roles)
	return control.RoleStatus{}
}

func roleReady(t *testing.T, h *home, name upstream.Role) control.RoleStatus {
	t.Helper()
	var role control.RoleStatus
	within(t, patience, "a ready "+name.String()+" engine", func() error {
		if role = roleOf(t, h, name); role.State != "ready" {
			return fmt.Errorf("it is %s (%+v)", role.State, role.Problem)
		}
		return nil
	})
	return role
}

// without returns env without the variables of those names.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

// TestRoles runs an app with an engine for each role, and two more apps that
// use the first as somebody else's server, in either dialect.
func TestRoles(t *testing.T) {
	h := newHome(t)
	models := t.TempDir()
	reranker, talker := filepath.Join(models, "tiny-reranker.gguf"), filepath.Join(models, "tiny-talker.gguf")
	for path, create := range map[string]func(string) error{reranker: tinymodels.WriteReranker, talker: tinymodels.WriteTalker} {
		if err := create(path); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(h.dir, "settings.toml"), fmt.Sprintf(
		"[roles.rerank]\nkind = \"local\"\nmodel = %q\n[roles.chat]\nkind = \"local\"\nmodel = %q\n", reranker, talker))
	r := h.serve(t)
	status, err := h.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	base := status.Endpoint

	part(t, "rerank", func(t *testing.T) {
		role := roleReady(t, h, upstream.RoleRerank)
		if role.Kind != "local" || role.Model != "tiny-reranker" || role.Admission.Limits.Executing != 1 || role.Outside {
			t.Errorf("role = %+v", role)
		}
		code, text := post(t, base+"/rerank", `{"query":"q","documents":["bad","good","plain"],"top_n":2}`)
		var reply struct {
			Results []struct {
				Index int     `json:"index"`
				Score float64 `json:"relevance_score"`
			}
		}
		if code, out, _ := h.ondol(t, "status"); code != 0 || !strings.Contains(out, "Reranking") || !strings.Contains(out, "tiny-reranker") {
			t.Errorf("status: exit %d\n%s", code, out)
		}
		if err := json.Unmarshal([]byte(text), &reply); err != nil || code != 200 || len(reply.Results) != 2 || reply.Results[0].Index != 1 || reply.Results[1].Index != 2 {
			t.Errorf("%d %s", code, text)
		}
	})
	part(t, "chat", func(t *testing.T) {
		roleReady(t, h, upstream.RoleChat)
		resp, err := http.Post(base+"/chat/completions", "application/json",
			strings.NewReader(`{"model":"tiny-talker","stream":true,"max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var events []string
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				events = append(events, data)
			}
		}
		if resp.StatusCode != 200 || len(events) < 5 || events[len(events)-1] != "[DONE]" || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%d %v %q", resp.StatusCode, resp.Header, events)
		}
		within(t, patience, "an idle chat gate", func() error {
			if role := roleOf(t, h, upstream.RoleChat); role.Admission.Executing+role.Admission.Draining != 0 || role.Admission.Totals["served"] != 1 {
				return fmt.Errorf("%+v", role.Admission)
			}
			return nil
		})
	})
	for _, kind := range []string{"openai", "ollama"} {
		part(t, "another app as "+kind, func(t *testing.T) { remoteApp(t, h, kind, strings.TrimSuffix(base, "/v1")) })
	}
	if err := r.stop(); err != nil {
		t.Errorf("the app ended with %v", err)
	}
}

// remoteApp serves embedding by the endpoint of the first app.
func remoteApp(t *testing.T, first *home, kind, url string) {
	far := newHome(t)
	far.env = without(far.env, "ONDOL_MODEL", "ONDOL_PROFILE", "ONDOL_LLAMA_SERVER")
	model := roleOf(t, first, upstream.RoleEmbed).Model
	write(t, filepath.Join(far.dir, "settings.toml"), fmt.Sprintf("[roles.embed]\nkind = %q\nurl = %q\nmodel = %q\n", kind, url, model))
	r := far.serve(t)
	role := roleOf(t, far, upstream.RoleEmbed)
	if role.Kind != kind || role.Model != model || role.Outside || !strings.HasPrefix(role.URL, url) {
		t.Errorf("role = %+v", role)
	}
	status, err := far.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if code, out, _ := far.ondol(t, "status"); code != 0 || !strings.Contains(out, model+" at "+url) {
		t.Errorf("status does not say where texts go: exit %d\n%s", code, out)
	}
	if _, err := far.client.StopEngine(t.Context()); err == nil || !strings.Contains(err.Error(), "roles.embed.kind") {
		t.Errorf("stopping somebody else's engine: %v", err)
	}
	body := `{"input":["cats and dogs","a warm floor"],"model":"` + model + `"}`
	var vectors [2][][]float64
	for i, base := range []string{url + "/v1", status.Endpoint} {
		code, text := post(t, base+"/embeddings", body)
		var reply struct {
			Data []struct{ Embedding []float64 }
		}
		if err := json.Unmarshal([]byte(text), &reply); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", base, code, text)
		}
		for _, item := range reply.Data {
			vectors[i] = append(vectors[i], item.Embedding)
		}
	}
	for i, near := range vectors[0] {
		for k, x := range near {
			if math.Abs(x-vectors[1][i][k]) > 1e-6 {
				t.Fatalf("vector %d component %d: %v directly, %v through two apps", i, k, x, vectors[1][i][k])
			}
		}
	}
	// A folder is indexed and found by the remote's vectors too.
	folder := filepath.Join(t.TempDir(), "notes")
	write(t, filepath.Join(folder, "garage.md"), "# Workshop\n\nThe automobile repair manual explains brakes, engines and gearboxes.\n")
	if code, out, errOut := far.ondol(t, "folders", "add", folder, "--wait", "--json"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	if _, names := results(t, far, "gearboxes"); len(names) != 1 || names[0] != "garage.md" {
		t.Errorf("search finds %v", names)
	}
	if embedded(t, far) == 0 {
		t.Error("nothing was embedded")
	}
	if err := r.stop(); err != nil {
		t.Errorf("the app ended with %v", err)
	}
}
