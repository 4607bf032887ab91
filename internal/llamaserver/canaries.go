package llamaserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/vector"
)

// References keeps what engines answer when they are well.
type References interface {
	Reference(ctx context.Context, fingerprint string) (*trust.Reference, error) // nil = none
	SaveReference(ctx context.Context, fingerprint string, ref *trust.Reference) error
}

// OneAtATime says that vectors are right only one at a time, and how that showed.
type OneAtATime struct {
	Since  time.Time `json:"since"`
	Text   string    `json:"text"`   // the canary that was wrong together with others
	Detail string    `json:"detail"` // "cosine 0.991", or the reason of an invalid vector
}

// canaries are what one engine is measured with. Constant, but for what the
// owner replaces as a whole.
type canaries struct {
	texts     []canary.Text
	embed     canary.Embed
	reference *trust.Reference // nil = none
	pairs     bool
	aloneOnly bool
}

// What canaries may take, about: before ready, and beside requests. A slow
// engine has fewer texts before it is ready, and the rest with the next check;
// one that is slower still is never given the longest.
const (
	startBudget = 10 * time.Second
	checkBudget = time.Minute
)

func (c *canaries) run(ctx context.Context, turn canary.Turn, budget time.Duration) (canary.Result, error) {
	return canary.Run(ctx, canary.Config{
		Embed: c.embed, Texts: c.texts, Reference: c.reference, Pairs: c.pairs, AloneOnly: c.aloneOnly, Turn: turn, Budget: budget,
	})
}

// errMoved says that the engine to be checked is not there any more.
var errMoved = errors.New("the engine is another one by now")

// Recheck runs the canaries on the ready engine of that generation, each step
// when turn lets it, and notes the result in Status. It ends nothing: who gets
// a result that failed gives the engine up. An error means that nothing was
// found out. Runs do not overlap.
func (s *Server) Recheck(ctx context.Context, generation uint64, turn canary.Turn) (canary.Result, error) {
	select {
	case s.checking <- struct{}{}:
		defer func() { <-s.checking }()
	case <-ctx.Done():
		return canary.Result{}, context.Cause(ctx)
	}
	i, err := s.Current()
	if err == nil && i.Generation != generation {
		err = errMoved
	}
	if err == nil && i.canaries == nil {
		err = fmt.Errorf("check engine: the role %s has no canaries", s.config.Role)
	}
	if err != nil {
		return canary.Result{}, err
	}
	c := *i.canaries
	c.embed = func(ctx context.Context, inputs []string) ([][]float32, error) {
		// Whoever asked may leave; the call is finished, because hanging up
		// frees no slot.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.ProbeTimeout)
		defer cancel()
		return i.canaries.embed(ctx, inputs)
	}
	result, err := c.run(ctx, turn, checkBudget)
	if err != nil {
		return canary.Result{}, fmt.Errorf("check engine: %w", err)
	}
	return result, s.send(ctx, request{event: event{kind: eventNone}, generation: generation, result: &result})
}

// embedder is how canaries are embedded.
func embedder(client *llamaclient.Client, want vector.Expect) canary.Embed {
	return func(ctx context.Context, inputs []string) ([][]float32, error) {
		reply, err := client.Embed(ctx, inputs, want)
		return reply.Vectors, err
	}
}

// measure runs the canaries on an engine that nobody uses yet. Without a
// reference its answers become one.
func (e *engine) measure(ctx context.Context, i *Instance, client *llamaclient.Client) (canary.Result, error) {
	texts, err := canary.Texts(ctx, client.CountTokens, i.MaxTokens)
	if err != nil {
		return canary.Result{}, err
	}
	want := vector.Expect{Dim: i.Dim, Normalized: i.Normalized}
	i.canaries = &canaries{
		texts: texts, embed: embedder(client, want), pairs: e.config.Concurrency > 1 && i.Slots > 1, aloneOnly: e.aloneOnly,
		reference: e.reference(ctx, i.Fingerprint),
	}
	result, err := i.canaries.run(ctx, nil, startBudget)
	if err != nil || !result.OK() && result.Code != canary.Together {
		return result, err
	}
	i.Probe = result.Vectors[0]
	i.OneAtATime = e.aloneOnly || result.Code == canary.Together
	if i.canaries.reference == nil {
		kind := trust.ReferenceSelf
		if withoutGPU(e.config.Profile.Flags) || e.log.sawNoGPU() {
			kind = trust.ReferenceCPU
		}
		i.canaries.reference = result.AsReference(kind, texts)
		e.save(ctx, i.Fingerprint, i.canaries.reference)
		result = result.Against(i.canaries.reference, texts)
	}
	return result, nil
}

// reference is the stored one; what cannot be read is none.
func (e *engine) reference(ctx context.Context, fingerprint string) *trust.Reference {
	if e.config.References == nil {
		return nil
	}
	ref, err := e.config.References.Reference(ctx, fingerprint)
	if err != nil && ctx.Err() == nil {
		e.config.Logger.Error("canary reference cannot be read", "error", err)
	}
	return ref
}

func (e *engine) save(ctx context.Context, fingerprint string, ref *trust.Reference) {
	if e.config.References == nil {
		return
	}
	if err := e.config.References.SaveReference(ctx, fingerprint, ref); err != nil && ctx.Err() == nil {
		e.config.Logger.Error("canary reference cannot be stored", "error", err)
	}
}

// canaryProblem is why an engine whose canaries failed is not used.
func canaryProblem(result canary.Result) *Problem {
	detail := "its vector is not the one it used to be"
	switch {
	case result.Reason != "":
		detail = "its vector is not valid (" + result.Reason.String() + ")"
	case result.Code == canary.Drift && result.MinReference != nil:
		detail = fmt.Sprintf("its vector has cosine %.4f to the reference (%s), %.3f is needed", *result.MinReference, result.Reference, canary.MinCosine)
	}
	return problem(Code(result.Code), "the canary %s fails: %s", result.Text, detail)
}

// apart is what a failure together says about the engine.
func apart(result canary.Result) *OneAtATime {
	detail := result.Reason.String()
	if detail == "" && result.MinTogether != nil {
		detail = fmt.Sprintf("cosine %.4f", *result.MinTogether)
	}
	return &OneAtATime{Since: result.At, Text: result.Text, Detail: detail}
}
