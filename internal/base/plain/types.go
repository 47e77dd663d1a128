package plain

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds are the sizes inside this package; see package bounds.
type Bounds struct {
	Ahead int `bound:"4KiB" tiny:"512"`  // bytes of a connection that are read ahead; the most for a head
	Lines int `bound:"64" tiny:"8"`      // headers of a plain request
	Kept  int `bound:"64KiB" tiny:"256"` // largest answer whose memory is used again

	// What the caller has sent beyond an answer is read for this time before the connection is closed.
	Discard int64         `bound:"256KiB" tiny:"1KiB"`
	Linger  time.Duration `bound:"500ms" tiny:"10ms"`

	Refused time.Duration `bound:"5ms"` // first pause of the listener when no descriptor is free

	// Pipelined is how many requests are handled at once that had come before the answer to the one
	// before them was sent, and Rests how many times as long as it took a share stays unused after one
	// of them, up to Rest. So callers that do not wait for answers take at most this part of the
	// server's time together, however many connections they have, and callers that do wait are served
	// almost as if they were alone.
	Pipelined int           `bound:"1"`
	Rests     int           `bound:"3" tiny:"1"`
	Rest      time.Duration `bound:"100ms" tiny:"1ms"`
}

// Server answers requests from the connections of one listener.
type Server struct {
	// Handshake makes TLS of a connection whose first byte begins TLS; nil: this server speaks
	// none. It is set before Serve.
	Handshake func(context.Context, net.Conn) (*tls.Conn, error)

	http   *http.Server
	plain  func(path string) bool
	bounds Bounds
	over   *passage
	ahead  chan struct{} // one for each pipelined request that is handled

	stopping context.Context // ended: it takes no new requests
	stop     context.CancelFunc

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	serving  sync.WaitGroup // goroutines of conns
}

// conn is a connection that had plain requests only.
type conn struct {
	net.Conn
	server *Server
	remote string
	base   *http.Request // with the connection's context; every request is a copy

	// The request, which the next one takes the place of: a handler keeps nothing of it, as it keeps
	// nothing of its http.ResponseWriter, when it has returned.
	head    head
	request http.Request
	url     url.URL

	end   context.CancelFunc
	state atomic.Int32

	buf  []byte // bytes that were read ahead are buf[r:w]
	r, w int
	left int64 // bytes of the request's body that were not read yet
	answer

	// Deadlines cost a lock each, so they are renewed when a part of their time has passed.
	readUntil, writeUntil time.Time
	limited               atomic.Bool // the handler set a read deadline, so readUntil is not in force
}

// answer is what a handler answers. Its memory is used again for the next answer.
type answer struct {
	header http.Header
	status int           // 0: not set
	rest   time.Duration // see Rest
	body   []byte
	names  []string
	out    []byte
}
