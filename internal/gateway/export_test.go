package gateway

import (
	"context"
	"net/http"
	"sync"
)

// Server is the server that Run uses, for listeners of a test's own.
func (g *Gateway) Server() *http.Server { return g.server(context.Background(), new(sync.WaitGroup)) }
