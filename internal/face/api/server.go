package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Server makes the http.Server that serves the API: hardened against callers who are slow or send
// endless headers.
func Server(handler http.Handler, b Bounds) *http.Server {
	b = bounds.Fill(b)
	return &http.Server{
		Handler:           framed(handler, b.DiscardTime),
		ReadHeaderTimeout: b.ReadHeader,
		ReadTimeout:       b.Read,
		WriteTimeout:      b.Write,
		IdleTimeout:       b.IdleTime,
		MaxHeaderBytes:    b.HeaderBytes,
	}
}

// Plain says which paths publishers and providers post to: package plain reads requests to them.
func Plain(path string) bool {
	source, in := strings.CutPrefix(path, "/in/")
	return path == "/v1/events" || path == "/v1/events/batch" || in && grapnel.ValidID(source)
}

// framed closes a connection after a request whose end a proxy may see at another byte: a request
// in chunks, which may have had a Content-Length too (net/http removes that), and one of HTTP/1.0,
// where net/http ignores chunks. What the proxy takes for its body would be the next request here.
//
// net/http reads what the handler left of a body, before it answers. A caller has this time to send
// it: otherwise callers without a key could delay a stop by as long as a body may take.
func framed(handler http.Handler, discard time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
		if byNetHTTP := r.Context().Value(http.ServerContextKey) != nil; byNetHTTP && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(discard)) // the next request has its own
		}
	})
}
