package postgres

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// aDayOf fills the first of two days with events of 1 KiB. All were delivered at once but some late
// ones and one that is not delivered.
const aDayOf = `
	INSERT INTO target (endpoint, shard) VALUES ('ep', 0);
	INSERT INTO kind (tenant, type, source) VALUES ('acme', 'a.b', '');
	INSERT INTO event SELECT %[2]d + n, 'evt_' || n, 'acme', 1, '', %[3]d, %[3]d, %[2]d + n, %[2]d + n, 1, 'application/json', 0, 0, NULL,
		(SELECT string_agg(sha512((n + i)::text::bytea), '') FROM generate_series(1, 16) i), NULL FROM generate_series(1, %[1]d) n;
	INSERT INTO finished SELECT %[2]d + n, 1, %[2]d + n, 1, 0, 0, %[3]d, %[3]d + CASE WHEN n %% 1000 = 0 THEN 86400000000 ELSE 1000 END, 0, 0, 1, 200, 'delivered',
		'none', '', '', sha512(n::text::bytea) FROM generate_series(1, %[1]d) n;
	INSERT INTO tally VALUES (1, 'acme', 0, %[1]d, 0, %[1]d, 0, 0, 0, 0);`

// BenchmarkPurge measures the delay that a publisher sees while a day of events is removed, at once
// and row by row: it appends an event every two milliseconds. After each page of rows the purge
// pauses four times as long as the page took; that is the shortest pause that the engine uses. One
// iteration is one event.
//
//	go test ./internal/store/postgres -run '^$' -bench Purge -benchtime 1000000x
func BenchmarkPurge(b *testing.B) {
	own, err := pgtest.Start(b.Context(), pgtest.Options{Parent: os.TempDir(), Settings: map[string]string{"shared_buffers": "256MB",
		"max_wal_size": "4GB"}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = own.Stop() }()
	for i, c := range []struct {
		name  string
		slack time.Duration
	}{{"days", 24 * time.Hour}, {"rows", 0}} {
		b.Run(c.name, func(b *testing.B) {
			url, err := own.Create(b.Context(), fmt.Sprint("purge", i, "_", b.N))
			if err != nil {
				b.Fatal(err)
			}
			benchmarkPurge(b, url, c.slack)
		})
	}
}

func benchmarkPurge(b *testing.B, url string, slack time.Duration) {
	s, err := Open(b.Context(), url, Options{Bounds: Bounds{Conns: Conns{Patience: time.Minute}}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	today := s.days.known.Load().current
	then := midnight(today).Add(time.Hour)
	fill := fmt.Sprintf(aDayOf, b.N, begins(today), then.UnixMicro())
	for _, sql := range []string{fill, "VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := s.pool.Exec(b.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.begin(b.Context(), today+1); err != nil {
		b.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{})
	during := func(over <-chan struct{}) (took []time.Duration) {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case at := <-tick.C:
				e := &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, at, random), Tenant: "acme", Type: "a.b", Data: make([]byte, 900),
					AcceptedAt: at, OccurredAt: at}
				in := store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "ep", Trigger: grapnel.TriggerSchedule}}}
				if _, err := s.Append(b.Context(), store.Batch{Config: 1, Events: []store.Incoming{in}}); err != nil {
					b.Error(err)
					return []time.Duration{0}
				}
				took = append(took, time.Since(at))
			case <-over:
				slices.Sort(took)
				return append(took, 0)[:max(len(took), 1)]
			}
		}
	}
	part := func(took []time.Duration, p float64) float64 {
		return float64(took[min(int(p*float64(len(took))), len(took)-1)].Microseconds()) / 1000
	}
	for range 2 { // the second time all caches are warm
		over := make(chan struct{})
		timer := time.AfterFunc(4*time.Second, func() { close(over) })
		alone := during(over)
		timer.Stop()
		b.ReportMetric(part(alone, 0.99), "ms-p99-alone")
		b.ReportMetric(float64(alone[len(alone)-1].Microseconds())/1000, "ms-max-alone")
	}
	log := written(b, url)
	b.ResetTimer()
	over := make(chan struct{})
	var purging sync.WaitGroup
	pages := 0
	purging.Go(func() {
		defer close(over)
		keep := store.Keep{Now: then.Add(24*time.Hour + 30*24*time.Hour), For: 30 * 24 * time.Hour, Slack: slack}
		for removed := 0; removed < b.N-b.N/1000; pages++ {
			at := time.Now()
			n, err := s.Purge(b.Context(), keep, 2000)
			if removed += n; err != nil || n == 0 {
				b.Error(removed, err)
				return
			}
			if slack == 0 {
				time.Sleep(4 * time.Since(at))
			}
		}
	})
	together := during(over)
	purging.Wait()
	b.StopTimer()
	b.ReportMetric(b.Elapsed().Seconds(), "s-in-all")
	b.ReportMetric(part(together, 0.99), "ms-p99-purging")
	b.ReportMetric(float64(together[len(together)-1].Microseconds())/1000, "ms-max-purging")
	b.ReportMetric(float64(written(b, url)-log)/float64(b.N), "log-B/event")
	b.ReportMetric(float64(pages), "pages")
}
