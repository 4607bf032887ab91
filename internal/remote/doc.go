// Package remote serves a role by an engine that somebody else runs: an Ollama,
// or any server of OpenAI's dialect (another Mac's Ondol or llama-server, vLLM,
// TEI). It stands where llamaserver stands for an engine of our own, behind
// the same gate and the same checks.
//
// Only the composition root builds an Engine; surfaces see its Status.
//
// Guarantees:
//   - nothing leaves the machine unless its owner wrote the address into the
//     settings: that is the consent, Status.Outside shows it, http to another
//     machine needs a second one, no redirect is followed and no proxy of the
//     environment is used;
//   - the key comes from the keychain when it is needed, and stands in no
//     setting, log, error or status;
//   - ready means that the role's probe was answered right by this very model:
//     two valid vectors, two sensible scores, or (chat, where a completion may
//     cost money) a list of models that does not lack ours;
//   - vectors and scores are judged as an own engine's are: null is no number,
//     and a reply of the wrong count, order or dimension is no reply;
//   - what a remote cannot tell is unknown, not guessed: where it counts no
//     tokens, the longest input is 0 and its own refusal speaks;
//   - Snapshot, Current and Changed never wait; one goroutine, Run's, owns the
//     state and asks an unreachable engine again with a growing back-off.
//
// A remote's work cannot be ended from here: Replace closes the connections and
// looks at the engine anew before anybody is sent there again.
package remote
