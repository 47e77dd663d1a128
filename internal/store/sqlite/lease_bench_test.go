//go:build unix

package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// BenchmarkLeases measures the store's work for a queue's consumers: 16 of them claim some
// deliveries at a time and settle them in one call. One iteration is one delivery, claimed and
// settled. The deliveries were published before.
//
//	go test ./internal/store/sqlite -run '^$' -bench Leases -benchtime 50000x
func BenchmarkLeases(b *testing.B) {
	for _, c := range []struct {
		name string
		consumption
	}{
		{"single", consumption{batch: 1}},
		{"batch=100", consumption{batch: 100}},
		{"looked-up", consumption{batch: 1, look: true}},
		{"keys=1000000", consumption{batch: 1, keys: 1_000_000}},
		{"nack", consumption{batch: 1, nack: true}},
		{"held=10000", consumption{batch: 1, held: 10_000}},
	} {
		b.Run(c.name, func(b *testing.B) { consume(b, c.consumption) })
	}
}

// consumption is the load of a benchmark on a queue.
type consumption struct {
	batch int
	keys  int  // 0: events have no key
	look  bool // the lease is read by its token before it is settled
	nack  bool // settled deliveries become due again much later
	held  int  // leases that stay unsettled meanwhile
}

func consume(b *testing.B, c consumption) {
	const consumers = 16
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	flushQueue(b, s, b.N+c.held, c.keys)
	var tokens atomic.Int64
	claim := func(consumer string, n int, long time.Duration) []grapnel.Lease {
		wants := make([]store.Want, n)
		for i := range wants {
			token := fmt.Sprintf("lse_%026x", uint64(tokens.Add(1))*0x9e3779b97f4a7c15)
			wants[i] = store.Want{Token: token, Consumer: consumer, For: long, Most: 1_000_000}
		}
		done, err := s.Claim(context.Background(), store.Claim{Queue: "que", Wants: wants, Now: time.Now()})
		if err != nil || len(done.Over) > 0 {
			b.Errorf("%d are over: %v", len(done.Over), err)
		}
		return done.Leases
	}
	if len(claim("idle", c.held, time.Hour)) != c.held {
		b.Fatal("too little was leased")
	}
	before, cpu := s.Stats(), cpuSeconds()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range consumers {
		all.Go(func() {
			name := "consumer_" + strconv.Itoa(i)
			for left.Load() > 0 {
				leases := claim(name, c.batch, time.Hour)
				if len(leases) == 0 {
					return
				}
				left.Add(-int64(len(leases)))
				if err := c.settle(s, leases); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	stats := s.Stats()
	if list, err := s.LeaseList(b.Context(), "que", b.N+c.held); err != nil || len(list) != c.held {
		b.Fatal(len(list), err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric((cpuSeconds()-cpu)*1e6/float64(b.N), "cpu-µs/message")
	b.ReportMetric(float64(stats.Operations-before.Operations)/float64(stats.Commits-before.Commits), "operations/commit")
	b.ReportMetric(float64(stats.Bytes-before.Bytes)/float64(b.N), "log-B/message")
}

func (c consumption) settle(s *Store, leases []grapnel.Lease) error {
	now := time.Now()
	changes := make([]store.Change, len(leases))
	for i, l := range leases {
		if c.look {
			if _, err := s.Lease(context.Background(), l.Token); err != nil {
				return err
			}
		}
		ch := store.Change{Delivery: l.Delivery, Expect: l.Number - 1, At: now, Status: grapnel.Delivered, Reason: "delivered",
			Lease: &store.Settlement{Token: l.Token}, Trigger: grapnel.TriggerSchedule,
			Attempt: &grapnel.Attempt{Number: l.Number, Trigger: l.Trigger, ScheduledFor: l.Scheduled, StartedAt: l.GrantedAt,
				Duration: now.Sub(l.GrantedAt), Class: policy.ClassNone, Decision: policy.Deliver}}
		if c.nack {
			ch.Status, ch.Due, ch.Reason = grapnel.Pending, now.Add(time.Hour), "nack"
			ch.Attempt.Class, ch.Attempt.Decision = policy.ClassNack, policy.Retry
		}
		changes[i] = ch
	}
	done, err := s.Record(context.Background(), changes)
	for i := range done {
		if !done[i].Applied {
			return fmt.Errorf("the change of %d did not apply: %+v", changes[i].Delivery, done[i])
		}
	}
	return err
}

// flushQueue publishes messages of a quarter of a KiB to a queue.
func flushQueue(b *testing.B, s *Store, n, keys int) {
	for first := 0; first < n; first += 1000 {
		batch := store.Batch{Config: 1}
		for i := first; i < min(first+1000, n); i++ {
			e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Data: make([]byte, 256), AcceptedAt: time.Now()}
			if keys > 0 {
				e.Key = fmt.Sprint("key_", uint64(i)*0x9e3779b97f4a7c15%uint64(keys))
			}
			batch.Events = append(batch.Events, store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "que", Ordered: true}}})
		}
		if _, err := s.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQueueCounts counts a queue with a million pending deliveries, on a connection for
// reading, and an empty one.
//
//	go test ./internal/store/sqlite -run '^$' -bench QueueCounts
func BenchmarkQueueCounts(b *testing.B) {
	for _, n := range []int{0, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			flushQueue(b, s, n, 0)
			b.ResetTimer()
			for range b.N {
				if c, err := s.QueueCounts(b.Context(), "que", time.Now()); err != nil || c.Ready != int64(n) {
					b.Fatal(c, err)
				}
			}
		})
	}
}
