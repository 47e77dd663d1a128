package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// Path is where the server answers over HTTP.
const Path = "/mcp"

// Callers are the agents that may call over HTTP.
type Callers struct {
	Key   string   // that they have to send as a bearer token; empty: none
	Hosts []string // names by which they reach this server besides those of this machine
}

// ServeListener serves agents at a listener over streamable HTTP, until ctx ends. It closes the
// listener.
func (s *Server) ServeListener(ctx context.Context, l net.Listener, c Callers) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	server := &http.Server{Handler: s.Handler(c), ReadHeaderTimeout: s.bounds.Arrival, IdleTimeout: s.bounds.Idle,
		MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return serving }}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	leaving, cancel := context.WithTimeout(serving, s.bounds.Leaving)
	defer cancel()
	err := server.Shutdown(leaving)
	stop() // requests that are still in progress
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-ended
	return err
}

// Handler answers at Path. Each request stands alone: the server keeps no session.
//
// Host and Origin are compared with the names of this server, because a web page that an agent's
// user opens can make the browser send requests to this machine, under a name of its own that leads
// here.
func (s *Server) Handler(c Callers) http.Handler {
	known := func(host string) bool { return cli.Loopback(host) || slices.Contains(c.Hosts, host) }
	key := sha256.Sum256([]byte(c.Key))
	streams := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk },
		&sdk.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true, Logger: s.log})
	slots := make(chan struct{}, s.bounds.Requests)
	mux := http.NewServeMux()
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := sha256.Sum256([]byte(given))
		switch {
		case !known(strings.ToLower(hostname(r.Host))):
			http.Error(w, "The Host of the request is not a name of this server; the operator names it with --http-host.", http.StatusForbidden)
			return
		case !sameSite(r):
			http.Error(w, "The Origin of the request is not this server.", http.StatusForbidden)
			return
		case c.Key != "" && subtle.ConstantTimeCompare(key[:], sum[:]) != 1:
			w.Header().Set("WWW-Authenticate", `Bearer realm="grapnel mcp"`)
			http.Error(w, "The request has no bearer key, or another one.", http.StatusUnauthorized)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests are in progress.", http.StatusServiceUnavailable)
			return
		}
		body, status := s.body(w, r)
		if status != 0 {
			http.Error(w, "Reading the request failed.", status)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		streams.ServeHTTP(w, r)
	})
	return mux
}

// hostname is a host without its port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// body reads a request's body, within its limits of bytes and time. status is 0 if it is complete.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (body []byte, status int) {
	// A deadline for the whole connection would end long calls, too.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(s.bounds.Arrival)) // a recorder of a test has no connection
	defer func() { _ = connection.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.bounds.Request))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge
	case err != nil:
		return nil, http.StatusRequestTimeout
	}
	return body, 0
}

// sameSite says whether a request comes from no web page, or from one of this server's own host.
func sameSite(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return true
}
