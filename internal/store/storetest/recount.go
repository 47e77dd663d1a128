package storetest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// history is a random history of events of two tenants, and their deliveries. Its totals are
// counted again from the rows that the store lists, which no total was used for.
type history struct {
	d          *driver
	random     *rand.Rand
	now        float64
	events     []grapnel.Event
	pending    []int64
	duplicates []grapnel.Event // as they were published again
}

func newHistory(d *driver) *history {
	return &history{d: d, random: rand.New(rand.NewPCG(1, 2)), now: 10}
}

// step publishes some events, and records an attempt of each pending delivery.
func (h *history) step() {
	h.d.Helper()
	h.now += math.Floor(h.random.Float64() * hourLong / 2)
	for range 4 {
		h.publish()
	}
	if h.random.IntN(3) == 0 {
		e := h.events[h.random.IntN(len(h.events))]
		e.AcceptedAt = at(h.now)
		h.d.same(h.d.publish(incoming(&e, to(epA))).Events[0].Duplicate, true, "duplicate")
		h.duplicates = append(h.duplicates, e)
	}
	var changes []store.Change
	var left []int64
	for _, number := range h.pending {
		c := h.attempt(h.d.delivery(number))
		if !c.Status.Final() {
			left = append(left, number)
		}
		changes = append(changes, c)
	}
	h.pending = left
	for _, done := range h.d.record(changes...) {
		h.d.same(done.Applied, true, "applied")
	}
}

func (h *history) publish() {
	id := fmt.Sprint("h", len(h.events))
	e := event(id, "", h.now)
	e.Type = []string{"invoice.paid", "invoice.line.added", "user"}[h.random.IntN(3)]
	targets := []store.Target{to(epA), to(epB)}
	if h.random.IntN(3) == 0 {
		e.Tenant, targets = bolt, []store.Target{to(epX)}
	}
	if h.random.IntN(5) == 0 {
		targets[0].Drop = "its endpoint is disabled"
	}
	h.d.publish(incoming(e, targets...))
	h.events = append(h.events, *e)
	for _, x := range h.d.of(id) {
		if x.Status == grapnel.Pending {
			h.pending = append(h.pending, x.Seq)
		}
	}
}

// attempt is a change by an attempt that ends when it is recorded, or by an operator.
func (h *history) attempt(x grapnel.Delivery) store.Change {
	when := h.now + math.Floor(h.random.Float64()*1000)
	if h.random.IntN(8) == 0 {
		return by(x.Seq, grapnel.Skipped, when)
	}
	c := retried(x.Seq, x.AttemptsMade, when, when+60)
	class := policy.Classes()[h.random.IntN(len(policy.Classes()))]
	c.Attempt.Duration = time.Duration(h.random.IntN(5000)) * time.Millisecond
	c.Attempt.StartedAt = c.At.Add(-c.Attempt.Duration)
	c.Attempt.Class, c.Attempt.StatusCode, c.Attempt.Decision = class, 0, policy.Retry
	switch {
	case class == policy.ClassNone, h.random.IntN(3) == 0:
		c.Attempt.Class, c.Attempt.StatusCode, c.Attempt.Decision, c.Status = policy.ClassNone, 200, policy.Deliver, grapnel.Delivered
	case h.random.IntN(4) == 0:
		c.Attempt.Decision, c.Status = policy.Fail, grapnel.Failed
		c.ReasonCode = []grapnel.ReasonCode{grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonExpired}[h.random.IntN(3)]
	case class == policy.ClassStatus5xx:
		c.Attempt.StatusCode = 503
	}
	return c
}

// compare counts again, in every way that totals are asked for.
func (h *history) compare() {
	d := h.d
	d.Helper()
	for _, by := range []store.Grouping{store.ByTime, store.ByEndpoint, store.ByTenant, store.ByType} {
		for _, daily := range []bool{false, true} {
			for _, eventType := range []string{"", "user"} {
				for _, endpoint := range []string{"", epB} {
					q := store.TotalsQuery{By: by, Daily: daily, Type: eventType, Endpoint: endpoint, Duplicates: true}
					if !q.Impossible() {
						d.same(d.grouped(q), h.recount(q), fmt.Sprintf("%+v", q))
					}
				}
			}
		}
	}
	all := d.grouped(store.TotalsQuery{By: store.ByTenant})
	if len(all) != 2 || all[0].Retried == 0 || all[1].Failed == 0 || all[0].Attempts < 50 {
		d.Errorf("the history is too dull: %+v", all)
	}
}

func (h *history) recount(q store.TotalsQuery) (list []grapnel.Bucket) {
	sums := map[grapnel.Bucket]*grapnel.Totals{} // by time and name
	sum := func(when time.Time, endpoint, tenant, eventType string) *grapnel.Totals {
		if q.Endpoint != "" && q.Endpoint != endpoint || q.Type != "" && q.Type != eventType {
			return new(grapnel.Totals)
		}
		of := grapnel.Bucket{At: when.Truncate(map[bool]time.Duration{false: time.Hour, true: 24 * time.Hour}[q.Daily])}
		if q.By != store.ByTime {
			of = grapnel.Bucket{Name: map[store.Grouping]string{store.ByEndpoint: endpoint, store.ByTenant: tenant, store.ByType: eventType}[q.By]}
		}
		if sums[of] == nil {
			sums[of] = new(grapnel.Totals)
		}
		return sums[of]
	}
	for _, x := range h.d.list(store.DeliveryQuery{}) {
		x = h.d.delivery(x.Seq)
		for _, a := range x.Attempts {
			t := sum(a.StartedAt.Add(a.Duration), x.EndpointID, x.Tenant, x.Type)
			if t.Attempts++; a.Number == 1 {
				t.FirstAttempts++
			}
			class := 1 + slices.Index(policy.Classes(), a.Class)
			t.Classes[class]++
			if a.Decision == policy.Retry {
				t.Retries[class]++
			}
			if a.StatusCode > 0 {
				t.Latency[place(a.Duration, 100*time.Microsecond)]++
			}
		}
		if x.Status.Final() {
			h.finished(sum(x.FinishedAt, x.EndpointID, x.Tenant, x.Type), &x)
		}
	}
	for _, e := range h.duplicates {
		if q.By != store.ByEndpoint && q.Endpoint == "" {
			sum(e.AcceptedAt, "", e.Tenant, e.Type).Duplicates++
		}
	}
	for of, t := range sums {
		of.Totals = *t
		list = append(list, of)
	}
	slices.SortFunc(list, func(a, b grapnel.Bucket) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name)) })
	return list
}

func (h *history) finished(t *grapnel.Totals, x *grapnel.Delivery) {
	*map[grapnel.Status]*int64{grapnel.Delivered: &t.Delivered, grapnel.Failed: &t.Failed, grapnel.Dropped: &t.Dropped,
		grapnel.Skipped: &t.Skipped}[x.Status]++
	n := len(x.Attempts)
	t.Tries[n]++
	t.Spent += int64(n)
	if n > 1 {
		t.Retried++
	}
	codes := []grapnel.ReasonCode{"other", grapnel.ReasonNone, grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonRejected,
		grapnel.ReasonExpired}
	t.Reasons[slices.Index(codes, x.ReasonCode)]++
	if x.Status == grapnel.Delivered {
		if t.Success[place(x.FinishedAt.Sub(x.CreatedAt), time.Millisecond)]++; n == 1 {
			t.FirstAttemptSuccess++
		}
	}
}

// place is the index of the first bucket that is long enough. Each is a fourth of an octave wider
// than the one before.
func place(d, first time.Duration) (i int) {
	for float64(d) > float64(first)*math.Exp2(float64(i)/4) {
		i++
	}
	return i
}
