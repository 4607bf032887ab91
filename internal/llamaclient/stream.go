package llamaclient

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// Stream posts body, which is JSON, to path and returns the reply as soon as
// its header is there; the caller closes its body, which gives the connection
// back. A reply that is no success is a *StatusError or *ContextError. Reading
// the body has the same errors as every other call: its limit for one read is
// the idle limit of a stream.
func (c *Client) Stream(ctx context.Context, path string, body []byte) (*http.Response, error) {
	// llama-server may hang up after a stream, just when the connection is used again.
	end := sync.OnceFunc(c.activity.begin(true))
	response, err := c.http.Exchange(ctx, c.post(path, "Connection: close\r\n", body), false)
	if err != nil {
		end()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	response.Body = &workingBody{response.Body, &c.activity, end}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, fmt.Errorf("%s: %w", path, ReadError(response))
	}
	return response, nil
}

// Busy is how many of the engine's slots are computing. The engine answers
// between two batches, so a long batch delays it; it is asked only to learn
// that abandoned work has ended.
func (c *Client) Busy(ctx context.Context) (int, error) {
	var slots []struct {
		Processing bool `json:"is_processing"`
	}
	if err := c.read(ctx, "/slots", nil, maxSmallReply, &slots); err != nil {
		return 0, err
	}
	busy := 0
	for _, slot := range slots {
		if slot.Processing {
			busy++
		}
	}
	return busy, nil
}
