package doctor

import (
	"context"
	"crypto/x509"
	"io/fs"
	"net/netip"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
)

// The levels of findings.
const (
	Error   = "error"   // something does not work, or is not safe, now
	Warning = "warning" // something will not work soon, or under load
)

// Finding is a fault.
type Finding struct {
	Check string `json:"check"` // name of the row
	Level string `json:"level" enum:"error,warning"`
	What  string `json:"what"`
	Why   string `json:"why"`
	Do    string `json:"do"`
}

// Skip is a check that could not look.
type Skip struct {
	Check string `json:"check"`
	Why   string `json:"why"`
}

// Report is the result of all checks.
type Report struct {
	Findings []Finding `json:"findings"`
	Skipped  []Skip    `json:"skipped"`
	Checks   int       `json:"checks"`
}

// Bounds are the limits beyond which something is a finding.
type Bounds struct {
	Sync     time.Duration `bound:"20ms"`   // median time of a write with its sync
	Free     int           `bound:"10"`     // percent of the disk, and of its inodes
	Days     int           `bound:"14"`     // left to certificates and keys
	Skew     time.Duration `bound:"5s"`     // of two clocks
	Files    int           `bound:"4096"`   // open files and connections
	Memory   int64         `bound:"512MiB"` // bodies of requests alone may take 384 MiB
	Lag      int64         `bound:"64MiB"`  // of a standby, or log that an unused slot retains
	Node     int           `bound:"17"`     // connections to PostgreSQL that one more node needs
	Hosts    int           `bound:"200"`    // of endpoints; further ones are not looked at
	Patience time.Duration `bound:"5s"`     // for one host
	AtOnce   int           `bound:"8"`      // hosts that are looked at together
}

// Fault is a fault of a setting that the caller has found.
type Fault struct{ Where, Detail string }

// Subject is the installation. A zero field is something that is absent.
type Subject struct {
	Bounds    Bounds
	System    System
	Unknown   []Fault // variables that nothing reads
	Faults    []Fault // of the config file and other settings
	Zone      string  // the variable TZ
	Listen    string
	PublicURL *url.URL
	URLs      []*url.URL     // of the operator's, to try egress with
	Allow     []netip.Prefix // --egress-allow
	Dir       string         // data directory
	Database  string         // the SQLite file
	Program   string         // version of this program

	// of certificates that the server has, and their keys
	Certificates, CertificateKeys []string
	Schema                        func(context.Context) error // why this program cannot use the database's schema
	Postgres                      func(context.Context) (postgres.Condition, error)
	Probe                         *client.Client // of the server that should run here, without a key; nil: none should
	Client                        *client.Client // the same, with one
	Roots                         *x509.CertPool
	Lookup                        func(ctx context.Context, host string) ([]netip.Addr, error)
	Now                           func() time.Time

	server    serverState
	database  postgres.Condition
	unusable  error
	endpoints []string  // URLs
	ending    []Finding // about endpoints whose client certificates end soon
	hosts     []*host   // that deliveries go to, and those of URLs
}

// Check is a row: the object and the look at it. skipped says why it could not look.
type Check struct {
	Name  string
	About string
	run   func(context.Context, *Subject) (found []Finding, skipped string)
}

// System is what the operating system says. A test gives it other answers.
type System struct {
	Disk   func(dir string) (Disk, error)
	Owner  func(fs.FileInfo) (uid int, known bool)
	User   int
	Files  func() int   // limit of open files; 0: unknown
	Memory func() int64 // limit of memory; 0: none
	Sync   func(dir string) (time.Duration, error)
	Holder func(database string) int // process that uses it; 0: none
}

// Disk is a file system. Zero totals and an empty kind are unknown.
type Disk struct {
	Kind                            string
	Free, Total, FreeInodes, Inodes uint64
}

// serverState is what answers at the address of the server.
type serverState struct {
	runs    bool   // a Grapnel answers
	version string // of it
	refuses string // why it accepts no events; empty: it accepts them
}

// host is a place that deliveries go to, and how far a connection came.
type host struct {
	url      *url.URL
	address  string // host:port
	asked    bool   // it is the operator's URL, which gets a request
	resolved error
	dialled  error
	secured  error     // of the handshake
	until    time.Time // end of the certificate
	clock    time.Time // what its Date header said
	looked   time.Time // this clock then
}

// bad is an error, and worrying a warning.
func bad(what, why, do string) Finding { return Finding{Level: Error, What: what, Why: why, Do: do} }
func worrying(what, why, do string) Finding {
	return Finding{Level: Warning, What: what, Why: why, Do: do}
}
