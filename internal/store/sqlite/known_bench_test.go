//go:build unix

package sqlite

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

var knownSize = flag.Int("known", 1_000_000, "how many events are known already in BenchmarkKnown")

// BenchmarkKnown measures the cost of checking and storing a Known: 64 publishers append events of
// 1 KiB with one delivery each and wait. They do so without it, with an intake, with a Known as
// well, and with many stored ones. The last case is duplicates. One iteration is one event.
//
//	go test ./internal/store/sqlite -run '^$' -bench Known -benchtime 100000x -known 10000000
func BenchmarkKnown(b *testing.B) {
	for _, c := range []struct {
		name           string
		intake, known  bool
		before, unlike int
	}{
		{name: "without"},
		{name: "intake", intake: true},
		{name: "known", intake: true, known: true},
		{name: fmt.Sprint("among-", *knownSize), intake: true, known: true, before: *knownSize},
		{name: "duplicates", intake: true, known: true, unlike: 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			makeKnown(b, s, c.before)
			target := []store.Target{{Endpoint: "ep_1", Trigger: grapnel.TriggerSchedule}}
			const publishers = 64
			var left, fresh atomic.Int64
			left.Store(int64(b.N))
			before, cpu := s.Stats(), cpuSeconds()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range publishers {
				all.Go(func() {
					random := rand.NewChaCha8([32]byte{byte(i)})
					for left.Add(-1) >= 0 {
						now := time.Now()
						e := &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, now, random), Tenant: grapnel.DefaultTenant, Type: "invoice.paid",
							ContentType: grapnel.JSONType, Data: make([]byte, 1024), OccurredAt: now, AcceptedAt: now}
						_, _ = random.Read(e.Data)
						in := store.Incoming{Event: e, Targets: target}
						if c.intake {
							e.Source, e.Intake = "src_1", someIntake(now)
						}
						if c.known {
							in.Known = &store.Known{Source: "src_1", By: e.Data[:32], Until: now.Add(grapnel.DefaultDedupeWindow)}
							if c.unlike > 0 {
								in.Known.By = fmt.Append(nil, random.Uint64()%uint64(c.unlike))
							}
						}
						done, err := s.Append(context.Background(), store.Batch{Config: 1, Events: []store.Incoming{in}})
						if err != nil {
							b.Error(err)
							return
						}
						if !done.Events[0].Duplicate {
							fresh.Add(1)
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			if want := int64(b.N); c.unlike == 0 && fresh.Load() != want {
				b.Errorf("%d of %d events were new", fresh.Load(), want)
			}
			after := s.Stats()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric((cpuSeconds()-cpu)*1e6/float64(b.N), "cpu-µs/event")
			b.ReportMetric(float64(after.Operations-before.Operations)/float64(after.Commits-before.Commits), "operations/commit")
			b.ReportMetric(float64(after.Bytes-before.Bytes)/float64(b.N), "log-B/event")
		})
	}
}

// someIntake resembles a webhook's header.
func someIntake(at time.Time) *grapnel.Intake {
	in := &grapnel.Intake{Source: "src_1", At: at, Method: "POST", Path: "/in/src_1", Remote: "192.0.2.1:40000", By: grapnel.ByEventID,
		Known: "evt_1NG8Du2eZvKYlo2CUI79vXWy", Checks: []grapnel.Check{{Passed: true, Text: "timestamp 1 s old"}, {Passed: true,
			Text: "signature matches secret 1 of 1"}}}
	for _, h := range []string{"User-Agent", "Accept", "Content-Type", "Content-Length", "Cache-Control", "Stripe-Signature",
		"Accept-Encoding", "Host"} {
		in.Headers = append(in.Headers, grapnel.Header{Name: h, Value: "a value of a header that is not so long"})
	}
	return in
}

// makeKnown stores n Known records of purged events.
func makeKnown(b *testing.B, s *Store, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	err := s.write(b.Context(), &change{do: func(t *tx) error {
		t.events.last = int64(n)
		return t.conn.Exec(fmt.Sprintf(`WITH RECURSIVE i(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM i WHERE n < %d)
			INSERT INTO known SELECT n, randomblob(16), randomblob(32), 2000000000000000 + n, n, 1, 'evt_' || (1000000000000000000000 + n) FROM i;
			INSERT INTO known_key SELECT random() & ((1 << 47) - 1), seq FROM known ORDER BY 1;
			UPDATE known_moved SET seq = %[1]d`, n))
	}})
	if err == nil {
		err = s.empty(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkUnlearn measures deleting expired Known records, a thousand at a time, and the delay of
// a publisher that appends an event every two milliseconds. One iteration is one record.
//
//	go test ./internal/store/sqlite -run '^$' -bench Unlearn -benchtime 20000x
func BenchmarkUnlearn(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	makeKnown(b, s, b.N)
	var took, calls []time.Duration
	var all sync.WaitGroup
	done := make(chan struct{})
	all.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case at := <-tick.C:
				e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Data: make([]byte, 900), AcceptedAt: at}
				k := &store.Known{Source: "src_1", By: []byte(e.ID), Until: at.Add(10000 * time.Hour)}
				if _, err := s.Append(b.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Known: k}}}); err != nil {
					b.Error(err)
					return
				}
				took = append(took, time.Since(at))
			}
		}
	})
	b.ResetTimer()
	for n := 1; n > 0; {
		at := time.Now()
		if n, err = s.Unlearn(b.Context(), time.UnixMicro(2e15+1e12), time.Time{}, 1000); err != nil {
			b.Fatal(err)
		}
		calls = append(calls, time.Since(at))
	}
	b.StopTimer()
	close(done)
	all.Wait()
	slices.Sort(took)
	slices.Sort(calls)
	b.ReportMetric(calls[len(calls)/2].Seconds()*1000, "ms-p50/call")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-p50/append")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms-p99/append")
}
