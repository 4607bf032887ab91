package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/relay"
	"github.com/ondol-app/ondol/internal/remote"
	"github.com/ondol-app/ondol/internal/trust"
	"github.com/ondol-app/ondol/internal/upstream"
)

// localEngine is our llama-server as a relay and the status see it.
type localEngine struct{ *llamaserver.Server }

func (e localEngine) Current() (relay.Instance, error) {
	now, err := e.Server.Current()
	if err != nil {
		return relay.Instance{}, notReady(err)
	}
	return relay.Instance{Generation: now.Generation, Client: now.Client, Model: now.ModelName}, nil
}

func (e localEngine) tell(status *control.RoleStatus) { tellLocal(e.Snapshot(), status) }

func tellLocal(now llamaserver.Status, status *control.RoleStatus) {
	status.State, status.Since, status.Model, status.RetryAt = now.State.String(), now.Since, now.Model.Name, now.RetryAt
	if p := now.LastError; p != nil {
		status.Problem = &control.RoleProblem{Code: string(p.Code), Message: p.Message, At: p.At}
	}
}

// remoteEngine is somebody else's engine as a relay and the status see it.
type remoteEngine struct{ *remote.Engine }

func (e remoteEngine) Current() (relay.Instance, error) {
	now, err := e.Engine.Current()
	if err != nil {
		return relay.Instance{}, notReady(err)
	}
	return relay.Instance{Generation: now.Generation, Client: now.Client, Model: now.Model}, nil
}

func (e remoteEngine) tell(status *control.RoleStatus) { tellRemote(e.Snapshot(), status) }

func tellRemote(now remote.Status, status *control.RoleStatus) {
	status.State, status.Since, status.Model, status.RetryAt = now.State.String(), now.Since, now.Model, now.RetryAt
	status.URL, status.Outside, status.Plain = now.URL, now.Outside, now.Plain
	if p := now.LastError; p != nil {
		status.Problem = &control.RoleProblem{Code: string(p.Code), Message: p.Message, At: p.At}
	}
}

// notReady gives an engine's refusal, ours or a remote's, the form the doors know.
func notReady(err error) error {
	if starting, ok := errors.AsType[*llamaserver.NotReadyError](err); ok {
		return &upstream.UnavailableError{
			State: starting.State.String(), RetryAfter: starting.RetryAfter,
			Final: starting.Final, Err: err,
		}
	}
	if away, ok := errors.AsType[*remote.NotReadyError](err); ok {
		return &upstream.UnavailableError{State: away.State.String(), RetryAfter: away.RetryAfter, Err: err}
	}
	return err
}

// embedder is what embeds: our llama-server, or somebody else's engine that
// looks like one to those who watch it.
type embedder interface {
	control.Engine
	Run(ctx context.Context) error
	Changed() (changed <-chan struct{}, stop func())
}

// remoteEmbedder is somebody else's engine in the place of our llama-server.
type remoteEmbedder struct{ *remote.Engine }

var remoteStates = map[remote.State]llamaserver.State{
	remote.Stopped: llamaserver.Stopped, remote.Checking: llamaserver.Checking, remote.Ready: llamaserver.Ready,
	remote.Unreachable: llamaserver.Failed, remote.Refused: llamaserver.Failed,
}

func (e remoteEmbedder) Snapshot() llamaserver.Status {
	now := e.Engine.Snapshot()
	status := llamaserver.Status{
		State: remoteStates[now.State], Cause: llamaserver.CauseProgress, Since: now.Since, Generation: now.Generation,
		Profile: now.Kind.String(), Flags: []string{}, Fingerprint: now.Fingerprint, RetryAt: now.RetryAt,
		Model: llamaserver.Model{Name: now.Model, Dimension: now.Dimension},
		Probe: llamaserver.Probe{OK: now.State == remote.Ready},
	}
	if p := now.LastError; p != nil {
		status.LastError = &llamaserver.Problem{Code: llamaserver.Code(p.Code), Message: p.Message, At: p.At}
	}
	if status.State == llamaserver.Failed {
		status.Cause = llamaserver.CauseProblem
	}
	return status
}

// recheckWait is how long a wish to look again waits for the owner: when it is
// looking just now, the wish is fulfilled.
const recheckWait = time.Second

func (e remoteEmbedder) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recheckWait)
	defer cancel()
	if err := e.Recheck(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func (e remoteEmbedder) Restart(ctx context.Context) error { return e.Start(ctx) }

func (e remoteEmbedder) Stop(context.Context) error { return notOurs() }

func (e remoteEmbedder) LogTail(int) ([]string, error) { return nil, notOurs() }

func notOurs() error {
	return &control.Error{Status: http.StatusConflict, Code: control.CodeEngineRemote,
		Message: "the embedding engine is run by others", Remedy: "look where it runs, or set roles.embed.kind to local", Args: map[string]string{"role": "embed"}}
}

// remoteForDoor is a remote engine as the embedding door sees it.
type remoteForDoor struct{ *remote.Engine }

func (e remoteForDoor) Replace(ctx context.Context, generation uint64, fault trust.Fault) error {
	return e.Engine.Replace(ctx, generation, fault.Cause)
}

// Wake does nothing: an engine that others run never sleeps for us.
func (e remoteForDoor) Wake() {}

// End is not known: nobody tells how an engine that others run has ended.
func (e remoteForDoor) End(uint64) trust.End { return trust.EndUnknown }

func (e remoteForDoor) Current() (embedding.Instance, error) {
	now, err := e.Engine.Current()
	if err != nil {
		return embedding.Instance{}, notReady(err)
	}
	return embedding.Instance{
		Generation: now.Generation, Client: now.Client, Model: now.Model, Dim: now.Dim,
		Fingerprint: now.Fingerprint, Unnormalized: now.Unnormalized,
	}, nil
}

// Borrow is Current: nothing takes a remote engine's place while the app runs.
func (e remoteForDoor) Borrow() (embedding.Instance, func(), error) {
	instance, err := e.Current()
	return instance, func() {}, err
}
