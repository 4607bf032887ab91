package download

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// job is one call of Fetch. Only its goroutine touches it.
type job struct {
	req   Request
	p     *partial
	meter *meter

	state   state
	have    int64 // bytes in the partial file
	size    int64 // of the whole; 0 = not known yet
	best    int64 // highest have so far: progress is what goes beyond it
	fetched int64 // bytes received
	pieced  bool  // the bytes are of more than one reply
	whole   bool  // ask for the whole file next: ranges were not to be trusted
}

// begin finds out what of the file is there and whether the rest fits.
func (d *Downloader) begin(req Request, p *partial, m *meter) (*job, error) {
	j := &job{req: req, p: p, meter: m, size: req.Size}
	info, err := p.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at partial file: %w", err)
	}
	s, ok := p.load()
	if j.have = info.Size(); j.have > 0 && (!ok || !belongs(req, s, j.have)) {
		if err := j.restart(); err != nil {
			return nil, err
		}
	}
	if j.have > 0 {
		j.state, j.size, j.pieced = s, s.Size, true
		if s.URL != req.URL {
			j.state.ETag, j.state.LastModified = "", "" // those of another server
		}
	}
	j.best = j.have
	if j.size > 0 {
		return j, d.room(j)
	}
	return j, nil
}

// belongs reports whether have bytes, described by s, are the beginning of
// what is asked for. With a hash they may come from another address, such as a
// mirror: the whole is verified. Without one, only the validators of one
// address can tell.
func belongs(req Request, s state, have int64) bool {
	switch {
	case s.SHA256 != req.SHA256, s.Size < have, req.Size != 0 && s.Size != req.Size:
		return false
	case req.SHA256 != "":
		return true
	}
	return s.URL == req.URL && s.validator() != ""
}

// restart empties the partial file. What was there before stays the mark that
// progress has to pass, so that a server cannot keep us busy for ever.
func (j *job) restart() error {
	if err := j.p.file.Truncate(0); err != nil {
		return fmt.Errorf("empty partial file: %w", err)
	}
	j.have, j.pieced, j.whole, j.state = 0, false, false, state{}
	j.size = j.req.Size
	return nil
}

// attempt makes one request and takes what it brings. nil means that all bytes
// are there.
func (d *Downloader) attempt(parent context.Context, j *job) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	idle := time.AfterFunc(d.cfg.Idle, func() { cancel(ErrStalled) })
	defer idle.Stop()

	request, err := d.request(ctx, j)
	if err != nil {
		return err
	}
	resp, err := d.client.Do(request)
	if err != nil {
		return fault(ctx, err)
	}
	defer resp.Body.Close()
	k := known{have: j.have, size: j.size, pinned: j.req.Size != 0, state: j.state}
	if j.whole {
		k.have = 0
	}
	what, size, err := judge(k, resp)
	if s, ok := errors.AsType[*StatusError](err); ok {
		if s.Origin = sameOrigin(request.URL, resp.Request.URL); !s.Origin && s.Status != http.StatusNotFound {
			return &passing{err} // an address of the storage that ran out; the hub gives a new one
		}
	}
	if err != nil {
		j.whole = j.whole || errors.Is(err, ErrLied) || errors.Is(err, ErrChanged)
		return err
	}
	if what == complete {
		j.size = size
		return nil
	}
	if err := d.ready(j, what, size, resp.Header); err != nil {
		return err
	}
	return d.receive(ctx, j, resp.Body, idle)
}

func (d *Downloader) request(ctx context.Context, j *job) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, j.req.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Accept-Encoding", "identity")
	if d.cfg.Agent != "" {
		request.Header.Set("User-Agent", d.cfg.Agent)
	}
	if j.req.Token != "" {
		request.Header.Set("Authorization", "Bearer "+j.req.Token)
	}
	if j.have > 0 && !j.whole {
		request.Header.Set("Range", "bytes="+strconv.FormatInt(j.have, 10)+"-")
		if v := j.state.validator(); v != "" {
			request.Header.Set("If-Range", v)
		}
	}
	return request, nil
}

// ready makes the partial file fit the reply that is about to be read.
func (d *Downloader) ready(j *job, what step, size int64, h http.Header) error {
	if what == fromStart {
		// Emptied before the new state is written: a crash in between leaves
		// nothing that could be taken for the beginning of another file.
		if err := j.restart(); err != nil {
			return err
		}
	} else {
		j.pieced = true
	}
	j.size = size
	if err := d.room(j); err != nil {
		return err
	}
	next := state{URL: j.req.URL, Size: size, SHA256: j.req.SHA256, ETag: strong(h.Get("ETag")), LastModified: h.Get("Last-Modified")}
	if next == j.state {
		return nil
	}
	j.state = next
	return d.wrote(j, j.p.save(next))
}

// bufferSize is one read and write, bytes.
const bufferSize = 256 << 10

// receive writes the body behind what is there.
func (d *Downloader) receive(ctx context.Context, j *job, body io.Reader, idle *time.Timer) error {
	buffer := make([]byte, bufferSize)
	j.meter.download(j.have, j.size)
	for {
		n, readErr := body.Read(buffer)
		if n > 0 {
			idle.Reset(d.cfg.Idle)
			if int64(n) > j.size-j.have {
				// More than the file has: which bytes are wrong is not to be known.
				if err := j.restart(); err != nil {
					return err
				}
				return &passing{ErrLied}
			}
			written, err := j.p.file.WriteAt(buffer[:n], j.have)
			j.have += int64(written)
			j.fetched += int64(written)
			j.best = max(j.best, j.have)
			j.meter.download(j.have, j.size)
			if err := d.wrote(j, err); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(readErr, io.EOF) && j.have < j.size:
			return &passing{ErrCut}
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil && j.have == j.size && ctx.Err() == nil:
			return nil // all is there; how the connection ended does not matter
		case readErr != nil:
			return fault(ctx, readErr)
		}
	}
}

// wrote is the error of a write, with the figures where the disk is full.
func (d *Downloader) wrote(j *job, err error) error {
	if full(err) {
		dir := filepath.Dir(j.req.Target)
		free, _ := d.cfg.Free(dir) // the write itself is what counts
		return &SpaceError{Dir: dir, Need: j.size - j.have, Free: free, Err: err}
	}
	if err != nil {
		return fmt.Errorf("write partial file: %w", err)
	}
	return nil
}

// fault is the error of a request or a read: the cause of the context's end
// where that was ours, final where no try can help.
func fault(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad || errors.Is(err, ErrRedirect) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrCut, err)
	}
	return &passing{err}
}
