package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/policy"
)

// BenchmarkStore measures the store's work for a delivery that succeeds at the first attempt: 64
// publishers append an event of 1 KiB with one delivery each and wait, and a recorder records all
// new outcomes in one call. One iteration is one delivery. The server syncs to a disk: its
// directory is the one for temporary files, not in memory.
//
//	go test ./internal/store/postgres -run '^$' -bench Store -benchtime 50000x
func BenchmarkStore(b *testing.B) {
	own, err := pgtest.Start(b.Context(), pgtest.Options{Parent: os.TempDir(),
		Settings: map[string]string{"shared_buffers": "256MB", "max_wal_size": "4GB"}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = own.Stop() }()
	n := 0
	for _, c := range []struct {
		name string
		load
	}{
		{"plain", load{publishers: 64, targets: 1}},
		{"keys=100", load{publishers: 64, targets: 1, keys: 100}},
		{"keys=1000000", load{publishers: 64, targets: 1, keys: 1_000_000}},
		{"targets=8", load{publishers: 64, targets: 8}},
		{"publishers=256", load{publishers: 256, targets: 1}},
		{"publishers=1", load{publishers: 1, targets: 1}},
	} {
		b.Run(c.name, func(b *testing.B) {
			n++
			url, err := own.Create(b.Context(), fmt.Sprint("bench", n))
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, url, c.load)
		})
	}
}

// load describes a benchmark's work.
type load struct {
	publishers int
	targets    int // per event
	keys       int // 0: events have no key
}

// written is the number of bytes that the server has written to its log.
func written(b *testing.B, url string) (bytes int64) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(b.Context()) }()
	if err := conn.QueryRow(b.Context(), "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&bytes); err != nil {
		b.Fatal(err)
	}
	return bytes
}

func benchmark(b *testing.B, url string, l load) {
	keys, targets, publishers := l.keys, l.targets, l.publishers
	s, err := Open(b.Context(), url, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	want := make([]store.Target, targets)
	for i := range want {
		want[i] = store.Target{Endpoint: fmt.Sprint("ep_", i), Ordered: true, Trigger: grapnel.TriggerSchedule}
	}
	heads := make(chan []store.Head, publishers)
	var recorder sync.WaitGroup
	recorder.Go(func() { record(b, s, heads) })

	log := written(b, url)
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var appenders sync.WaitGroup
	for i := range publishers {
		appenders.Go(func() {
			random := rand.NewChaCha8([32]byte{byte(i)})
			pick := rand.New(random)
			for left.Add(int64(-targets)) > int64(-targets) {
				now := time.Now()
				e := &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, now, random), Tenant: grapnel.DefaultTenant, Type: "invoice.paid",
					ContentType: grapnel.JSONType, Data: make([]byte, 1024), OccurredAt: now, AcceptedAt: now}
				_, _ = random.Read(e.Data)
				if keys > 0 {
					e.Key = fmt.Sprintf("invoice_%d", pick.IntN(keys))
				}
				done, err := s.Append(context.Background(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Targets: want}}})
				if err != nil {
					b.Error(err)
					return
				}
				heads <- done.Heads
			}
		})
	}
	appenders.Wait()
	close(heads)
	recorder.Wait()
	b.StopTimer()
	stats := s.Stats()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric(float64(stats.Operations)/float64(stats.Commits), "operations/commit")
	b.ReportMetric(float64(written(b, url)-log)/float64(b.N), "log-B/delivery")
	b.ReportMetric(float64(stats.Spoiled), "made-again")
}

// record records every delivery as delivered, and the next heads after them.
func record(b *testing.B, s *Store, heads <-chan []store.Head) {
	var changes []store.Change
	add := func(hs ...store.Head) {
		for _, h := range hs {
			now := time.Now()
			changes = append(changes, store.Change{
				Delivery: h.Delivery, Expect: h.Attempts, Lone: h.Lane == "", At: now, Status: grapnel.Delivered, Reason: "delivered",
				Attempt: &grapnel.Attempt{Number: 1, Trigger: h.Trigger, ScheduledFor: h.Due, StartedAt: now, Duration: 3 * time.Millisecond,
					Phases: grapnel.Phases{FirstByte: 2 * time.Millisecond, Reused: true}, StatusCode: 200, Class: policy.ClassNone,
					Decision: policy.Deliver, ResponseHeaders: map[string]string{"content-type": "text/plain"}, ResponseBody: []byte("ok")},
			})
		}
	}
	for open := true; open || len(changes) > 0; {
		for gather := true; gather && len(changes) < 1000; {
			if len(changes) == 0 && open {
				hs, more := <-heads
				open = more
				add(hs...)
				continue
			}
			select {
			case hs, more := <-heads:
				open = more
				gather = more
				add(hs...)
			default:
				gather = false
			}
		}
		done, err := s.Record(context.Background(), changes)
		if err != nil {
			b.Error(err)
			return
		}
		changes = changes[:0]
		for _, d := range done {
			if !d.Applied {
				b.Errorf("a change did not apply: %+v", d)
			}
			if d.Next != nil {
				add(*d.Next)
			}
		}
	}
}
