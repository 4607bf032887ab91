package remote

import (
	"io"
	"net/http"

	"github.com/ondol-app/ondol/internal/upstream"
)

// heldBody runs release when it is closed.
type heldBody struct {
	io.ReadCloser
	release func()
}

func (b *heldBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// bounded is a transport for a library that reads replies without bound and
// follows redirects by itself.
type bounded struct {
	client *Client
	limit  int64
}

// RoundTrip adds the key, refuses a redirect, and cuts what is too long off
// with an error.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	if b.client.key != "" {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+b.client.key)
	}
	response, err := b.client.http.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if code := response.StatusCode; code >= 300 && code < 400 {
		response.Body.Close()
		return nil, &upstream.StatusError{Code: code, Message: "it redirects; set the address to where it is"}
	}
	response.Body = &limitedBody{ReadCloser: response.Body, left: b.limit}
	return response, nil
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, upstream.ErrTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
