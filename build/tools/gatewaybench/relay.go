package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The relay is the least that can stand between a client and llama-server: a
// process of its own that finds the ends of messages and looks into nothing.
// What it adds is what a second process costs on this machine at this moment;
// what the gateway adds beyond it is the gateway's.

func startRelay(ctx context.Context, dir, engine string) (*bare, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	b := &bare{url: "http://" + address}
	if b.child, err = startChild(filepath.Join(dir, "relay.log"), nil, self, "-relay", address+"="+engine); err != nil {
		return nil, err
	}
	client := newHTTPClient(1)
	defer client.CloseIdleConnections()
	err = b.ready(ctx, func(ctx context.Context) error {
		_, err := get(ctx, client, b.url+"/health")
		return err
	})
	if err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// serveRelay takes "listen address=engine address".
func serveRelay(ctx context.Context, addresses string) error {
	listen, engine, _ := strings.Cut(addresses, "=")
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for {
		conn, err := listener.Accept()
		if err != nil {
			return nil // the end
		}
		go relayConn(conn, engine)
	}
}

func relayConn(client net.Conn, engine string) {
	defer client.Close()
	network := "tcp"
	if strings.HasPrefix(engine, "/") {
		network = "unix"
	}
	server, err := net.DialTimeout(network, engine, 5*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	from, back := bufio.NewReaderSize(client, 64<<10), bufio.NewReaderSize(server, 64<<10)
	for {
		if !relayMessage(from, server) || !relayMessage(back, client) {
			return
		}
	}
}

// relayMessage passes one message with a Content-Length on.
func relayMessage(from *bufio.Reader, to io.Writer) bool {
	var message []byte
	length := 0
	for {
		line, err := from.ReadSlice('\n')
		if err != nil {
			return false
		}
		message = append(message, line...)
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		if strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return false
			}
		}
		if len(line) <= 2 {
			break
		}
	}
	head := len(message)
	message = append(message, make([]byte, length)...)
	if _, err := io.ReadFull(from, message[head:]); err != nil {
		return false
	}
	_, err := to.Write(message)
	return err == nil
}
