package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
)

// Place is where data are kept.
type Place struct {
	path string // of the SQLite database
}

// dir is the data directory.
func (p Place) dir() string { return filepath.Dir(p.path) }

// ParseStore reads the value of --store. Errors do not repeat it: the URL of a database has a password in it.
func ParseStore(text string) (Place, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case ok && scheme == "sqlite" && rest != "" && !strings.HasSuffix(rest, "/"):
		return Place{path: filepath.Clean(rest)}, nil
	case ok && scheme == "sqlite":
		return Place{}, grapnel.Errorf(grapnel.CodeInvalid, "--store sqlite: needs the path of a database file, such as %s", DefaultStore)
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		return Place{}, grapnel.Errorf(grapnel.CodeInvalid,
			"this version does not keep data in PostgreSQL yet; use --store %s, on a disk of this machine", DefaultStore)
	}
	return Place{}, grapnel.Errorf(grapnel.CodeInvalid, "--store takes sqlite:PATH, such as %s", DefaultStore)
}

// keeper is what the server needs of a store besides its contract.
type keeper interface {
	store.Store
	Fatal() <-chan error // an error after which the process has to end
}

// openStore opens the store, and returns what measures it.
func (s *Server) openStore(ctx context.Context, place Place) ([]prometheus.Collector, error) {
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
	}), commits{db, prometheus.NewDesc("grapnel_store_commit_seconds", "How long commits took, synced.", nil, nil)})
}

// commits is the histogram that the store keeps itself.
type commits struct {
	db   *sqlite.Store
	desc *prometheus.Desc
}

// Describe says what Collect will give.
func (c commits) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect gives the histogram of now.
func (c commits) Collect(to chan<- prometheus.Metric) {
	stats, below, buckets := c.db.Stats(), uint64(0), map[float64]uint64{}
	for i, bound := range sqlite.CommitBounds() {
		if i < len(stats.CommitBuckets) {
			below += uint64(stats.CommitBuckets[i])
		}
		buckets[bound] = below
	}
	to <- prometheus.MustNewConstHistogram(c.desc, uint64(stats.Commits), stats.CommitSeconds, buckets)
}
