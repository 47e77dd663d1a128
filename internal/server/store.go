package server

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store/commits"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/schema"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
)

// dir is the data directory. With PostgreSQL it contains only the admin key.
func (p Place) dir() string { return filepath.Dir(p.path) }

// disk returns the function that measures free space; nil: it cannot be measured here.
func (p Place) disk() func() (engine.DiskSpace, error) {
	if p.url != "" {
		return nil
	}
	return func() (engine.DiskSpace, error) { return spaceAt(filepath.Dir(p.file())) }
}

// space returns the function that measures space for the rule of alerts; nil: it cannot be
// measured. PostgreSQL does not say how much space its disk has, so the operator says how much the
// database may use (limit; 0: unknown).
func (p Place) space(of keeper, limit int64) func(context.Context) (free, total uint64, err error) {
	if disk := p.disk(); disk != nil {
		return func(context.Context) (free, total uint64, err error) {
			is, err := disk()
			return is.Free, is.Total, err
		}
	}
	if limit == 0 {
		return nil
	}
	size := p.size(of)
	return func(ctx context.Context) (free, total uint64, err error) {
		used, err := size(ctx)
		return uint64(max(limit-used, 0)), uint64(limit), err
	}
}

// ParseStore reads the value of --store. Errors do not repeat it: the URL of a database may contain
// a password.
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
	return Place{}, grapnel.Errorf(
		grapnel.CodeInvalid,
		"--store takes sqlite:PATH, such as %s, or the URL of a PostgreSQL database",
		DefaultStore,
	)
}

// Schema returns how far the schema of the database that --store names is. It changes nothing.
func Schema(ctx context.Context, o *Options) (schema.Status, error) {
	place, err := ParseStore(o.Store)
	switch {
	case err != nil:
		return schema.Status{}, err
	case place.url != "":
		return postgres.Inspect(ctx, place.url, o.StorePassword)
	}
	return sqlite.Inspect(ctx, place.path)
}

// Migrate brings that database to the schema of this program, and returns how far it was before.
func Migrate(ctx context.Context, o *Options) (schema.Status, error) {
	place, err := ParseStore(o.Store)
	switch {
	case err != nil:
		return schema.Status{}, err
	case place.url != "":
		return postgres.Migrate(ctx, place.url, o.StorePassword)
	}
	if err := place.makeDir(); err != nil {
		return schema.Status{}, err
	}
	return sqlite.Migrate(ctx, place.path)
}

// Shared says whether other servers may use the store at the same time.
func (p Place) Shared() bool { return p.url != "" }

// makeDir makes the data directory.
func (p Place) makeDir() error {
	if err := os.MkdirAll(p.dir(), 0o700); err != nil {
		return grapnel.Errorf(grapnel.CodeInvalid, "--store: creating the data directory failed: %v", err)
	}
	return nil
}

// longestPatience is the longest timeout of a call of the store: other nodes look for events of
// transactions that took up to half a minute.
const longestPatience = 10 * time.Second

// openStore opens the store of a place, and returns its metrics.
func openStore(ctx context.Context, place Place, seen *postgres.History, o *Options) (keeper, []prometheus.Collector, error) {
	b, log := &o.Bounds, o.Log
	if place.url != "" {
		inside := b.Postgres
		inside.Conns.Patience = cmp.Or(inside.Conns.Patience, min(cmp.Or(o.Lease, DefaultLease)/3, longestPatience))
		db, err := postgres.Open(ctx, place.url, postgres.Options{Bounds: inside, History: seen, Logger: log, Master: o.MasterKey.Within(b.Seal),
			Payloads: o.SealPayloads, Password: o.StorePassword})
		if err != nil {
			return nil, nil, err
		}
		return db, postgresNumbers(db), nil
	}
	if err := place.makeDir(); err != nil {
		return nil, nil, err
	}
	db, err := sqlite.Open(ctx, place.path, sqliteOptions(o))
	if err != nil {
		return nil, nil, err
	}
	return db, storeNumbers(db), nil
}

// sqliteOptions are those of the SQLite store.
func sqliteOptions(o *Options) sqlite.Options {
	return sqlite.Options{Bounds: o.Bounds.SQLite, Logger: o.Log, Master: o.MasterKey.Within(o.Bounds.Seal), Payloads: o.SealPayloads}
}

// storeNumbers are the numbers of the SQLite store.
func storeNumbers(db *sqlite.Store) []prometheus.Collector {
	return append(numbers(db.Stats, []number[sqlite.Stats]{
		{"grapnel_store_operations_total", "Operations that were committed; against commits, how many share one.", false,
			func(s sqlite.Stats) float64 { return float64(s.Operations) }},
		{"grapnel_store_written_bytes_total", "Bytes written to the journal, to the file of data and to the log of the tables.", false,
			func(s sqlite.Stats) float64 { return float64(s.Bytes) }},
		{"grapnel_store_flushes_total", "Commits that brought operations of the journal into the tables.", false,
			func(s sqlite.Stats) float64 { return float64(s.Flushes) }},
		{"grapnel_store_checkpoints_total", "Times the log was copied into the database.", false,
			func(s sqlite.Stats) float64 { return float64(s.Checkpoints) }},
		{"grapnel_store_log_pages", "Pages in the log that are not in the database yet.", true,
			func(s sqlite.Stats) float64 { return float64(s.LogPages) }},
		{"grapnel_store_damaged_total", "Reads that found an event whose bytes do not match their checksum.", false,
			func(s sqlite.Stats) float64 { return float64(s.Damaged) }},
		{"grapnel_store_queued", "Operations that wait for the next commit.", true,
			func(s sqlite.Stats) float64 { return float64(s.Queued) }},
	}), newCommits(func() commits.Counts { return db.Stats().Counts }))
}

// postgresNumbers are those of the PostgreSQL store.
func postgresNumbers(db *postgres.Store) []prometheus.Collector {
	return append(numbers(func() postgres.Stats { return db.Stats() }, []number[postgres.Stats]{
		{"grapnel_store_operations_total", "Operations that were committed; against commits, how many share one.", false,
			func(s postgres.Stats) float64 { return float64(s.Operations) }},
		{"grapnel_store_failed_total", "Transactions that were not committed.", false,
			func(s postgres.Stats) float64 { return float64(s.Failed) }},
		{"grapnel_store_unknown_total", "Transactions whose commit was not answered.", false,
			func(s postgres.Stats) float64 { return float64(s.Unknown) }},
		{"grapnel_store_repeated_total", "Transactions that were repeated after a conflict with another one.", false,
			func(s postgres.Stats) float64 { return float64(s.Spoiled) }},
		{"grapnel_store_damaged_total", "Reads that found an event whose bytes do not match their checksum.", false,
			func(s postgres.Stats) float64 { return float64(s.Damaged) }},
		{"grapnel_store_queued", "Operations that wait for the next commit.", true,
			func(s postgres.Stats) float64 { return float64(s.Queued) }},
		{"grapnel_store_connections", "Connections to the database.", true,
			func(s postgres.Stats) float64 { return float64(s.Connections) }},
		{"grapnel_store_connections_busy", "Connections to the database that are in use.", true,
			func(s postgres.Stats) float64 { return float64(s.Busy) }},
	}), newCommits(func() commits.Counts { return db.Stats().Counts }))
}

// histogram is the histogram of commits that a store keeps itself.
type histogram struct {
	read func() commits.Counts
	desc *prometheus.Desc
}

func newCommits(read func() commits.Counts) histogram {
	return histogram{read, prometheus.NewDesc("grapnel_store_commit_seconds", "How long commits took, synced.", nil, nil)}
}

// Describe sends the description of the metric.
func (h histogram) Describe(to chan<- *prometheus.Desc) { to <- h.desc }

// Collect sends the current histogram.
func (h histogram) Collect(to chan<- prometheus.Metric) {
	counts := h.read()
	below, buckets := uint64(0), map[float64]uint64{}
	for i, bound := range commits.Bounds() {
		below += uint64(counts.CommitBuckets[i])
		buckets[bound] = below
	}
	to <- prometheus.MustNewConstHistogram(h.desc, uint64(counts.Commits), counts.CommitSeconds, buckets)
}
