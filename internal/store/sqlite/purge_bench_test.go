package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// BenchmarkPurge is what others notice of a purge: someone appends an event every two milliseconds, first alone, then while all that
// is over is purged in pages with pauses four times as long in between. One iteration is one delivery removed.
//
//	go test ./internal/store/sqlite -run '^$' -bench Purge -benchtime 20000x
func BenchmarkPurge(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stocked(b, s, base, b.N, 500)
	keep := store.Keep{Now: base.Add(time.Duration(b.N) * 2 * time.Second)}
	number := 0
	during := func(until <-chan struct{}) (took []time.Duration) {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-until:
				slices.Sort(took)
				return took
			case at := <-tick.C:
				number++
				e := &grapnel.Event{ID: fmt.Sprint("evt_live_", number), Tenant: "acme", Type: "a.b", Data: make([]byte, 900), AcceptedAt: keep.Now}
				in := store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "ep"}}}
				if _, err := s.Append(b.Context(), store.Batch{Config: 1, Events: []store.Incoming{in}}); err != nil {
					b.Error(err)
					return nil
				}
				took = append(took, time.Since(at))
			}
		}
	}
	part := func(took []time.Duration, p float64) float64 {
		return float64(took[min(int(p*float64(len(took))), len(took)-1)].Microseconds()) / 1000
	}
	quiet := make(chan struct{})
	time.AfterFunc(3*time.Second, func() { close(quiet) })
	alone := during(quiet)
	var together []time.Duration
	var pages []time.Duration
	var all sync.WaitGroup
	done := make(chan struct{})
	all.Go(func() { together = during(done) })
	b.ResetTimer()
	for removed := 0; removed < b.N; {
		at := time.Now()
		n, err := s.Purge(b.Context(), keep, 200)
		if err != nil || n == 0 {
			b.Fatal(n, err)
		}
		removed += n
		pages = append(pages, time.Since(at))
		<-time.After(4 * time.Since(at))
	}
	b.StopTimer()
	close(done)
	all.Wait()
	slices.Sort(pages)
	b.ReportMetric(part(alone, 0.5), "ms-p50-alone")
	b.ReportMetric(part(together, 0.5), "ms-p50-purging")
	b.ReportMetric(part(alone, 0.99), "ms-p99-alone")
	b.ReportMetric(part(together, 0.99), "ms-p99-purging")
	b.ReportMetric(part(pages, 0.5), "ms/page")
	b.ReportMetric(s.Stats().CommitSeconds/float64(s.Stats().Commits)*1000, "ms/commit")
}
