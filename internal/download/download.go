package download

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Config of a Downloader. Zero values mean what is said of them.
type Config struct {
	Idle    time.Duration // longest time without a byte, from the moment of asking; 0 = 30 s
	Tries   int           // in a row that bring nothing; 0 = 8
	Pause   time.Duration // before the second try; doubles to a minute; 0 = 1 s
	Every   time.Duration // between two calls of a progress function; 0 = 250 ms
	Reserve int64         // bytes of the disk that are left to others; 0 = 256 MiB

	Proxy func(*http.Request) (*url.URL, error) // nil = by HTTP_PROXY, HTTPS_PROXY and NO_PROXY
	TLS   *tls.Config                           // nil = the system's roots
	Agent string                                // User-Agent; empty = none of ours

	Free  func(dir string) (int64, error)                  // bytes free for us; nil = asks the file system
	Sleep func(ctx context.Context, d time.Duration) error // nil = sleeps
}

// Request is one file.
type Request struct {
	URL        string // http or https; the redirects it leads to are followed
	Target     string // absolute path
	Size       int64  // bytes; 0 = what the server says
	SHA256     string // lower-case hex; empty only with Unverified
	Unverified bool   // take a file that nobody has a SHA-256 of
	Token      string // bearer token for the host of URL; empty = none

	// Check looks at the whole, verified file before it gets its name. An
	// error throws the file away and is returned. nil = no check.
	Check func(file io.ReaderAt) error
}

// Result is a file that is there.
type Result struct {
	Size    int64  // bytes
	SHA256  string // of the file on the disk, lower-case hex
	Fetched int64  // bytes that came over the network in this call
}

// Downloader fetches files. It has no state of its own but idle connections.
type Downloader struct {
	cfg    Config
	client *http.Client
	random func() float64 // [0,1), of the jitter
	open   func(name string) (file, error)
}

// New checks cfg; it opens nothing.
func New(cfg Config) (*Downloader, error) {
	if cfg.Idle < 0 || cfg.Tries < 0 || cfg.Pause < 0 || cfg.Every < 0 || cfg.Reserve < 0 {
		return nil, errors.New("a limit of a download is negative")
	}
	cfg.Idle = orElse(cfg.Idle, 30*time.Second)
	cfg.Tries = orElse(cfg.Tries, 8)
	cfg.Pause = orElse(cfg.Pause, time.Second)
	cfg.Every = orElse(cfg.Every, 250*time.Millisecond)
	cfg.Reserve = orElse(cfg.Reserve, 256<<20)
	if cfg.Free == nil {
		cfg.Free = freeSpace
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	return &Downloader{cfg: cfg, client: newClient(cfg), random: rand.Float64, open: openFile}, nil
}

func orElse[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// Close drops idle connections.
func (d *Downloader) Close() { d.client.CloseIdleConnections() }

// Fetch brings the file to its target, going on where an earlier call
// stopped. progress may be nil; it is called from Fetch's own goroutine and
// must not block. A target that is there already with the right SHA-256 is a
// success without a request.
//
// Errors: the context's cause; ErrBusy; *ExistsError; ErrNoHash, ErrNoSize,
// ErrRedirect; *HashError, *SizeError, *SpaceError, *StatusError; *GaveUpError;
// that of Check.
func (d *Downloader) Fetch(ctx context.Context, req Request, progress func(Progress)) (Result, error) {
	if err := check(req); err != nil {
		return Result{}, err
	}
	m := newMeter(d.cfg.Every, progress)
	p, err := d.openPartial(req.Target)
	if err != nil {
		return Result{}, err
	}
	defer p.close()
	if result, there, err := present(ctx, req, m); there || err != nil {
		if there && err == nil {
			p.remove()
		}
		return result, err
	}
	j, err := d.begin(req, p, m)
	if err != nil {
		return Result{}, err
	}
	sum, err := d.complete(ctx, j)
	if err != nil {
		return Result{}, err
	}
	if err := p.publish(req.Target); err != nil {
		return Result{}, err
	}
	return Result{Size: j.size, SHA256: sum, Fetched: j.fetched}, nil
}

// complete fills the partial file and verifies it. Where the file was put
// together from several replies, a wrong hash may be the fault of this
// machine (a power cut loses what fsync had not written yet) rather than of
// the server's file: it is then fetched once more, whole.
func (d *Downloader) complete(ctx context.Context, j *job) (string, error) {
	for again := false; ; again = true {
		if err := d.fill(ctx, j); err != nil {
			return "", err
		}
		sum, err := verify(ctx, j)
		_, wrong := errors.AsType[*HashError](err)
		if wrong && j.pieced && !again {
			if err := j.restart(); err != nil {
				return "", err
			}
			j.best = 0
			continue
		}
		if err == nil && j.req.Check != nil {
			err = j.req.Check(j.p.file)
			wrong = err != nil
		}
		if wrong {
			j.p.remove()
		}
		return sum, err
	}
}

// fill asks until all bytes are there.
func (d *Downloader) fill(ctx context.Context, j *job) error {
	for tries := 0; j.size == 0 || j.have < j.size; {
		best := j.best
		err := d.attempt(ctx, j)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, again := errors.AsType[*passing](err); !again {
			return err
		}
		if j.best > best {
			tries = 0
		}
		if tries++; tries >= d.cfg.Tries {
			return &GaveUpError{Tries: tries, Err: err}
		}
		j.meter.wait(j.have, j.size, err)
		if err := d.cfg.Sleep(ctx, d.delay(tries, err)); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// sha is a SHA-256 as it is written here.
var sha = regexp.MustCompile(`^[0-9a-f]{64}$`)

func check(req Request) error {
	u, err := url.Parse(req.URL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return errors.New("download: an http or https address is needed")
	case !filepath.IsAbs(req.Target):
		return errors.New("download: the target must be an absolute path")
	case req.Size < 0:
		return errors.New("download: a size cannot be negative")
	case req.SHA256 == "" && !req.Unverified:
		return ErrNoHash
	case req.SHA256 != "" && !sha.MatchString(req.SHA256):
		return fmt.Errorf("download: %q is no SHA-256", req.SHA256)
	}
	return nil
}

// present looks for the target. A file of that name is the file asked for when
// its hash says so; otherwise it is somebody's and stays.
func present(ctx context.Context, req Request, m *meter) (Result, bool, error) {
	info, err := os.Lstat(req.Target)
	if errors.Is(err, os.ErrNotExist) {
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, false, fmt.Errorf("look at target: %w", err)
	}
	if !info.Mode().IsRegular() || req.SHA256 == "" || (req.Size != 0 && info.Size() != req.Size) {
		return Result{}, false, &ExistsError{Path: req.Target}
	}
	f, err := os.Open(req.Target)
	if err != nil {
		return Result{}, false, fmt.Errorf("open target: %w", err)
	}
	defer f.Close()
	sum, err := hash(ctx, f, info.Size(), m)
	if err != nil {
		return Result{}, false, err
	}
	if sum != req.SHA256 {
		return Result{}, false, &ExistsError{Path: req.Target}
	}
	return Result{Size: info.Size(), SHA256: sum}, true, nil
}
