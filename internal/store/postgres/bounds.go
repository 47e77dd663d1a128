package postgres

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Names int `bound:"65536"` // endpoints, and kinds of events, whose numbers are kept in memory

	// Writers. A transaction takes enough requests to spread its cost, and few enough that their
	// callers wait only briefly.
	Requests     int   `bound:"256"`           // in one transaction
	RequestBytes int64 `bound:"4MiB" tiny:"8"` // in one transaction, after which it takes no more
	Line         int   `bound:"256"`           // queued requests; callers beyond it wait to queue
	// requests with which a transaction stops looking for more: a sync costs each of them less than
	// its rows
	Enough int `bound:"16"`
	// Few transactions run at once, so that they are large: the statements of a small one cost more
	// than its rows. Further ones begin while Crowd requests wait: the database answers slowly then.
	Few   int `bound:"2" tiny:"1"`
	Crowd int `bound:"64" tiny:"2"`
	// Fewer than Together requests with events wait for another until the last transaction with events
	// began Apart ago. After waits that brought none, at most Unshared transactions do not wait.
	Together int           `bound:"2"`
	Apart    time.Duration `bound:"4500us" tiny:"1ms"`
	Unshared int           `bound:"64" tiny:"1"`

	Tries int `bound:"10" least:"8"` // of a transaction that conflicts with others
	Slots int `bound:"16"`           // rows over which a count is spread, so that writers do not wait for each other

	// Pages: rows in one statement, or in one transaction.
	EndPage   int `bound:"1000"` // deliveries ended or made due
	PurgePage int `bound:"500"`  // events examined; other transactions that refer to finished deliveries wait meanwhile
	SweepPage int `bound:"2000"` // rows that remain from a deleted day
	MergePage int `bound:"1000"` // totals
	ListPage  int `bound:"1000"` // events listed
	// endpoints, or kinds, that a list visits one by one; with more it scans from the newest row on
	ListTargets int           `bound:"512"`
	ListDays    int           `bound:"4" tiny:"1"`      // days in which a list looks first; see starts
	ListAgain   int           `bound:"1000"`            // redeliveries whose events a list looks up one by one
	FeedWait    time.Duration `bound:"50ms" tiny:"1ms"` // a read of a feed waits for transactions that may commit lower row ids
	SearchPage  int           `bound:"200"`             // deliveries searched
	SearchRead  int           `bound:"16"`              // of them, whose events are read at once
	SearchRows  int           `bound:"50000"`           // finished deliveries that the database examines for them
	SearchMost  int           `bound:"2000"`            // deliveries that one call searches
	Looked      int           `bound:"5000"`            // deliveries of a status that one call of Candidates examines
	SearchBytes int64         `bound:"32MiB" tiny:"64"` // event data that one call searches

	// Days.
	DaysAhead int           `bound:"2"`             // days after today that have tables
	DaysNamed int           `bound:"3"`             // days whose tables a statement names; connections keep its text
	DayStays  int           `bound:"5000"`          // rows that survive when a day is cleared: they are rewritten while readers are excluded
	DayWorth  int           `bound:"4"`             // deleted rows per surviving row that a clearing must reach
	DayAgain  time.Duration `bound:"1h" tiny:"1ms"` // until a day with too many surviving rows is reconsidered

	Changes int `bound:"1024"` // number of latest versions of the configuration whose changes are stored

	Documents store.DocumentBounds

	Conns Conns

	Passwords PasswordBounds
}

// PasswordBounds limit the reading of a password that may change.
type PasswordBounds struct {
	// Stays is for how long connections share the output of a command: a store that connects anew
	// opens all its connections at once.
	Stays  time.Duration `bound:"10s" tiny:"1ms"`
	Within time.Duration `bound:"30s"`               // for a command, which may hang
	Most   int64         `bound:"64KiB" tiny:"1KiB"` // bytes of a file; tokens of clouds have up to 4 KiB
}

// Conns bounds the connections of a store. Each kind of use has its own, so that a slow use of one
// kind never delays another.
type Conns struct {
	Ownership int `bound:"2"` // for leases of shards and the list of nodes
	Engine    int `bound:"4"` // for reads of publishing and delivering
	Writes    int `bound:"4"` // for transactions that write; each writer has one
	// Reads are for lists, searches and counts of the API, and for chores: purges, days, moves.
	Reads int `bound:"6" least:"3"`

	// Patience is the limit of a transaction, or of a read for the engine. When a call exceeds it, all
	// connections are replaced: the answer will not come, because the other machine cannot be reached.
	// The server sets a third of the lease, so that a node renews in time over new connections.
	Patience time.Duration `bound:"5s"`
	Reading  time.Duration `bound:"5s"` // of a read for the API; the database ends longer ones
	// Idle is how long a transaction may wait for its node's next statement. Then the database ends it
	// and releases its locks. Without this limit a node that froze or was cut off between two
	// statements would block others from its shards until the kernel notices, which takes hours.
	Idle  time.Duration `bound:"3s"`
	Ping  time.Duration `bound:"1s"`    // for a check whether an idle connection still works
	Stall time.Duration `bound:"2s"`    // until writes that wait without any commit, or an unanswered probe, make the store unable
	Probe time.Duration `bound:"500ms"` // pause between two probes of a store that is unable, or that gets no writes
}
