package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
)

// splitLoopback checks a listen address: loopback only, whatever the settings say.
func splitLoopback(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q: write it as 127.0.0.1:PORT (ONDOL_LISTEN, or listen in the settings)", listen)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen address %q: the port must be 0 to 65535 (ONDOL_LISTEN, or listen in the settings)", listen)
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	if addr, err := netip.ParseAddr(host); err != nil || !addr.IsLoopback() || addr.Zone() != "" || addr.Is4In6() {
		return "", 0, fmt.Errorf("listen address %q is not a loopback address: the endpoint is for this machine only; use 127.0.0.1:%d", listen, port)
	}
	return host, port, nil
}

// Listen opens the listeners, so that a taken port is known before anything
// else starts. Run calls it when nobody has. A second call does nothing.
func (g *Gateway) Listen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listeners != nil {
		return nil
	}
	host, port, err := splitLoopback(g.listen)
	if err != nil {
		return err
	}
	g.listeners, err = listenAll(host, port)
	return err
}

// Address is host:port of the first listener, as clients should be told it;
// empty before Listen.
func (g *Gateway) Address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.listeners) == 0 {
		return ""
	}
	return g.listeners[0].Addr().String()
}

// freePortTries is how often a free port is drawn until it is free in both families.
const freePortTries = 16

// listenAll listens on host:port and, for the two standard addresses, on the
// other one as well: "localhost" means either, and a stranger's server on the
// other half would be sent our clients' texts.
func listenAll(host string, port int) ([]net.Listener, error) {
	second, both := map[string]string{"127.0.0.1": "::1", "::1": "127.0.0.1"}[host]
	for try := 1; ; try++ {
		first, err := listenOne(host, port)
		if err != nil {
			return nil, err
		}
		if !both {
			return []net.Listener{first}, nil
		}
		other, err := listenOne(second, first.Addr().(*net.TCPAddr).Port)
		switch {
		case err == nil:
			return []net.Listener{first, other}, nil
		case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
			return []net.Listener{first}, nil // a machine without that family
		}
		_ = first.Close() // gives the port back; the cause is in err
		if port != 0 || try == freePortTries {
			return nil, err
		}
	}
}

func listenOne(host string, port int) (net.Listener, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d is taken on %s: another program or another Ondol uses it; end it, or choose another port with ONDOL_LISTEN=127.0.0.1:PORT: %w", port, host, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("port %d needs special rights; choose one above 1023 with ONDOL_LISTEN=127.0.0.1:PORT: %w", port, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}
