package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/sign"
)

// Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options say how to send. The zero value sends to public addresses over the real network.
type Options struct {
	Bounds    Bounds         // inside this package; zero: their defaults
	Allow     []netip.Prefix // addresses that are let through although they are not public
	HTTPSOnly bool           // refuse http:// URLs
	UserAgent string         // "Grapnel/<version>"
	Node      string         // the grapnel-node header; empty: no such header
	Now       func() time.Time
	// net.Resolver, the pure Go one: a C library would read "127.1" as an address
	Resolver Resolver
	RootCAs  *x509.CertPool // the system's
	Proxy    *url.URL       // forward proxy of all connections, see ParseProxy; nil: none
	// Dial replaces resolving and connecting, guard included; tests give an in-memory network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	MaxConnAge time.Duration // 5 min: so that changes of DNS and of the guard's rules take effect
	// 4 s: many servers close after 5, and a request that meets such a close is ambiguous
	IdleTimeout time.Duration
}

// Sender makes attempts. It may be used by several goroutines at once.
type Sender struct {
	bounds   Bounds
	opts     Options
	rules    atomic.Pointer[rules]
	anywhere *guard // of the operator's proxy
	tls      *tls.Config
	counters counters
	buffers  sync.Pool // of *[maxKeptBody]byte
	messages sync.Pool // of *message
	closing  context.Context
	close    context.CancelFunc

	mu      sync.RWMutex
	closed  bool
	routes  map[string]*route // by endpoint id
	sweepAt time.Time

	connsMu sync.Mutex
	conns   map[*conn]struct{} // open ones
	ended   *sync.Cond         // signalled when conns becomes empty
	sends   sync.WaitGroup

	links links // to brokers

	shapes  *allowance.Tenants // processor time of transforms
	shaping chan struct{}      // holds one entry for each evaluation that runs
}

// rules say where attempts may go.
type rules struct {
	guard, mail *guard
	httpsOnly   bool
}

// Delivery is the content of one attempt.
type Delivery struct {
	Endpoint  *grapnel.Endpoint
	Event     *grapnel.Event
	ID        string
	Position  int64 // in its lane; 0: none
	Number    int   // of the attempt: 1, 2, …
	Trigger   grapnel.Trigger
	CreatedAt time.Time // the delivery; later than its event's acceptance if it repeats one
	Epoch     int64     // of the endpoint's shard; 0: one node
	Trace     string    // the traceparent to send; empty: none
	Proxy     string    // URL of the forward proxy that the operator gave the tenant; empty: none
	Mailer    string    // URL of the mail server for contacts, see grapnel.Sender; empty: none
	Link      string    // of a message to a contact; a credential, so it is stored nowhere; empty: none

	// called before the first byte is written; false: the request is not sent. nil: always sent
	Still func() bool

	batch string // the header grapnel-batch: events of the request, or why it has one; empty: no header
}

// gathering is the batches of a route that wait for events.
type gathering struct {
	mu     sync.Mutex
	open   map[company]*batch
	inside int // events that wait, or whose request is in flight
}

// company is what the events of a request have in common besides their route.
type company struct {
	ctx     context.Context // the end of one attempt's context ends no other's
	epoch   int64
	hops    int
	trigger grapnel.Trigger
	own     string // values of the endpoint's own headers, which may depend on the event
}

// batch is the events of one request. gathering.mu guards body and ids until it departs.
type batch struct {
	body   []byte        // a byte, and between the elements a comma
	ids    []string      // of its events
	full   chan struct{} // closed when it leaves before its time
	done   chan struct{} // closed when result is there
	result Result        // of several events
}

// Result is the outcome of an attempt.
type Result struct {
	Outcome policy.Outcome
	// reason for which the event has no body for the endpoint, now or ever; nothing was sent
	Unsendable string
	Deferred   bool // with policy.ClassInternal: no fault, but overload or another node's endpoint
	StartedAt  time.Time
	Duration   time.Duration
	Phases     grapnel.Phases
	Peer       grapnel.Peer
	Error      string
	Sent       []grapnel.Header // of the request, as an attempt keeps them; nil: nothing was sent
	Headers    map[string]string
	Body       []byte
}

// route is the prepared state of an endpoint: its URL, its signer, its connections. It lives until
// the endpoint changes, one of its secrets expires, or its connections are too old.
type route struct {
	endpoint *grapnel.Endpoint
	until    time.Time
	timeout  time.Duration
	method   string
	host     string
	lines    string // of every request: see firstLines
	static   fields // the same for every delivery
	filled   []filled
	hidden   map[string]bool // own headers whose values are not stored with attempts
	signer   *sign.Signer
	target   *channels.Target // not nil: the endpoint is a channel
	broker   *broker          // not nil: messages go to a broker
	link     *link            // to it; nil: there is none. Sender.links guards it
	address  string           // host:port
	via      []*proxy         // the proxies on the way, the nearest first
	through  string           // the Delivery.through for which target and via were made
	tls      *tls.Config      // nil: plain HTTP
	tokens   *tokens          // nil: requests need none
	pool     pool

	gathering gathering

	shapes     sync.Mutex
	transforms map[string]*transform.Transform // by their texts

	class   policy.Class // class of every attempt if none can be made; empty: they can
	problem string
}

// broker is the prepared target of an endpoint.
type broker struct {
	kind      *brokers.Kind
	target    *grapnel.Target
	place     brokers.Place
	name, key template
}

// links are the connections to brokers.
type links struct {
	mu     sync.Mutex
	open   map[*link]struct{}
	of     map[string]int // open ones of each tenant
	sweep  *time.Timer
	closed bool
	ending sync.WaitGroup // drivers that are being closed
}

// link is the connection of one endpoint to its broker. links.mu guards the fields before mu.
type link struct {
	sender    *Sender
	route     *route
	driver    brokers.Driver
	users     int // sends that have it
	idleSince time.Time
	retired   bool // no further send gets it
	// bytes that its consumer may still receive until it asks for more; nil: it has no consumer
	budget *atomic.Int64

	mu      sync.Mutex
	sockets map[*wired]struct{}
	last    *attempt // how the last dial went
	failed  error
}

// wired is a connection that a link has made.
type wired struct {
	net.Conn
	link *link
}

// proxy is a forward proxy on the way to a receiver.
type proxy struct {
	address string      // host:port
	tls     *tls.Config // nil: plain HTTP
	auth    string      // the Proxy-Authorization header; empty: none
	own     bool        // an endpoint's own: it must be at a public address, like a receiver
}

// tokens keeps the token of one endpoint. It outlives routes.
type tokens struct {
	of   *grapnel.OAuth2
	is   atomic.Pointer[token]
	turn chan struct{} // holds an entry while an attempt fetches; it guards the fields below

	failed   error
	failures int
	again    time.Time // no fetch before this
}

type token struct {
	header    string // the value of Authorization
	got, ends time.Time
	worked    atomic.Bool // a request with it was accepted
	refused   atomic.Bool
}

// template is a header's value in parts: texts, and the placeholders between them.
type template []struct {
	text  string
	value func(Delivery) string // nil: only the text
}

// attempt records the progress of a request. A long body is written by a goroutine of its own, so
// the fields that writing sets are atomic.
type attempt struct {
	sender   *Sender
	start    time.Time
	deadline time.Time
	still    func() bool // nil: yes
	mail     bool        // the receiver is a mail server

	reused            bool
	peer              grapnel.Peer
	stage             atomic.Int32
	dns, connect, tls time.Duration
	wroteAt           atomic.Int64 // see since
	answeredAt        int64
}

// pool is an endpoint's idle connections. The one used last is used next, so superfluous ones
// expire.
type pool struct {
	most    int           // idle connections; further ones are closed
	timeout time.Duration // of being idle

	mu     sync.Mutex
	idle   []*conn // the longest idle first
	sweep  *time.Timer
	closed bool
}

// conn is a connection that its sender tracks until it is closed, and that reports its traffic to
// the attempt it serves.
type conn struct {
	net.Conn          // TLS included
	below    net.Conn // the connection below TLS, or the same
	sender   *Sender
	reader   *bufio.Reader

	peer       grapnel.Peer
	attempt    *attempt
	headerLeft int // bytes that may still be read while headers are read
	same       same
	idleSince  time.Time
	liveness

	watched context.Context // see watch
	unwatch func() bool     // with connsMu: nil if it watches none
}

// liveness is how alive looks at a connection. It is made once, because each part would be an
// object for each request.
type liveness struct {
	socket syscall.RawConn
	peek   func(fd uintptr) bool
	peeked error // the result of peek
	byte   [1]byte
}

// fields are headers by name, each name once. The last value set counts.
type fields []grapnel.Header

// reply is the part of a response that a sender uses.
type reply struct {
	status           int
	headers          map[string]string // those to store
	retryAfter, date string
	wish             string // of the header webhook-delivery
	length           int    // of a simple answer's body
	body             []byte // at most maxKeptBody
	ended            bool   // the body has ended, and the connection stays open
	broken           error  // why the body did not end
}

// same is the head of the last simple answer on a connection, and how it was read. For a second the
// heads of a receiver's answers are mostly the same bytes. The headers' map is shared, so nothing
// may change it.
type same struct {
	head []byte
	is   reply
}

// filled is a header of the endpoint's own with placeholders.
type filled struct {
	name     string
	template template
}

type counters struct {
	attempts, reused, fresh, dialed, blocked, written, unsendable, deferred, batches, divided atomic.Uint64
	inFlight, open                                                                            atomic.Int64
}

// longAgo as a deadline ends every pending read and write of a connection.
var longAgo = time.Unix(1, 0)

// redacted stands for a value that is not stored with an attempt.
const redacted = "[redacted]"
