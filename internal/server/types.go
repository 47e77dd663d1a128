package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/base/plain"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/nodes/peer"
	"github.com/grapnelhq/grapnel/internal/send/consent"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/send/erase"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/tell/alarm"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/internal/tell/contacts"
	"github.com/grapnelhq/grapnel/internal/tell/lastuse"
	"github.com/grapnelhq/grapnel/internal/tell/minutes"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
	"github.com/grapnelhq/grapnel/wire"
)

// certificates are what the server shows to callers.
type certificates interface {
	get(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	run(ctx context.Context) // keeps them fresh until ctx ends
}

// Server is one running Grapnel.
type Server struct {
	options  Options                 // that it was opened with
	changed  atomic.Pointer[Options] // the same, with what Change has replaced
	listener net.Listener            // all addresses; its Addr is that of Options.Listen
	callers  net.Listener            // the same, with a limit of connections

	certificates certificates // nil: callers speak HTTP
	callersTLS   *tls.Config
	node         string // its name among the nodes that share a store
	identity     *peer.Identity
	life         *life // the first; lives has the current one
	sender       *egress.Sender
	http         *http.Server
	plain        *plain.Server // in front of http
	inside       *inside       // requests that come through Handler
	log          *slog.Logger
	stopping     atomic.Bool // draining has begun
	probes       *probes
	key          KeyNotice
	session      *sessionKey
	lives        *lives
	gate         *api.Gate
	published    published
	promises     *promises
	alarms       *alarm.Keeper
	backups      *backups
	issuer       *oidc.Provider // nil: people sign in with API keys only
	traces       *trace.Tracer  // nil: no spans are made
	rejected     rejected
}

// inside counts the requests that come through Handler. The drain waits for them, as it does for
// those of the server's own connections, because the store is closed after it.
type inside struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed once closed is set and nothing runs
}

// cleanup undoes opened parts, the last first.
type cleanup []func() error

// lives begins a new life after the database went back, while the server keeps running.
//
// All parts of a life remember rows by the ids that the database assigned. After the database went
// back (store.ErrWentBack), those ids mean other rows. So the whole life is dropped without
// recording anything, and the database is opened as at the start. Meanwhile requests are answered
// 503.
type lives struct {
	server  *Server
	now     atomic.Pointer[life]
	handler atomic.Pointer[http.Handler]
}

// life is an opened database and the parts that run on it, from its opening until the database goes
// back or the server ends.
type life struct {
	place Place
	store keeper
	// by which nodes on the same database authenticate each other; empty: no other node uses the
	// store
	secret   string
	engine   *engine.Engine
	queues   *queue.Broker
	ingress  *ingress.Receiver
	replays  *replay.Runner
	erasures *erase.Runner
	relays   *relay.Runner
	alerts   *alerting.Keeper
	contacts *contacts.Keeper
	consents *consent.Keeper
	minutes  *minutes.Keeper
	used     *lastuse.Keeper
	peers    *peer.Client // nil: no other node uses the store
	numbers  []prometheus.Collector
	backlog  *backlog
	backups  *backups          // nil: none are scheduled
	seen     *postgres.History // of the database, as seen by this life and the earlier ones
	closed   atomic.Bool       // its database went back: no requests are answered any more
	alive    context.Context   // the lifetime of its requests
	end      context.CancelFunc
}

// Place is the location of the data.
type Place struct {
	path string // of the SQLite database
	url  string // of the PostgreSQL database; path is unused then
}

// keeper is the part of a store that the server needs besides its contract.
type keeper interface {
	store.Store
	// Fatal delivers an error after which the process has to end; or, if it is store.ErrWentBack,
	// everything built on the store.
	Fatal() <-chan error
	// Sealer seals its rows; nil: they are in clear.
	Sealer() *seal.Sealer
}

// sessionKey derives secrets by their use.
type sessionKey [32]byte

// KeyNotice is the location of the admin key.
type KeyNotice struct {
	// of the file with the key; empty: it was given as an option, or its file was moved away
	Path string
	Made bool // by this start
	// of a file with another key than the given one: a start without the option takes that key
	Other string
}

// backlog has the metrics of pending deliveries and of the store's size. All scrapes within
// BacklogBounds.Every share one count, which reads no more rows than GET /v1/overview does.
type backlog struct {
	bounds BacklogBounds
	limit  int64
	store  backlogs
	held   func() []string          // endpoints whose deliveries are held
	labels func() map[string]string // of queues, by id
	size   func(context.Context) (int64, error)
	now    func() time.Time
	log    *slog.Logger

	mu       sync.Mutex
	asked    time.Time // when it was counted last, well or not
	counted  time.Time // when it was counted well
	counts   backlogCounts
	failing  bool
	describe [len(backlogMetrics)]*prometheus.Desc
}

// backlogs is the part of a store that counts.
type backlogs interface {
	Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time, limit int64) ([]store.Backlog, error)
}

// backlogCounts are the sums over all endpoints.
type backlogCounts struct {
	states  map[string]int64
	blocked int64
	leased  map[string]int64 // by label of the queue
	dead    int64
	oldest  time.Time // zero: nothing is pending
	bytes   int64     // negative: unknown
}

// backlogMetrics are the names and texts of the metrics, in the order of describe.
var backlogMetrics = [...]struct{ name, help, label string }{
	{"grapnel_backlog", "Pending deliveries, by state. waiting: behind another one of their key; uncounted: in one of the other states, " +
		"beyond the number that is counted. The sum is exact.", "state"},
	{"grapnel_oldest_undelivered_age_seconds", "Age of the oldest pending delivery that may be attempted or is held; 0: there is none.", ""},
	{"grapnel_dead_letters", "Dead letters, up to the number that is counted.", ""},
	{"grapnel_ordering_blocked_keys", "Ordering keys that a failed delivery blocks.", ""},
	{"grapnel_queue_leases", "Leases that consumers hold, by queue, expired ones included until they are recorded. Queues beyond a number are other.", "queue"},
	{"grapnel_store_bytes", "Size of the database, with its log.", ""},
}

// published measures the answers to publishes.
type published struct{ seconds *prometheus.HistogramVec }

// judged counts the events that package promise judges, by promise. monitoring.Rules computes the
// promises from them, so Prometheus and GET /v1/slo judge the same events in the same way.
type judged struct {
	events *prometheus.CounterVec
	of     map[promise.Indicator]map[bool]prometheus.Counter
}

// rejected counts refused publishes and refused requests to sources.
type rejected struct{ calls *prometheus.CounterVec }

// promises counts what package promise judges, stores the counts, and makes the report and the
// status page from those of all nodes.
//
// Each node has one document for each hour, whose counts it replaces every Every and at the stop.
// The sum over all documents of an hour is the hour's count, so a restart goes on in the same slot,
// and no two nodes write one document. While the store fails, counts stay in memory and the report
// has them; after a kill those since the last write are missing.
type promises struct {
	bounds   PromiseBounds
	log      *slog.Logger
	now      func() time.Time
	node     string
	docs     func() store.Documents      // as it is now
	unable   func() error                // why events are refused
	balances func() (all, unequal int64) // looks at the balance since the start
	pages    *statuspage.Pages           // nil: there is no status page
	dir      string                      // for files of the page; empty: none are written
	judged   judged                      // the same counts since the start, for /metrics
	kick     chan struct{}               // an incident has changed
	stopped  chan struct{}
	cancel   context.CancelFunc

	mu     sync.Mutex
	own    map[int64]*ownHour // counts of this node that may change, by hourOf
	report promise.Report

	// of the goroutine alone
	history   *promise.History
	others    map[int64]promise.Hour // sums over the other nodes, of the hours that may change
	loaded    time.Time              // of the last reading of counts that did not fail; zero: none
	looked    [2]int64               // balances
	incidents []wire.Incident
	failing   bool
	cleared   time.Time
}

// ownHour is this node's counts of one hour.
type ownHour struct {
	is       promise.Hour
	at       time.Time
	revision int64
	dirty    bool // not stored as it is
	tried    bool // a write was begun
}

// probes logs when readiness changes. A load balancer asks every second or more often, so its
// requests are not logged.
type probes struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	notReady time.Time // since when, as of the last probe; zero: it was ready
	was      bool      // ready before; until then it starts, which is no trouble
}

// backups makes a backup whenever the newest one in the directory is old enough. The names of the
// files have the time, so a restart changes nothing about the next one. A backup has a name of its
// own until it is complete; older ones are removed only after that.
type backups struct {
	o      BackupOptions
	bounds BackupBounds
	prefix string // of the names: grapnel-, or grapnel-NAME-
	copy   func(ctx context.Context, to string) (whole bool, err error)
	size   func() (int64, error) // of the database
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex
	failed int       // backups in a row
	tried  time.Time // the last that failed
	err    error     // of that one
	newest time.Time // complete backup; zero: none, or not looked at
	bytes  int64     // size of the last one
	done   map[bool]int
}
