package server

import (
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/plain"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
	"github.com/grapnelhq/grapnel/internal/face/svix"
	"github.com/grapnelhq/grapnel/internal/face/web"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/nodes/peer"
	"github.com/grapnelhq/grapnel/internal/send/consent"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/send/erase"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/internal/tell/alarm"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/internal/tell/contacts"
	"github.com/grapnelhq/grapnel/internal/tell/lastuse"
	"github.com/grapnelhq/grapnel/internal/tell/minutes"
	"github.com/grapnelhq/grapnel/wire"
)

// Defaults of the options.
const (
	DefaultListen       = "127.0.0.1:8420"
	DefaultStore        = "sqlite:./grapnel-data/grapnel.db"
	DefaultDrainTimeout = 30 * time.Second
	DefaultMaxEvent     = api.DefaultMaxEvent
	DefaultMaxAhead     = api.DefaultMaxAhead
	DefaultMaxBody      = ingress.DefaultMaxBody
	DefaultMaxInFlight  = 512
	DefaultMaxPending   = 10_000_000
	DefaultMaxEndpoints = 10_000
	DefaultMaxTypes     = 10_000
	DefaultRetention    = 720 * time.Hour
	DefaultLease        = 15 * time.Second
	LeastLease          = 3 * time.Second

	DefaultPeopleSession = 8 * time.Hour

	DefaultBackupEvery = 6 * time.Hour // of scheduled backups
	DefaultBackupKeep  = 7
	LeastBackupEvery   = time.Minute
)

// Options are the settings of a server. The zero value serves on loopback and stores its data in
// ./grapnel-data.
type Options struct {
	Listen string // Nowhere: requests come through Handler alone
	// addresses that serve requests to sources, or the status page, and nothing else; empty: none
	ListenIngest, ListenStatus string
	TLS                        TLS
	Redirect                   string // address that leads to https; empty: none
	// what the server was started with, for the page that shows it; no secrets
	Settings []wire.Setting
	Store    string // sqlite:PATH, or the URL of a PostgreSQL database
	Name     string // of the installation, see grapnel.ValidName; empty: none
	// time until the endpoints of a dead node are taken over; engine's default
	Lease     time.Duration
	Advertise string // address for other nodes on the same database; empty: Listen
	// empty: the one in admin.key beside the database, which the first start writes
	AdminKey string
	// empty: the one in session.key beside the database, which the first start writes
	SessionKey string
	// StorePassword is where the password of a PostgreSQL database is, if it may change.
	StorePassword postgres.Password
	MasterKey     seal.Source // where the master key is that seals secrets; zero: they are stored in clear
	SealPayloads  bool        // with MasterKey: new payloads too
	DrainTimeout  time.Duration
	// addresses that deliveries may reach although they are not public
	EgressAllow  []netip.Prefix
	EgressProxy  *url.URL       // forward proxy of all deliveries, see egress.ParseProxy; nil: none
	PublicURL    *url.URL       // base URL of this server; nil: unknown
	Proxies      []netip.Prefix // their X-Forwarded-* headers are believed
	HTTPSOnly    bool           // refuse endpoints with http:// URLs
	MetricsOpen  bool           // show /metrics without a key
	OutboxFiles  []string       // SQLite databases of producers, which sources may relay from
	SvixAPI      bool           // serve the API of Svix at /api/v1 too, and show the secrets of endpoints again
	NoDashboard  bool           // serve the API alone
	NoStatusPage bool           // serve no public status page
	Silent       bool           // count nothing and evaluate no alerts: only for measuring what that costs
	People       *People        // how people sign in to the dashboard; nil: with API keys only
	Dev          Dev            // what `grapnel dev` adds to the dashboard
	MaxEvent     int64          // bytes of one event's data
	MaxAhead     time.Duration  // how far ahead an event's deliver_at may be
	// bytes that a PostgreSQL database may use, for the alert disk_full; 0: unknown
	DatabaseSpace int64
	MaxBody       int64              // bytes of the body of a request to a source
	MaxInFlight   int                // attempts at once
	MaxPerHost    int                // of those of one tenant at one host and port; 0: the core's default
	MaxPending    int64              // pending deliveries of one tenant; 0: no limit
	MaxEndpoints  int                // of one tenant, queues among them; 0: no limit
	MaxTypes      int                // of one tenant's events; 0: no limit
	PublishRate   *grapnel.RateLimit // events that one tenant may publish, at each node; nil: no limit
	EventsPerDay  int64              // events that one tenant may publish on one day (UTC); 0: no limit
	Retention     time.Duration      // of full records
	// rule for new addresses of endpoints; empty: off
	Consent grapnel.ConsentRule
	// for a tenant or types, instead of Retention; the first match counts
	Rules   []store.KeepRule
	Backups BackupOptions // of an SQLite database
	Bounds  Bounds
	Traces  trace.Settings // where spans go; zero: none are made
	Log     *slog.Logger   // nil: nothing is logged
}

// TLS says where the server's certificate is from; the zero value: it serves HTTP.
type TLS struct {
	Cert, Key string   // files in PEM; empty: none
	Domains   []string // for which certificates are requested by ACME; empty: none
	Directory string   // URL of the ACME server; empty: Let's Encrypt
	Email     string   // for the ACME server's messages; may be empty
}

// BackupOptions say where a server makes backups by itself. An empty Dir: nowhere.
type BackupOptions struct {
	Dir   string        // it must exist: an empty mount point would be filled otherwise
	Every time.Duration // from one to the next; 0: DefaultBackupEvery
	Keep  int           // how many complete ones stay; 0: DefaultBackupKeep
}

// Bounds are the sizes and time limits inside every package; zero: their defaults.
type Bounds struct {
	SQLite    sqlite.Bounds
	Postgres  postgres.Bounds
	Core      core.Bounds
	Engine    engine.Bounds
	Ownership ownership.Bounds
	Queue     queue.Bounds
	Replay    replay.Bounds
	Erase     erase.Bounds
	Relay     relay.Bounds
	Alarm     alarm.Bounds
	Alerting  alerting.Bounds
	Contacts  contacts.Bounds
	Consent   consent.Bounds
	Minutes   minutes.Bounds
	LastUse   lastuse.Bounds
	Peer      peer.Bounds
	Ingress   ingress.Bounds
	Egress    egress.Bounds
	API       api.Bounds
	Plain     plain.Bounds
	Web       web.Bounds
	Svix      svix.Bounds
	OIDC      oidc.Bounds
	Trace     trace.Bounds
	Backlog   BacklogBounds

	Certificates CertificateBounds
	Promises     PromiseBounds
	Backups      BackupBounds
	Seal         seal.Bounds
	Hold         HoldBounds
}

// HoldBounds limit the work of pausing all endpoints of a database.
type HoldBounds struct {
	Passes int `bound:"10"` // reads of the configuration while others change it
}

// CertificateBounds limit the work for certificates.
type CertificateBounds struct {
	Every time.Duration `bound:"10s" tiny:"10ms"` // between two reads of the files
	Again time.Duration `bound:"1m"`              // first pause after a certificate was not issued
	Pause time.Duration `bound:"1h"`              // longest such pause
	Turn  time.Duration `bound:"1s" tiny:"10ms"`  // between two looks of a node that waits for the leading one
	Order time.Duration `bound:"6m"`              // life of a claim to order; autocert ends an order after 5 minutes
}

// BacklogBounds limit the work of counting for /metrics.
type BacklogBounds struct {
	Every  time.Duration `bound:"10s" tiny:"1ms"` // least time between two counts
	Within time.Duration `bound:"3s"`             // longest wait for one
	Stale  time.Duration `bound:"5m"`             // for how long the last count stands in for those that fail
}

// PromiseBounds are the limits of the sampler.
type PromiseBounds struct {
	Every time.Duration `bound:"30s" tiny:"1s"` // between two writes of counts; a kill loses the counts since the last one
	Write time.Duration `bound:"5s" tiny:"5s"`  // for the store calls of one round, and for the last write
	Page  int           `bound:"256" least:"2"` // documents read at once
}

// BackupBounds are the pauses of scheduled backups.
type BackupBounds struct {
	Retry time.Duration `bound:"5m" tiny:"20ms"` // after a backup that failed
	Look  time.Duration `bound:"1m" tiny:"10ms"` // longest wait before the clock is read again
}
