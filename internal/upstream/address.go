package upstream

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// ParseURL reads the address of a remote engine. It refuses what would be sent
// in the clear over a network (http to another machine, unless plain allows
// it) and what belongs elsewhere (a name or password, a query).
func ParseURL(raw string, plain bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return nil, errors.New("an address such as https://host/v1 or http://127.0.0.1:11434 is needed")
	case u.User != nil:
		return nil, errors.New("a name or password does not belong in the address; put the key into the keychain")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("an address without ? and # is needed")
	}
	switch u.Scheme {
	case "https":
	case "http":
		if !plain && !Loopback(u) {
			return nil, fmt.Errorf("http would send texts to %s unencrypted; use https, or allow plain_http for this role", u.Hostname())
		}
	default:
		return nil, fmt.Errorf("%s is no way to reach an engine; use https or http", u.Scheme)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// Loopback reports whether what is sent to u stays on this machine.
func Loopback(u *url.URL) bool {
	host := u.Hostname()
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
