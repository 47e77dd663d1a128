//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/policy"
)

// pile fills a database with finished deliveries, spread over a time. The store itself appends and
// records them, so every index, count and total is as in production; only no request was sent.
type pile struct {
	endpoints []placedEndpoint
	n         int
	from, to  time.Time
}

// placedEndpoint is an endpoint and its tenant.
type placedEndpoint struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
}

const (
	pileAtOnce = 1000
	pileKeys   = 50_000 // more than pileAtOnce, so that all of a batch are heads
)

// fate is the result of one delivery in `every`.
type fate struct {
	every, at int
	status    grapnel.Status
	reason    grapnel.ReasonCode
	code      int
	class     policy.Class
	tries     int
}

// fates are tried in turn; the last one takes everything. Some are frequent, some rare.
var fates = []fate{
	{100_003, 1, grapnel.Failed, grapnel.ReasonExpired, 0, policy.ClassDNS, 1},
	{30_011, 1, grapnel.Skipped, grapnel.ReasonNone, 503, policy.ClassStatus5xx, 1},
	{500_009, 1, grapnel.Delivered, grapnel.ReasonNone, 202, policy.ClassNone, 1},
	{100, 1, grapnel.Failed, grapnel.ReasonExhausted, 503, policy.ClassStatus5xx, 3},
	{100, 51, grapnel.Failed, grapnel.ReasonExhausted, 0, policy.ClassTimeout, 2},
	{25, 3, grapnel.Delivered, grapnel.ReasonNone, 200, policy.ClassNone, 2},
	{20, 7, grapnel.Delivered, grapnel.ReasonNone, 204, policy.ClassNone, 1},
	{1, 0, grapnel.Delivered, grapnel.ReasonNone, 200, policy.ClassNone, 1},
}

func fateOf(number int) *fate {
	i := int(uint32(number) * 2654435761 >> 4) // so that every endpoint and every key has some of each
	for f := range fates {
		if i%fates[f].every == fates[f].at {
			return &fates[f]
		}
	}
	return &fates[len(fates)-1]
}

var pileTypes = []string{"order.created", "order.paid", "order.shipped", "invoice.sent", "invoice.paid", "user.created",
	"user.deleted", "stock.low"}

// incoming is the event with a number.
func (p *pile) incoming(i int) store.Incoming {
	to := &p.endpoints[i%len(p.endpoints)]
	e := &grapnel.Event{ID: fmt.Sprintf("pile-%d", i), Tenant: to.Tenant, Type: pileTypes[i/7%len(pileTypes)],
		Key: fmt.Sprintf("key_%d", i%pileKeys), ContentType: grapnel.JSONType,
		AcceptedAt: p.at(i), Data: fmt.Appendf(nil, `{"number":%d,"customer":"cus_%08d","amount":%d,"note":"%s"}`, i, i%77_777, i%9999,
			strings.Repeat("x", 150))}
	if i%50_021 == 0 {
		e.Type = "rare.one"
	}
	if i%10 == 9 {
		e.Key = ""
	}
	return store.Incoming{Event: e, Targets: []store.Target{{Endpoint: to.ID, Ordered: true}}}
}

func (p *pile) at(i int) time.Time {
	return p.from.Add(time.Duration(float64(p.to.Sub(p.from)) * float64(i) / float64(p.n)))
}

// write writes all events.
func (p *pile) write(ctx context.Context, config int64, s *sqlite.Store, out io.Writer) error {
	began, told := time.Now(), time.Now()
	for from := 0; from < p.n; from += pileAtOnce {
		batch := store.Batch{Config: config}
		for i := from; i < min(from+pileAtOnce, p.n); i++ {
			batch.Events = append(batch.Events, p.incoming(i))
		}
		done, err := s.Append(ctx, batch)
		if err != nil {
			return err
		}
		if len(done.Heads) != len(batch.Events) {
			return fmt.Errorf("%d of %d deliveries can be tried: this is not a new database", len(done.Heads), len(batch.Events))
		}
		for try := 0; ; try++ {
			var changes []store.Change
			for i, head := range done.Heads {
				if f := fateOf(from + i); try < f.tries {
					changes = append(changes, f.change(head.Delivery, try, p.at(from+i)))
				}
			}
			if len(changes) == 0 {
				break
			}
			if _, err := s.Record(ctx, changes); err != nil {
				return err
			}
		}
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			_, _ = fmt.Fprintf(out, "%d of %d after %v\n", from+len(batch.Events), p.n, time.Since(began).Round(time.Second))
		}
	}
	// Hours that are old enough become days, as they do while a server runs.
	if _, err := s.Purge(ctx, store.Keep{Now: p.to, For: 100 * 365 * 24 * time.Hour}, 1); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d deliveries written in %v\n", p.n, time.Since(began).Round(time.Second))
	return nil
}

// change is the change of one attempt.
func (f *fate) change(delivery int64, try int, accepted time.Time) store.Change {
	at := accepted.Add(time.Duration(try+1) * 200 * time.Millisecond)
	a := &grapnel.Attempt{Number: try + 1, Trigger: grapnel.TriggerSchedule, StartedAt: at.Add(-50 * time.Millisecond),
		Duration:   50 * time.Millisecond,
		StatusCode: f.code, Class: f.class, ResponseHeaders: map[string]string{"content-type": "text/plain"}, ResponseBody: []byte("ok")}
	c := store.Change{Delivery: delivery, Expect: try, Attempt: a, At: at, Status: f.status, ReasonCode: f.reason}
	if try+1 < f.tries {
		c.Status, c.ReasonCode, c.Due = grapnel.Pending, grapnel.ReasonNone, at.Add(time.Second)
		if f.status == grapnel.Delivered {
			a.StatusCode, a.Class = 503, policy.ClassStatus5xx
		}
	}
	return c
}
