package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Limits are the limits of each tenant. A tenant may have its own in the place of some of them:
// grapnel.Terms.
type Limits struct {
	MaxPending   int64              // pending deliveries; 0: no limit
	MaxEndpoints int                // queues among them; 0: no limit
	MaxTypes     int                // of events, each counted for each source; 0: no limit
	PublishRate  *grapnel.RateLimit // events that it may publish, at each node; nil: no limit
	EventsPerDay int64              // events that it may publish on one day (UTC); 0: no limit

	Consent grapnel.ConsentRule // of new addresses of endpoints; empty: off
}

// rates limit how many events each tenant publishes, over time and on a day. A publish is taken as
// a whole or not at all. One that fails otherwise counts for nothing; a repeated event counts for
// the rate only.
//
// A node counts the rate alone. The count of a day is a document of the tenant, to which each node
// adds its own events now and then. So several nodes exceed the limit by the events that they
// accept between two writes, and a process that is killed forgets those since its last one.
type rates struct {
	store  Store
	clock  func() time.Time
	log    *slog.Logger
	limits atomic.Pointer[Limits]
	terms  func(tenant string) grapnel.Terms
	debts  *allowance.Tenants

	mu   sync.Mutex
	days map[string]*dayCount // by tenant
}

// dayCount is what a tenant has published on a day.
type dayCount struct {
	Day    string `json:"day"`
	Events int64  `json:"events"` // of all nodes, as of the last read

	more     int64 // of this node since then
	expected int64 // of this node, being stored
}

// Names of the limits are those of the fields of the API.
const (
	publishRate  = "publish_rate"
	eventsPerDay = "max_events_per_day"
)

// usageKind is the kind of the documents that count the events of a tenant's day.
const usageKind = "usage"

// taken is what a publish has used of its tenants' limits.
type taken struct {
	share
	cost time.Duration // of the rate; 0: the tenant has none
	day  *dayCount     // nil: the tenant has no limit for a day
}

// of is the tenant's limits.
func (r *rates) of(tenant string) (each, burst time.Duration, daily int64) {
	all, own := r.limits.Load(), r.terms(tenant)
	rate := all.PublishRate
	if own.PublishRate != nil {
		rate = own.PublishRate
	}
	each, burst = rate.Pace()
	return each, burst, cmp.Or(own.EventsPerDay, all.EventsPerDay)
}

// pending is the tenant's limit of pending deliveries; 0: none.
func (r *rates) pending(tenant string) int64 {
	return cmp.Or(r.terms(tenant).MaxPending, r.limits.Load().MaxPending)
}

// take uses the limits for some events. The caller ends what it returns.
func (r *rates) take(ctx context.Context, events []store.Incoming) (all []taken, err error) {
	var shares []share
	for i := range events {
		shares = plus(shares, events[i].Event.Tenant, 1)
	}
	defer func() {
		if err != nil {
			r.end(all, nil, store.Accepted{}, err)
			all = nil
		}
	}()
	now := r.clock()
	for _, s := range shares {
		each, burst, daily := r.of(s.tenant)
		t := taken{share: s, cost: each * time.Duration(s.n)}
		if each > 0 {
			if wait := r.debts.Take(s.tenant, now, t.cost, burst); wait > 0 {
				return all, r.tooFast(s, each, burst, wait, now)
			}
		}
		if daily > 0 {
			if t.day, err = r.reserve(ctx, s, daily, now); err != nil {
				r.debts.Return(s.tenant, now, t.cost)
				return all, err
			}
		}
		if t.cost > 0 || t.day != nil {
			all = append(all, t)
		}
	}
	return all, nil
}

// limited counts a publish that the tenant's rate or the limit of its day refused.
func (m *Metrics) limited(kind work, err error) {
	switch grapnel.CodeOf(err) {
	case grapnel.CodeRateLimited:
		m.refused(kind, overRate)
	case grapnel.CodeQuota:
		m.refused(kind, overDay)
	}
}

func (r *rates) tooFast(s share, each, burst, wait time.Duration, now time.Time) error {
	return &grapnel.Error{Code: grapnel.CodeRateLimited, RetryAfter: wait,
		Detail: fmt.Sprintf("Tenant %s may publish %.4g events a second, %d at once (%s); this call has %d.", s.tenant,
			1/each.Seconds(), burst/each, publishRate, s.n),
		Quota: r.ofRate(s.tenant, each, burst, now)}
}

func (r *rates) ofRate(tenant string, each, burst time.Duration, now time.Time) *grapnel.Quota {
	window := max(burst.Truncate(time.Second), time.Second)
	return &grapnel.Quota{Name: publishRate, Most: max(1, int64(window/each)), Window: max(window, each),
		Left: int64(max(0, burst-r.debts.Debt(tenant, now)) / each)}
}

func ofDay(most, used int64) *grapnel.Quota {
	return &grapnel.Quota{Name: eventsPerDay, Most: most, Window: 24 * time.Hour, Left: max(0, most-used)}
}

// quota is the limit of which the tenant has least left; nil: it has none.
func (r *rates) quota(tenant string) (q *grapnel.Quota) {
	each, burst, daily := r.of(tenant)
	if each > 0 {
		q = r.ofRate(tenant, each, burst, r.clock())
	}
	if daily == 0 {
		return q
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.days[tenant]; d != nil { // as for each tenant that has published within its limit
		if day := ofDay(daily, d.Events+d.more+d.expected); q == nil || day.Left < q.Left {
			q = day
		}
	}
	return q
}

// reserve counts events of a day that are about to be stored, or refuses them.
func (r *rates) reserve(ctx context.Context, s share, most int64, now time.Time) (*dayCount, error) {
	d, err := r.today(ctx, s.tenant, now.UTC().Format(time.DateOnly))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	used := d.Events + d.more + d.expected
	if used+s.n <= most {
		d.expected += s.n
		return d, nil
	}
	tomorrow := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	return nil, &grapnel.Error{Code: grapnel.CodeQuota, RetryAfter: tomorrow.Sub(now),
		Detail: fmt.Sprintf("Tenant %s has published %d events on %s (UTC); the limit is %d (%s) and this call has %d.", s.tenant, used, d.Day,
			most, eventsPerDay, s.n),
		Quota: ofDay(most, used)}
}

// today is the count of a day, which the first publish of the day reads.
func (r *rates) today(ctx context.Context, tenant, day string) (*dayCount, error) {
	r.mu.Lock()
	d := r.days[tenant]
	r.mu.Unlock()
	if d != nil && d.Day == day {
		return d, nil
	}
	_, is, err := r.stored(ctx, tenant)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d = r.days[tenant]; d == nil || d.Day != day { // else another publish was first
		d = &dayCount{Day: day, Events: is.of(day)}
		r.days[tenant] = d
	}
	return d, nil
}

func (d *dayCount) of(day string) int64 {
	if d.Day != day {
		return 0
	}
	return d.Events
}

// end takes the result of a publish.
func (r *rates) end(all []taken, events []store.Incoming, done store.Accepted, err error) {
	if len(all) == 0 { // as for tenants without limits
		return
	}
	var fresh []share // that the day counts
	for i, placed := range done.Events {
		if !placed.Duplicate && !placed.Conflict {
			fresh = plus(fresh, events[i].Event.Tenant, 1)
		}
	}
	stored := err == nil || unknown(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range all {
		if !stored {
			r.debts.Return(t.tenant, r.clock(), t.cost)
		}
		if t.day == nil {
			continue
		}
		t.day.expected -= t.n
		if err != nil && stored {
			t.day.more += t.n // perhaps
		}
		for _, f := range fresh {
			if f.tenant == t.tenant {
				t.day.more += f.n
			}
		}
	}
}

// stored reads a tenant's document; without one it is new.
func (r *rates) stored(ctx context.Context, tenant string) (doc store.Document, is dayCount, err error) {
	doc, err = r.store.Document(ctx, store.Of(tenant), tenant, usageKind, tenant)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return store.Document{Tenant: tenant, Kind: usageKind, ID: tenant}, is, nil
	}
	if err == nil && json.Unmarshal(doc.Body, &is) != nil {
		is = dayCount{} // it is written anew
	}
	return doc, is, err
}

// write adds this node's events to the documents. An addition that fails is made at the next call.
func (r *rates) write(ctx context.Context) {
	r.mu.Lock()
	var tenants []string
	today := r.clock().UTC().Format(time.DateOnly)
	for tenant, d := range r.days {
		if d.more > 0 {
			tenants = append(tenants, tenant)
		} else if d.Day != today && d.expected == 0 {
			delete(r.days, tenant)
		}
	}
	r.mu.Unlock()
	for _, tenant := range tenants {
		err := r.add(ctx, tenant)
		switch grapnel.CodeOf(err) {
		case grapnel.CodeConflict: // another node was first
			continue
		case grapnel.CodeTenantEnds:
			r.forget(tenant)
			continue
		}
		if err != nil {
			r.log.Warn("events of the day not recorded; retrying", "tenant", tenant, "err", err)
			return
		}
	}
}

func (r *rates) add(ctx context.Context, tenant string) error {
	doc, is, err := r.stored(ctx, tenant)
	if err != nil {
		return err
	}
	r.mu.Lock()
	d := r.days[tenant]
	more := d.more
	r.mu.Unlock()
	if is.Day <= d.Day { // else the clock of another node is ahead, and the day has ended there
		is = dayCount{Day: d.Day, Events: is.of(d.Day) + more}
		doc.At = r.clock()
		if doc.Body, err = json.Marshal(is); err != nil {
			return err
		}
		if _, err = r.store.PutDocuments(ctx, store.Of(tenant), []store.DocumentWrite{{Document: doc}}, store.With{}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d.Events, d.more = max(d.Events, is.of(d.Day)), d.more-more
	return nil
}

// forget begins the day of a tenant anew.
func (r *rates) forget(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.days, tenant)
}
