package client

import (
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Options says how to reach a server. The zero value reaches one on this machine, without a key.
type Options struct {
	Server string       // base URL; empty: DefaultServer
	Key    string       // API key, sent as a bearer token
	HTTP   *http.Client // nil: a new one; redirects are never followed
	// of one call with its repetitions; 0: 30 s; negative: only the context limits it
	Timeout   time.Duration
	Retries   int       // how often one call is repeated at most; 0: 2; negative: never
	Random    io.Reader // makes idempotency keys and jitter; nil: crypto/rand
	UserAgent string    // empty: grapnel-client/<version>
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	options Options
	budget  *budget
}

// call is one request, which may be sent several times.
type call struct {
	method string
	path   string
	query  url.Values
	in     any    // sent as JSON; nil: body
	body   []byte // nil: none
	media  string // content type of body; empty: JSON
	once   string // idempotency key; empty on a POST: one is created
	out    any    // decoded from the answer; nil: the answer is dropped

	accept     string            // content type to ask for; empty: JSON
	idempotent bool              // doing it twice comes to the same, without an idempotency key
	wait       time.Duration     // how long the server may take before it answers
	head       func(http.Header) // gets the header of a good answer before its body comes; nil: not used
}

// budget lets a client repeat a tenth of its calls, and reserve calls at once after a quiet period.
type budget struct {
	mu     sync.Mutex
	tenths int
}
