package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/engine"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
)

// Place is where data are kept.
type Place struct {
	path string // of the SQLite database
	url  string // of the PostgreSQL database, in place of that
}

// dir is the data directory. With PostgreSQL it has nothing in it but the admin key.
func (p Place) dir() string { return filepath.Dir(p.path) }

// disk says how much room there is for data; nil: that cannot be known here.
func (p Place) disk() func() (engine.Room, error) {
	if p.url != "" {
		return nil
	}
	return func() (engine.Room, error) { return roomAt(p.dir()) }
}

// ParseStore reads the value of --store. Errors do not repeat it: the URL of a database has a password in it.
func ParseStore(text string) (Place, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case ok && scheme == "sqlite" && rest != "" && !strings.HasSuffix(rest, "/"):
		return Place{path: filepath.Clean(rest)}, nil
	case ok && scheme == "sqlite":
		return Place{}, grapnel.Errorf(grapnel.CodeInvalid, "--store sqlite: needs the path of a database file, such as %s", DefaultStore)
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		if err := postgres.Check(text); err != nil {
			return Place{}, grapnel.Errorf(grapnel.CodeInvalid, "--store: this is not the URL of a PostgreSQL database")
		}
		return Place{path: strings.TrimPrefix(DefaultStore, "sqlite:"), url: text}, nil
	}
	return Place{}, grapnel.Errorf(grapnel.CodeInvalid, "--store takes sqlite:PATH, such as %s, or the URL of a PostgreSQL database", DefaultStore)
}

// keeper is what the server needs of a store besides its contract.
type keeper interface {
	store.Store
	Fatal() <-chan error // an error after which the process has to end
}

// shared is a store that other nodes use as well. What becomes of it is for each of its writes to say.
type shared struct{ *postgres.Store }

// Fatal never delivers anything.
func (shared) Fatal() <-chan error { return nil }

// openStore opens the store, and returns what measures it.
func (s *Server) openStore(ctx context.Context, place Place) ([]prometheus.Collector, error) {
	if place.url != "" {
		db, err := postgres.Open(ctx, place.url, postgres.Options{Logger: s.log})
		if err != nil {
			return nil, err
		}
		s.store = shared{db}
		return postgresNumbers(db), nil
	}
	if err := os.MkdirAll(place.dir(), 0o700); err != nil {
		return nil, grapnel.Errorf(grapnel.CodeInvalid, "--store: the data directory cannot be made: %v", err)
	}
	db, err := sqlite.Open(ctx, place.path, sqlite.Options{Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.store = db
	return storeNumbers(db), nil
}

// storeNumbers are the numbers of the SQLite store.
func storeNumbers(db *sqlite.Store) []prometheus.Collector {
	return append(numbers(db.Stats, []number[sqlite.Stats]{
		{"grapnel_store_operations_total", "Operations that were committed; against commits, how many share one.", false,
			func(s sqlite.Stats) float64 { return float64(s.Operations) }},
		{"grapnel_store_written_bytes_total", "Bytes written to the write-ahead log.", false,
			func(s sqlite.Stats) float64 { return float64(s.Bytes) }},
		{"grapnel_store_checkpoints_total", "Times the log was copied into the database.", false,
			func(s sqlite.Stats) float64 { return float64(s.Checkpoints) }},
		{"grapnel_store_log_pages", "Pages in the log that are not in the database yet.", true,
			func(s sqlite.Stats) float64 { return float64(s.LogPages) }},
		{"grapnel_store_queued", "Operations that wait for the next commit.", true,
			func(s sqlite.Stats) float64 { return float64(s.Queued) }},
		{"grapnel_store_full", "1 while the disk is full and new events are refused.", true,
			func(s sqlite.Stats) float64 {
				if s.Full {
					return 1
				}
				return 0
			}},
	}), newCommits(sqlite.CommitBounds(), func() (int64, float64, []int64) {
		s := db.Stats()
		return s.Commits, s.CommitSeconds, s.CommitBuckets
	}))
}

// postgresNumbers are those of the PostgreSQL store.
func postgresNumbers(db *postgres.Store) []prometheus.Collector {
	return append(numbers(db.Stats, []number[postgres.Stats]{
		{"grapnel_store_operations_total", "Operations that were committed; against commits, how many share one.", false,
			func(s postgres.Stats) float64 { return float64(s.Operations) }},
		{"grapnel_store_failed_total", "Transactions that were not committed.", false,
			func(s postgres.Stats) float64 { return float64(s.Failed) }},
		{"grapnel_store_unknown_total", "Transactions whose commit was not answered.", false,
			func(s postgres.Stats) float64 { return float64(s.Unknown) }},
		{"grapnel_store_repeated_total", "Transactions that were made again because another one came in between.", false,
			func(s postgres.Stats) float64 { return float64(s.Spoiled) }},
		{"grapnel_store_queued", "Operations that wait for the next commit.", true,
			func(s postgres.Stats) float64 { return float64(s.Queued) }},
		{"grapnel_store_connections", "Connections to the database.", true,
			func(s postgres.Stats) float64 { return float64(s.Connections) }},
		{"grapnel_store_connections_busy", "Connections to the database that are in use.", true,
			func(s postgres.Stats) float64 { return float64(s.Busy) }},
	}), newCommits(postgres.CommitBounds(), func() (int64, float64, []int64) {
		s := db.Stats()
		return s.Commits, s.CommitSeconds, s.CommitBuckets
	}))
}

// commits is the histogram that a store keeps itself.
type commits struct {
	bounds []float64
	read   func() (count int64, seconds float64, buckets []int64)
	desc   *prometheus.Desc
}

func newCommits(bounds []float64, read func() (int64, float64, []int64)) commits {
	return commits{bounds, read, prometheus.NewDesc("grapnel_store_commit_seconds", "How long commits took, synced.", nil, nil)}
}

// Describe says what Collect will give.
func (c commits) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect gives the histogram of now.
func (c commits) Collect(to chan<- prometheus.Metric) {
	count, seconds, found := c.read()
	below, buckets := uint64(0), map[float64]uint64{}
	for i, bound := range c.bounds {
		if i < len(found) {
			below += uint64(found[i])
		}
		buckets[bound] = below
	}
	to <- prometheus.MustNewConstHistogram(c.desc, uint64(count), seconds, buckets)
}
