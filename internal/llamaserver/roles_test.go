package llamaserver_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ondol-app/ondol/build/tools/tinymodels"
	"github.com/ondol-app/ondol/internal/enginetest"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/upstream"
)

func roleConfig(t *testing.T, model string, role upstream.Role) llamaserver.Config {
	t.Helper()
	config := realConfig(t, model, "starter")
	profile, err := llamaserver.RoleProfile(role)
	if err != nil {
		t.Fatal(err)
	}
	config.Profile = profile
	return config
}

func TestRerankRole(t *testing.T) {
	model := filepath.Join(t.TempDir(), "reranker.gguf")
	if err := tinymodels.WriteReranker(model); err != nil {
		t.Fatal(err)
	}
	s := run(t, roleConfig(t, model, upstream.RoleRerank))
	status := await(t, s, "ready", in(llamaserver.Ready))
	if status.Profile != "rerank" || status.Model.Dimension != 0 || !status.Probe.OK {
		t.Errorf("status = %+v", status)
	}
	instance, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := instance.Client.Rerank(t.Context(), "anything", []string{"bad bad", "plain", "good good"})
	if err != nil {
		t.Fatal(err)
	}
	if s := reply.Scores; len(s) != 3 || s[2] <= s[1] || s[1] <= s[0] || reply.Tokens == 0 {
		t.Errorf("reply = %+v, want rising scores", reply)
	}
	if busy, err := instance.Client.Busy(t.Context()); err != nil || busy != 0 {
		t.Errorf("busy slots = %d, %v", busy, err)
	}
}

func TestChatRole(t *testing.T) {
	model := filepath.Join(t.TempDir(), "talker.gguf")
	if err := tinymodels.WriteTalker(model); err != nil {
		t.Fatal(err)
	}
	s := run(t, roleConfig(t, model, upstream.RoleChat))
	await(t, s, "ready", in(llamaserver.Ready))
	instance, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	if instance.Slots != 1 {
		t.Errorf("slots = %d", instance.Slots)
	}
	response, err := instance.Client.Stream(t.Context(), "/v1/chat/completions",
		[]byte(`{"messages":[{"role":"user","content":"x"}],"max_tokens":4}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := upstream.ReadAll(response, 1<<20)
	if err != nil || !strings.Contains(string(body), `"abcd"`) {
		t.Errorf("reply = %s, %v", body, err)
	}
}

// An embedding model would pass for a reranker with scores that mean nothing.
func TestModelOfAnotherRole(t *testing.T) {
	s := run(t, roleConfig(t, enginetest.StarterModel(t), upstream.RoleRerank))
	status := await(t, s, "failed", in(llamaserver.Failed))
	if p := status.LastError; p == nil || p.Code != llamaserver.CodeModelInvalid || !strings.Contains(p.Message, "no reranker") || status.RetryAt != nil {
		t.Errorf("status = %+v, problem = %v", status, p)
	}
}
