package download

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// known is what is known of a file before an answer.
type known struct {
	have   int64 // bytes in the partial file that were asked to be continued; 0 = asked for the whole
	size   int64 // of the whole; 0 = not known
	pinned bool  // size was given by the request, so that no server may say otherwise
	state  state
}

// step is what to do with an answer.
type step int

const (
	refuse    step = iota
	fromStart      // the body is the whole file
	goOn           // the body begins at known.have
	complete       // nothing is missing
)

// judge reads the head of an answer. It returns the size of the whole file
// beside the step. An error that is *passing may be gone with the next try;
// ErrLied and ErrChanged among them ask for the whole file next.
func judge(k known, resp *http.Response) (step, int64, error) {
	h := resp.Header
	switch resp.StatusCode {
	case http.StatusOK:
		if packed(h) {
			return refuse, 0, &passing{ErrLied}
		}
		switch {
		case resp.ContentLength < 0 && k.pinned:
			return fromStart, k.size, nil
		case resp.ContentLength <= 0 && !k.pinned:
			return refuse, 0, ErrNoSize
		case k.pinned && resp.ContentLength != k.size:
			return refuse, 0, &SizeError{Want: k.size, Got: resp.ContentLength}
		}
		return fromStart, resp.ContentLength, nil
	case http.StatusPartialContent:
		return judgeRange(k, resp)
	case http.StatusRequestedRangeNotSatisfiable:
		total, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes */")
		if n, err := strconv.ParseInt(total, 10, 64); ok && err == nil && n == k.have && k.have > 0 && (k.size == 0 || n == k.size) {
			return complete, n, nil
		}
		return refuse, 0, &passing{ErrChanged}
	}
	err := &StatusError{Status: resp.StatusCode, After: retryAfter(h.Get("Retry-After"), time.Now())}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return refuse, 0, &passing{err}
	}
	if resp.StatusCode >= 500 {
		return refuse, 0, &passing{err}
	}
	return refuse, 0, err
}

func judgeRange(k known, resp *http.Response) (step, int64, error) {
	first, last, total, ok := contentRange(resp.Header.Get("Content-Range"))
	switch {
	case !ok || packed(resp.Header) || first != k.have:
		return refuse, 0, &passing{ErrLied}
	case resp.ContentLength >= 0 && resp.ContentLength != last-first+1:
		return refuse, 0, &passing{ErrLied}
	case total < 0 && k.size == 0:
		return refuse, 0, ErrNoSize
	case k.size != 0 && (last >= k.size || (total >= 0 && total != k.size)):
		return refuse, 0, &passing{ErrChanged}
	case k.have > 0 && k.state.ETag != "" && strong(resp.Header.Get("ETag")) != "" && strong(resp.Header.Get("ETag")) != k.state.ETag:
		return refuse, 0, &passing{ErrChanged}
	case total < 0:
		total = k.size
	}
	if k.have == 0 {
		return fromStart, total, nil
	}
	return goOn, total, nil
}

// contentRange reads "bytes FIRST-LAST/TOTAL"; total is -1 for "*".
func contentRange(value string) (first, last, total int64, ok bool) {
	rest, found := strings.CutPrefix(value, "bytes ")
	span, whole, slash := strings.Cut(rest, "/")
	from, to, dash := strings.Cut(span, "-")
	if !found || !slash || !dash {
		return 0, 0, 0, false
	}
	first, err1 := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	total = -1
	var err3 error
	if whole != "*" {
		total, err3 = strconv.ParseInt(whole, 10, 64)
	}
	ok = err1 == nil && err2 == nil && err3 == nil && first >= 0 && last >= first && (total < 0 || last < total)
	return first, last, total, ok
}

// packed reports a body that is not the file's own bytes.
func packed(h http.Header) bool {
	coding := h.Get("Content-Encoding")
	return (coding != "" && coding != "identity") || strings.HasPrefix(h.Get("Content-Type"), "multipart/byteranges")
}

// strong is an entity tag that If-Range may carry; a weak one says nothing of bytes.
func strong(tag string) string {
	if strings.HasPrefix(tag, `"`) && strings.HasSuffix(tag, `"`) && len(tag) > 2 {
		return tag
	}
	return ""
}
