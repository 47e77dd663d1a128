package api

import (
	"net/http"
	"time"
)

// Limits on connections. A caller that is slow to send or to read holds one connection and nothing else, and not for ever.
// Handlers that are slow on purpose (a long poll, a stream) lengthen their own deadline with http.ResponseController.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second // of a whole request; a batch of 16 MiB needs 5 Mbit/s
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Server makes the http.Server that serves the API: hardened against callers who are slow or send endless headers.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}
