package download

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxRedirects is what browsers and curl follow at most, roughly.
const maxRedirects = 10

func newClient(cfg Config) *http.Client {
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               proxy,
			DialContext:         (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
			TLSClientConfig:     cfg.TLS,
			TLSHandshakeTimeout: 15 * time.Second,
			ForceAttemptHTTP2:   true,
			DisableCompression:  true, // a range is one of the file, not of its packing
			IdleConnTimeout:     30 * time.Second,
		},
		CheckRedirect: redirect,
	}
}

// redirect lets a request go on to where a server sent it, as a hub does to
// its storage, without what was meant for the first host.
func redirect(next *http.Request, via []*http.Request) error {
	first, last := via[0].URL, via[len(via)-1].URL
	switch {
	case len(via) >= maxRedirects:
		return fmt.Errorf("%w: more than %d in a row", ErrRedirect, maxRedirects)
	case next.URL.Scheme != "https" && next.URL.Scheme != "http":
		return fmt.Errorf("%w: to %s", ErrRedirect, next.URL.Scheme)
	case last.Scheme == "https" && next.URL.Scheme != "https":
		return fmt.Errorf("%w: from https to http at %s", ErrRedirect, next.URL.Host)
	}
	if !sameOrigin(first, next.URL) {
		next.Header.Del("Authorization")
		next.Header.Del("Cookie")
	}
	next.Header.Del("Referer") // which file was wanted is not the storage's business to log twice
	return nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
