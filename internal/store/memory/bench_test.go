package memory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// BenchmarkStreet is the life of a delivery in a simulation: accepted, found as a head, attempted
// twice, delivered; beside a backlog of pending heads.
func BenchmarkStreet(b *testing.B) {
	for _, backlog := range []int{0, 100_000} {
		b.Run(fmt.Sprint("backlog=", backlog), func(b *testing.B) {
			ctx, s, start := context.Background(), memory.New(), time.Unix(1_700_000_000, 0)
			publish := func(i int, key string, at time.Time) store.Head {
				e := &grapnel.Event{ID: fmt.Sprint(key, i), Tenant: "acme", Type: "t", Key: key, Data: []byte(`{"n":1}`), AcceptedAt: at}
				done, err := s.Append(ctx, store.Batch{Config: 1, Events: []store.Incoming{
					{Event: e, Targets: []store.Target{{Endpoint: "ep", Ordered: true, Trigger: grapnel.TriggerSchedule}}}}})
				if err != nil || len(done.Heads) != 1 {
					b.Fatal(done, err)
				}
				return done.Heads[0]
			}
			for i := range backlog {
				publish(i, fmt.Sprint("k", i), start.Add(time.Duration(i%977)*time.Minute))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h := publish(i, "live", start)
				for expect, c := range []store.Change{
					{Status: grapnel.Pending, Due: start.Add(time.Second), Trigger: grapnel.TriggerSchedule}, {Status: grapnel.Delivered},
				} {
					c.Delivery, c.Expect, c.At, c.Attempt = h.Delivery, expect, start, &grapnel.Attempt{Number: expect + 1}
					if done, err := s.Record(ctx, []store.Change{c}); err != nil || !done[0].Applied {
						b.Fatal(done, err)
					}
					if _, err := s.Heads(ctx, "ep", 16); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
