package sqlite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// BenchmarkBacklog measures a store with a million pending deliveries of one endpoint: the time to
// start, to page through the first heads, to list the newest, to deliver to another endpoint, and
// to end them all; and the peak memory of the process.
//
//	go test ./internal/store/sqlite -run '^$' -bench Backlog -benchtime 1x
func BenchmarkBacklog(b *testing.B) {
	for _, c := range []struct {
		name string
		keys int
	}{{"keyless", 0}, {"keys=1000", 1000}, {"keys=1000000", 1_000_000}} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				backlog(b, c.keys)
			}
		})
	}
}

func backlog(b *testing.B, keys int) {
	const waiting = 1_000_000
	path := filepath.Join(b.TempDir(), "grapnel.db")
	start := func() *Store {
		s, err := Open(b.Context(), path, Options{Ballast: -1})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	took := func(what string, n int, do func()) {
		began := time.Now()
		do()
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000/float64(n), "ms:"+what)
	}
	s := start()
	random := rand.NewChaCha8([32]byte{})
	publish := func(n int, endpoint string) []store.Head {
		batch := store.Batch{Config: 1}
		for range n {
			now := time.Now()
			e := &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, now, random), Tenant: "acme", Type: "a.b", Data: make([]byte, 256),
				AcceptedAt: now}
			_, _ = random.Read(e.Data)
			if keys > 0 {
				e.Key = fmt.Sprint("key_", random.Uint64()%uint64(keys))
			}
			batch.Events = append(batch.Events, store.Incoming{Event: e, Targets: []store.Target{{Endpoint: endpoint, Ordered: true}}})
		}
		done, err := s.Append(b.Context(), batch)
		if err != nil {
			b.Fatal(err)
		}
		return done.Heads
	}
	took("append", waiting, func() {
		for range waiting / 1000 {
			publish(1000, "ep_dead")
		}
	})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	took("open", 1, func() { s = start() })
	took("heads", 1, func() {
		if heads, err := s.Heads(b.Context(), "ep_dead", 512); err != nil || len(heads) != 512 {
			b.Fatal(len(heads), err)
		}
	})
	for _, status := range []grapnel.Status{grapnel.Pending, grapnel.Held, grapnel.Failed} {
		took("list-"+string(status), 1, func() {
			if _, err := s.DeliveryList(b.Context(), store.Everyone(), store.DeliveryQuery{Endpoint: "ep_dead",
				Status: []grapnel.Status{status}, Limit: 50}); err != nil {
				b.Fatal(err)
			}
		})
	}
	took("append-and-record", 1000, func() {
		for range 1000 {
			for _, h := range publish(1, "ep_healthy") {
				done, err := s.Record(b.Context(), []store.Change{{Delivery: h.Delivery, Status: grapnel.Delivered, At: h.Due}})
				if err != nil || !done[0].Applied {
					b.Fatal(done, err)
				}
			}
		}
	})
	took("end", 100_000, func() {
		for range 200 {
			if n, err := s.End(b.Context(), "ep_dead", store.Ending{Status: grapnel.Skipped, At: time.Now()}, 500); err != nil || n != 500 {
				b.Fatal(n, err)
			}
		}
	})
	b.ReportMetric(highWater(), "MiB:highest")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// highWater is the largest memory of this process so far, if the system reports it.
func highWater() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseFloat(kib, 64)
	return n / 1024
}
