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

// BenchmarkPurge measures the effect of a purge on others: a publisher appends an event every two
// milliseconds, in windows without other load and in windows in which all finished deliveries are
// purged in pages, in turn. After each page the purge pauses for a multiple of the page's duration:
// the engine uses 199 while it has time, and 4 when it is late. One iteration is one delivery
// removed.
//
//	go test ./internal/store/sqlite -run '^$' -bench Purge -benchtime 4000x
func BenchmarkPurge(b *testing.B) {
	for _, times := range []int{4, 199} {
		b.Run(fmt.Sprint("others=", times), func(b *testing.B) { benchmarkPurge(b, time.Duration(times)) })
	}
}

func benchmarkPurge(b *testing.B, times time.Duration) {
	const window = 4 * time.Second
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stocked(b, s, base, b.N, 500)
	keep := store.Keep{Now: base.Add(time.Duration(b.N) * 2 * time.Second)}
	number := 0
	during := func() (took []time.Duration) {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(window); time.Now().Before(end); {
			at := <-tick.C
			number++
			e := &grapnel.Event{ID: fmt.Sprint("evt_live_", number), Tenant: "acme", Type: "a.b", Data: make([]byte, 900), AcceptedAt: keep.Now}
			in := store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "ep"}}}
			if _, err := s.Append(b.Context(), store.Batch{Config: 1, Events: []store.Incoming{in}}); err != nil {
				b.Error(err)
				return nil
			}
			took = append(took, time.Since(at))
		}
		slices.Sort(took)
		return took
	}
	part := func(took []time.Duration, p float64) float64 {
		return float64(took[min(int(p*float64(len(took))), len(took)-1)].Microseconds()) / 1000
	}
	middle := func(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }
	during() // warms up
	removed, rest := 0, time.Duration(0)
	var pages, typical, alone, together []float64
	// purge takes pages until the window ends; the rest of a pause counts for the next.
	purge := func(over <-chan struct{}) {
		for removed < b.N {
			began := time.Now()
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-over:
				timer.Stop()
				rest -= time.Since(began)
				return
			}
			at := time.Now()
			n, err := s.Purge(b.Context(), keep, 200)
			if err != nil || n == 0 {
				b.Error(n, err)
				return
			}
			removed += n
			pages = append(pages, float64(time.Since(at).Microseconds())/1000)
			rest = times * time.Since(at)
		}
	}
	b.ResetTimer()
	for removed < b.N && !b.Failed() {
		without := during()
		over := make(chan struct{})
		var purging sync.WaitGroup
		purging.Go(func() { purge(over) })
		with := during()
		close(over)
		purging.Wait()
		typical = append(typical, part(without, 0.5))
		alone, together = append(alone, part(without, 0.99)), append(together, part(with, 0.99))
	}
	b.StopTimer()
	b.ReportMetric(middle(typical), "ms-p50-alone")
	b.ReportMetric(middle(alone), "ms-p99-alone")
	b.ReportMetric(middle(together), "ms-p99-purging")
	b.ReportMetric(middle(together)/middle(alone), "ratio-p99")
	b.ReportMetric(middle(pages), "ms/page")
	b.ReportMetric(float64(len(alone)), "pairs")
}
