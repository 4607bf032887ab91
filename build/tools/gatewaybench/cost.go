package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ondol-app/ondol/internal/admission"
	"github.com/ondol-app/ondol/internal/embedding"
	"github.com/ondol-app/ondol/internal/gateway"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trust"
)

// counted reads what the running app spends on a request: allocations from its
// own /metrics, processor time from the system, before and after requests. It
// is the app as it is, its other work included. Processor time tells what the
// gateway adds even where other work on the machine blurs every latency.
func (s subject) counted(ctx context.Context, a *app, gateway side, o options, r *report) error {
	const mallocs, bytes = "go_memstats_mallocs_total", "go_memstats_alloc_bytes_total"
	random := rand.New(rand.NewPCG(3, 0))
	for _, encoding := range []string{"float", "base64"} {
		before := a.metrics(ctx, gateway.client)
		worked, _ := a.worked()
		for range o.requests / 2 {
			if _, _, err := gateway.ask(ctx, requestBody(random, encoding)); err != nil {
				return err
			}
		}
		until, told := a.worked()
		after := a.metrics(ctx, gateway.client)
		figures := encoding + ":"
		n := float64(o.requests / 2)
		if before[mallocs] > 0 {
			figures += fmt.Sprintf(" %.0f allocations, %.0f bytes,", (after[mallocs]-before[mallocs])/n, (after[bytes]-before[bytes])/n)
		} else {
			figures += " allocations unknown (no /metrics in this build),"
		}
		if told {
			figures += " processor time " + us((until-worked)/time.Duration(o.requests/2))
		}
		r.note("the running app, a request", "%s", figures)
	}
	return nil
}

// cost counts the allocations of one request in this process, which puts the
// gateway, the door, the gate and the engine's client together as the app
// does, without a cache, on a real socket before a real engine. Every
// allocation is counted: those of net/http on both sides too. The client
// here writes and reads a connection without allocating.
func (s subject) cost(ctx context.Context, o options, dir string, r *report) error {
	e, err := startEngine(ctx, o, dir, s.model, s.profile, true)
	if err != nil {
		return err
	}
	defer e.stop()
	client, err := llamaclient.New(llamaclient.Config{Socket: e.socket})
	if err != nil {
		return err
	}
	defer client.Close()
	instance := embedding.Instance{Generation: 1, Client: client, Model: s.name, Dim: s.dim, MaxTokens: 4096, BatchTokens: 4096, Fingerprint: s.name}
	gate, err := admission.NewGate(admission.DefaultLimits())
	if err != nil {
		return err
	}
	door, err := embedding.New(embedding.Config{Gate: gate, Engine: fixed(instance)})
	if err != nil {
		return err
	}
	front, err := gateway.New(gateway.Config{Embedder: door, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := front.Listen(); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(running)
	for _, run := range []func(context.Context) error{gate.Run, door.Run, front.Run} {
		group.Go(func() error { return run(running) })
	}
	err = profiled(profilePath(o.profile, s.dim), func() error {
		for _, encoding := range []string{"float", "base64"} {
			if err := allocations(front.Address(), encoding, o.requests/2, r); err != nil {
				return err
			}
		}
		return nil
	})
	stop()
	return errors.Join(err, group.Wait())
}

// fixed is an engine that stays as it is.
type fixed embedding.Instance

func (f fixed) Current() (embedding.Instance, error) { return embedding.Instance(f), nil }

func (f fixed) Borrow() (embedding.Instance, func(), error) {
	return embedding.Instance(f), func() {}, nil
}

func (fixed) Wake() {}

func (fixed) End(uint64) trust.End { return trust.EndUnknown }

func (f fixed) Changed() (<-chan struct{}, func()) { return nil, func() {} }

func (f fixed) Replace(context.Context, uint64, trust.Fault) error {
	return errors.New("the engine of this measurement is not replaced")
}

func profilePath(path string, dim int) string {
	if path == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(path), strconv.Itoa(dim)+"-"+filepath.Base(path))
}

// profiled runs f, under a CPU profile when path is not empty.
func profiled(path string, f func() error) error {
	if path == "" {
		return f()
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}

func allocations(address, encoding string, n int, r *report) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := newPlain(conn, encoding)
	for range 50 {
		if err := p.exchange(); err != nil {
			return err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for range n {
		if err := p.exchange(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	r.note("gateway to engine, a request", "%s: %d allocations, %d bytes, %s (in this process, no cache)", encoding,
		(after.Mallocs-before.Mallocs)/uint64(n), (after.TotalAlloc-before.TotalAlloc)/uint64(n), ms(took/time.Duration(n)))
	return nil
}

// plain is a client that allocates nothing: it changes the number in one
// prepared request and reads replies into one buffer.
type plain struct {
	conn    net.Conn
	request []byte
	number  []byte // the digits of request
	buffer  []byte
}

func newPlain(conn net.Conn, encoding string) *plain {
	body := requestBody(rand.New(rand.NewPCG(4, 0)), encoding)
	request := fmt.Appendf(nil, "POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	end := len(request) - len(`"}`)
	return &plain{conn: conn, request: request, number: request[end-9 : end], buffer: make([]byte, 256<<10)}
}

var (
	headerEnd     = []byte("\r\n\r\n")
	statusOK      = []byte("HTTP/1.1 200 ")
	contentLength = []byte("\r\nContent-Length: ")
)

func (p *plain) exchange() error {
	for i := len(p.number) - 1; i >= 0; i-- {
		if p.number[i]++; p.number[i] <= '9' {
			break
		}
		p.number[i] = '0'
	}
	if _, err := p.conn.Write(p.request); err != nil {
		return err
	}
	read := 0
	for {
		n, err := p.conn.Read(p.buffer[read:])
		if err != nil {
			return err
		}
		read += n
		reply := p.buffer[:read]
		if end := bytes.Index(reply, headerEnd); end >= 0 {
			length, ok := lengthOf(reply[:end+2])
			switch whole := end + len(headerEnd) + length; {
			case !ok || !bytes.HasPrefix(reply, statusOK):
				return fmt.Errorf("the gateway answers %q", reply[:end])
			case read == whole:
				return nil
			case read > whole || whole > len(p.buffer):
				return io.ErrShortBuffer
			}
		}
	}
}

// lengthOf reads the Content-Length of a header.
func lengthOf(header []byte) (n int, ok bool) {
	at := bytes.Index(header, contentLength)
	if at < 0 {
		return 0, false
	}
	for _, c := range header[at+len(contentLength):] {
		if c < '0' || c > '9' {
			return n, c == '\r'
		}
		n = 10*n + int(c-'0')
	}
	return 0, false
}
