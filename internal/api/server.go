package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel/internal/bounds"
)

// Server makes the http.Server that serves the API: hardened against callers who are slow or send endless headers.
func Server(handler http.Handler, b Bounds) *http.Server {
	b = bounds.Fill(b)
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: b.ReadHeader,
		ReadTimeout:       b.Read,
		WriteTimeout:      b.Write,
		IdleTimeout:       b.IdleTime,
		MaxHeaderBytes:    b.HeaderBytes,
	}
}
