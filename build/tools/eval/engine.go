package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/vector"
)

// engine is a llama-server of our own for the length of the run. Without one,
// words alone are measured and tokens are counted as words.
type engine struct {
	client      *llamaclient.Client
	fingerprint string
	dim         int
}

// startEngine starts llama-server with the starter profile's flags and waits
// until it is ready. stop ends it.
func startEngine(ctx context.Context, server, model, dir string) (e engine, stop func(), err error) {
	socket := filepath.Join(dir, "engine.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier run that kept the folder
		return e, nil, err
	}
	cmd := exec.Command(server, "-m", model, "--host", socket, "--api-key", "eval",
		"--embeddings", "-ngl", "34", "-c", "32768", "-b", "8192", "-ub", "8192", "-np", "4")
	log, err := os.Create(filepath.Join(dir, "engine.log"))
	if err != nil {
		return e, nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return e, nil, errors.Join(fmt.Errorf("start llama-server: %w", err), log.Close())
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() // how it ended is in its log
		close(ended)
	}()
	stop = func() {
		if cmd.Process.Kill() == nil {
			<-ended
		}
		log.Close()
	}
	e.client, err = llamaclient.New(llamaclient.Config{Socket: socket, APIKey: "eval"})
	for err == nil && e.client.Health(ctx) != nil {
		select {
		case <-ended:
			err = fmt.Errorf("llama-server ended; its log is %s", log.Name())
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err == nil {
		var meta llamaclient.ModelMeta
		meta, err = e.client.ModelMeta(ctx)
		e.dim, e.fingerprint = meta.Dim, filepath.Base(model)
	}
	if err != nil {
		stop()
		return e, nil, err
	}
	return e, stop, nil
}

func (e engine) embed(ctx context.Context, texts []string) ([][]float32, error) {
	const batch = 32
	var all [][]float32
	for len(texts) > 0 {
		n := min(batch, len(texts))
		reply, err := e.client.Embed(ctx, texts[:n], vector.Expect{Count: n, Dim: e.dim, Normalized: true})
		if err != nil {
			return nil, err
		}
		all, texts = append(all, reply.Vectors...), texts[n:]
	}
	return all, nil
}

// EmbedQuery is what search asks for.
func (e engine) EmbedQuery(ctx context.Context, text string) ([]float32, string, error) {
	if e.client == nil {
		return nil, "", errors.New("no engine in this run")
	}
	vectors, err := e.embed(ctx, []string{text})
	if err != nil {
		return nil, "", err
	}
	return vectors[0], e.fingerprint, nil
}

func (e engine) count(ctx context.Context) func(texts []string) ([]int, error) {
	return func(texts []string) ([]int, error) {
		if e.client != nil {
			return e.client.CountTokens(ctx, texts)
		}
		counts := make([]int, len(texts))
		for i, t := range texts {
			counts[i] = len(strings.Fields(t)) + 2
		}
		return counts, nil
	}
}
