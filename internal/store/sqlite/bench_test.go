//go:build unix

package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// BenchmarkStore measures the store's work for a delivery that succeeds at the first attempt: 64
// publishers append an event of 1 KiB with one delivery each and wait, and a recorder records all
// outcomes that came meanwhile in one call. One iteration is one delivery.
//
//	go test ./internal/store/sqlite -run '^$' -bench Store -benchtime 200000x
func BenchmarkStore(b *testing.B) {
	for _, c := range []struct {
		name string
		load
	}{
		{"plain", load{publishers: 64, targets: 1}},
		{"keys=100", load{publishers: 64, targets: 1, keys: 100}},
		{"keys=1000000", load{publishers: 64, targets: 1, keys: 1_000_000}},
		{"targets=8", load{publishers: 64, targets: 8}},
		{"busy", load{publishers: 64, targets: 1, work: 40 * time.Microsecond}},
		{"publishers=1", load{publishers: 1, targets: 1}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmark(b, c.load) })
	}
}

// load is the load of a benchmark on the store.
type load struct {
	publishers int
	targets    int           // of each event
	keys       int           // 0: events have no key
	work       time.Duration // processor time before an event is appended and before a delivery is recorded, in place of HTTP's
}

// spin works for a time as measured on an idle machine; on a busy one it takes longer, like
// everything else.
func (l load) spin() {
	block := make([]byte, 1024)
	for range l.work / time.Microsecond {
		sha256.Sum256(block)
	}
}

func benchmark(b *testing.B, l load) {
	keys, targets, publishers := l.keys, l.targets, l.publishers
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	want := make([]store.Target, targets)
	for i := range want {
		want[i] = store.Target{Endpoint: fmt.Sprint("ep_", i), Ordered: true, Trigger: grapnel.TriggerSchedule}
	}
	heads := make(chan []store.Head, publishers)
	var recorder sync.WaitGroup
	recorder.Go(func() { record(b, s, heads) })

	b.ResetTimer()
	before := cpuSeconds()
	var left atomic.Int64
	left.Store(int64(b.N))
	var appenders, attempts sync.WaitGroup
	for i := range publishers {
		appenders.Go(func() {
			random := rand.NewChaCha8([32]byte{byte(i)})
			pick := rand.New(random)
			for left.Add(int64(-targets)) > int64(-targets) {
				now := time.Now()
				e := &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, now, random), Tenant: grapnel.DefaultTenant, Type: "invoice.paid",
					ContentType: grapnel.JSONType, Data: make([]byte, 1024), OccurredAt: now, AcceptedAt: now}
				_, _ = random.Read(e.Data)
				l.spin()
				if keys > 0 {
					e.Key = fmt.Sprintf("invoice_%d", pick.IntN(keys))
				}
				done, err := s.Append(context.Background(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Targets: want}}})
				if err != nil {
					b.Error(err)
					return
				}
				if l.work == 0 {
					heads <- done.Heads
					continue
				}
				attempts.Go(func() {
					l.spin()
					heads <- done.Heads
				})
			}
		})
	}
	appenders.Wait()
	attempts.Wait()
	close(heads)
	recorder.Wait()
	b.StopTimer()
	stats := s.Stats()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric((cpuSeconds()-before)*1e6/float64(b.N), "cpu-µs/delivery")
	b.ReportMetric(float64(stats.Operations)/float64(stats.Commits), "operations/commit")
	b.ReportMetric(float64(stats.Bytes)/float64(b.N), "log-B/delivery")
}

// record records every head as delivered, also the heads that this creates.
func record(b *testing.B, s *Store, heads <-chan []store.Head) {
	var changes []store.Change
	add := func(hs ...store.Head) {
		for _, h := range hs {
			now := time.Now()
			changes = append(changes, store.Change{
				Delivery: h.Delivery, Expect: h.Attempts, At: now, Status: grapnel.Delivered, Reason: "delivered",
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

// BenchmarkRecord measures recording: a hundred changes in one call, each of which postpones a head
// or ends it. One iteration is one change.
//
//	go test ./internal/store/sqlite -run '^$' -bench Record -benchtime 100000x
func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name    string
		attempt func(*store.Change)
	}{
		{"retried", func(c *store.Change) {
			c.Status, c.Due, c.Reason = grapnel.Pending, c.At.Add(time.Minute), "status 503"
		}},
		{"delivered", func(c *store.Change) { c.Status = grapnel.Delivered }},
	} {
		b.Run(c.name, func(b *testing.B) {
			const batch, changed = 1000, 100
			s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			now := time.Now()
			var heads []store.Head
			for len(heads) < b.N {
				var events []store.Incoming
				for i := range batch {
					id := fmt.Sprint("evt_", len(heads)+i)
					events = append(events, store.Incoming{Targets: []store.Target{{Endpoint: "ep", Ordered: true}},
						Event: &grapnel.Event{ID: id, Tenant: "acme", Type: "invoice.paid", Key: id, Data: make([]byte, 64), AcceptedAt: now}})
				}
				done, err := s.Append(b.Context(), store.Batch{Config: 1, Events: events})
				if err != nil {
					b.Fatal(err)
				}
				heads = append(heads, done.Heads...)
			}
			before, cpu := s.Stats(), cpuSeconds()
			b.ResetTimer()
			for left := heads[:b.N]; len(left) > 0; left = left[min(changed, len(left)):] {
				changes := make([]store.Change, min(changed, len(left)))
				for i := range changes {
					changes[i] = store.Change{Delivery: left[i].Delivery, At: now, Trigger: grapnel.TriggerSchedule, Attempt: &grapnel.Attempt{
						Number: 1, StartedAt: now, StatusCode: 503, Class: policy.ClassStatus5xx, Decision: policy.Retry, ResponseBody: []byte("busy")}}
					c.attempt(&changes[i])
				}
				done, err := s.Record(b.Context(), changes)
				if err != nil || !done[0].Applied {
					b.Fatal(done, err)
				}
			}
			b.StopTimer()
			b.ReportMetric((cpuSeconds()-cpu)*1e6/float64(b.N), "cpu-µs/change")
			b.ReportMetric(float64(s.Stats().Bytes-before.Bytes)/float64(b.N), "log-B/change")
		})
	}
}

// cpuSeconds is the time that this process has used on all processors so far.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkHeads measures a page of heads, which the core reads for each endpoint now and then.
//
//	go test ./internal/store/sqlite -run '^$' -bench Heads
func BenchmarkHeads(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	batch := store.Batch{Config: 1}
	for i := range 1000 {
		batch.Events = append(batch.Events, store.Incoming{Targets: []store.Target{{Endpoint: "ep"}},
			Event: &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", AcceptedAt: time.UnixMicro(int64(i))}})
	}
	if _, err := s.Append(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("page=", n), func(b *testing.B) {
			for range b.N {
				if heads, err := s.Heads(b.Context(), "ep", n); err != nil || len(heads) != n {
					b.Fatal(len(heads), err)
				}
			}
		})
	}
}
