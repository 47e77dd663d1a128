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

// backlog fills a database with deliveries, spread over a time. The store itself appends and
// records them, so every index, count and total is as in production, and a new schema needs no
// change here; only no request was sent. The same backlog comes of the same seed.
type backlog struct {
	endpoints []placedEndpoint
	sources   map[string]string // by tenant: where some of its events came in; nil: nowhere
	seed      int
	n         int // events
	waiting   int // of them, the newest: a first attempt failed, and the next is hours ahead
	busy      int // one event in this many goes to the first endpoint; 0: none in particular
	wide      int // one event in this many goes to three endpoints; 0: none
	from, to  time.Time
}

// placedEndpoint is an endpoint and its tenant.
type placedEndpoint struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
}

const (
	backlogAtOnce = 1000
	backlogKeys   = 50_000 // more than backlogAtOnce, so that all of a batch are heads
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

// stir makes a number of a number and the seed, so that every endpoint and every key has some of
// each fate.
func (p *backlog) stir(number int) int {
	return int((uint32(number) + uint32(p.seed)*40503) * 2654435761 >> 4)
}

func (p *backlog) fateOf(number int) *fate {
	i := p.stir(number)
	for f := range fates {
		if i%fates[f].every == fates[f].at {
			return &fates[f]
		}
	}
	return &fates[len(fates)-1]
}

var backlogTypes = []string{"order.created", "order.paid", "order.shipped", "invoice.sent", "invoice.paid", "user.created",
	"user.deleted", "stock.low"}

// targets are the endpoints of an event, all of one tenant.
func (p *backlog) targets(i int) (at []store.Target, tenant string) {
	first := i % len(p.endpoints)
	if p.busy > 0 && p.stir(i)%p.busy == 0 {
		first = 0
	}
	tenant, most := p.endpoints[first].Tenant, 1
	if p.wide > 0 && i%p.wide == p.wide/2 {
		most = 3
	}
	for n := 0; n < len(p.endpoints) && len(at) < most; n++ {
		if to := &p.endpoints[(first+n)%len(p.endpoints)]; to.Tenant == tenant {
			at = append(at, store.Target{Endpoint: to.ID, Ordered: true})
		}
	}
	return at, tenant
}

// incoming is the event with a number.
func (p *backlog) incoming(i int) store.Incoming {
	at, tenant := p.targets(i)
	e := &grapnel.Event{ID: fmt.Sprintf("backlog-%d", i), Tenant: tenant, Type: backlogTypes[i/7%len(backlogTypes)],
		Key: fmt.Sprintf("key_%d", i%backlogKeys), ContentType: grapnel.JSONType,
		AcceptedAt: p.at(i), Data: fmt.Appendf(nil, `{"number":%d,"customer":"cus_%08d","amount":%d,"note":"%s"}`, i, i%77_777, i%9999,
			strings.Repeat("x", 150))}
	if i%50_021 == 0 {
		e.Type = "rare.one"
	}
	if i%10 == 9 {
		e.Key = ""
	}
	if i%20 == 5 {
		e.Source = p.sources[tenant]
	}
	if i >= p.n-p.waiting && i%4 == 0 {
		e.Key = fmt.Sprintf("hot_%d", i/4%97) // so that some wait for others of their key
	}
	return store.Incoming{Event: e, Targets: at}
}

func (p *backlog) at(i int) time.Time {
	return p.from.Add(time.Duration(float64(p.to.Sub(p.from)) * float64(i) / float64(p.n)))
}

// write writes all events.
func (p *backlog) write(ctx context.Context, config int64, s *sqlite.Store, out io.Writer) error {
	began, told := time.Now(), time.Now()
	done := 0
	for from := 0; from < p.n; {
		to := min(from+backlogAtOnce, p.n)
		waits := from >= p.n-p.waiting
		if !waits {
			to = min(to, p.n-p.waiting)
		}
		n, err := p.batch(ctx, config, s, from, to, waits)
		if err != nil {
			return err
		}
		done += n
		if from = to; time.Since(told) > 30*time.Second {
			told = time.Now()
			_, _ = fmt.Fprintf(out, "%d of %d after %v\n", from, p.n, time.Since(began).Round(time.Second))
		}
	}
	// Hours that are old enough become days, as they do while a server runs.
	if _, err := s.Purge(ctx, store.Keep{Now: p.to, For: 100 * 365 * 24 * time.Hour}, 1); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d deliveries written in %v\n", done, time.Since(began).Round(time.Second))
	return nil
}

// batch appends some events and records what became of their deliveries.
func (p *backlog) batch(ctx context.Context, config int64, s *sqlite.Store, from, to int, waits bool) (made int, err error) {
	batch := store.Batch{Config: config}
	var event []int // of each delivery
	for i := from; i < to; i++ {
		in := p.incoming(i)
		batch.Events = append(batch.Events, in)
		for range in.Targets {
			event = append(event, i)
		}
	}
	done, err := s.Append(ctx, batch)
	if err != nil {
		return 0, err
	}
	var changes []store.Change
	if waits {
		for _, head := range done.Heads {
			c := fates[0].change(head.Delivery, 0, head.CreatedAt)
			due := p.to.Add(time.Hour + time.Duration(head.Delivery*7919%86_400)*time.Second)
			c.Status, c.ReasonCode, c.Due = grapnel.Pending, grapnel.ReasonNone, due
			changes = append(changes, c)
		}
		_, err = s.Record(ctx, changes)
		return len(event), err
	}
	if len(done.Heads) != len(event) {
		return 0, fmt.Errorf("%d of %d deliveries can be tried: this is not a new database", len(done.Heads), len(event))
	}
	for try := 0; ; try++ {
		changes = changes[:0]
		for i, head := range done.Heads {
			if f := p.fateOf(from + i); try < f.tries {
				changes = append(changes, f.change(head.Delivery, try, p.at(event[i])))
			}
		}
		if len(changes) == 0 {
			return len(event), nil
		}
		if _, err := s.Record(ctx, changes); err != nil {
			return 0, err
		}
	}
}

// change is the change of one attempt.
func (f *fate) change(delivery int64, try int, accepted time.Time) store.Change {
	at := accepted.Add(time.Duration(try+1) * 200 * time.Millisecond)
	a := &grapnel.Attempt{Number: try + 1, Trigger: grapnel.TriggerSchedule, StartedAt: at.Add(-50 * time.Millisecond),
		Duration:   50 * time.Millisecond,
		StatusCode: f.code, Class: f.class, ResponseHeaders: map[string]string{"content-type": "text/plain"}, ResponseBody: []byte("ok")}
	if f.code/100 == 5 {
		a.ResponseBody = []byte("<html><body><h1>503 Service Unavailable</h1>no server is available to handle this request</body></html>")
	}
	c := store.Change{Delivery: delivery, Expect: try, Attempt: a, At: at, Status: f.status, ReasonCode: f.reason}
	if try+1 < f.tries {
		c.Status, c.ReasonCode, c.Due = grapnel.Pending, grapnel.ReasonNone, at.Add(time.Second)
		if f.status == grapnel.Delivered {
			a.StatusCode, a.Class = 503, policy.ClassStatus5xx
		}
	}
	return c
}
