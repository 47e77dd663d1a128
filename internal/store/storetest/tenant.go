package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Tenant lives at a store: it has rows in every table, and its name is in each of their texts. So a
// search for the name finds all rows that are left.
type Tenant struct {
	*driver
	name   string
	ep, q  string // an endpoint, and a queue
	events int
	big    string // data of events begin with it
}

// NewTenant makes a tenant at a store. Some of its events have size bytes of data.
func NewTenant(t *testing.T, s store.Store, name string, size int) *Tenant {
	t.Helper()
	return newTenant(&driver{TB: t, Store: s, test: t, ctx: t.Context()}, name, size)
}

func newTenant(d *driver, name string, size int) *Tenant {
	d.Helper()
	l := &Tenant{driver: d, name: name, ep: "ep_" + name, q: "que_" + name, big: strings.Repeat(" .", size/2)}
	l.configure()
	l.live()
	return l
}

func (l *Tenant) text(what any) string { return fmt.Sprint(l.name, "-", what) }

func (l *Tenant) configure() {
	l.Helper()
	l.put(endpoint(l.ep, l.name))
	l.put(queue(l.q, l.name, l.text("queue")))
	l.putSource(source("src_"+l.name, l.name, l.text("source")))
	_, err := l.PutPolicy(l.ctx, everyone, named("pol_"+l.name, l.name, l.text("policy")), store.With{Audit: l.entry(grapnel.VerbCreate, 0)})
	l.must(err, "PutPolicy")
	_, err = l.PutEventType(l.ctx, everyone, eventType("typ_"+l.name, l.name, l.text("type")), store.With{})
	l.must(err, "PutEventType")
	_, err = l.PutKey(l.ctx, everyone, apiKey("key_"+l.name, l.name), store.With{})
	l.must(err, "PutKey")
	_, err = l.PutAccess(l.ctx, everyone, accessRecord("acc_"+l.name, l.name), store.With{})
	l.must(err, "PutAccess")
}

func (l *Tenant) entry(verb grapnel.Verb, when float64) *grapnel.AuditEntry {
	e := entry(l.name, l.ep, verb, when)
	e.Reason, e.Delivery = l.text(verb), l.text("delivery")
	return e
}

func (l *Tenant) event(i int, when float64) *grapnel.Event {
	e := event(l.text(i), l.text(i%2), when)
	e.Tenant, e.Type, e.Data = l.name, l.text([]string{"paid", "sent"}[i%2]), []byte(l.text("data"))
	e.Metadata = map[string]string{"about": l.name}
	if i%3 == 0 {
		e.Data = append(e.Data, l.big...)
	}
	return e
}

// live makes what a tenant makes: in the hours from 0 to 2, and in one of a hundred days before.
func (l *Tenant) live() {
	l.Helper()
	var deliveries []int64
	for i := range 8 {
		when := float64(i * 1000)
		in := incoming(l.event(i, when), to(l.ep), to(l.q))
		if in.Event.Intake = nil; i >= 4 {
			in.Event.Source, in.Event.Intake = "src_"+l.name, intake("src_"+l.name, when)
			in.Known = &store.Known{Source: "src_" + l.name, By: []byte(l.text(i)), Until: at(1e6)}
		}
		l.publish(in)
		l.publish(in) // a duplicate
		all := l.of(in.Event.ID)
		deliveries = append(deliveries, all[0].Seq)
		l.claim(l.q, when, want(l.text(i), l.text("consumer")))
		l.change(settled(l.said(delivered(all[1].Seq, 0, when+1)), l.text(i)))
	}
	l.events = 9
	l.publish(store.Incoming{Event: l.event(8, 8000), Targets: []store.Target{{Endpoint: l.ep, Drop: l.text("drop")}}})
	for i, seq := range deliveries {
		c := l.said(retried(seq, 0, 8001, 8002))
		c.Standing, c.Audit = standing(l.ep, int64(i)), l.entry(grapnel.VerbRetry, float64(i))
		l.change(c)
		c = l.said(delivered(seq, 1, 8003))
		if c.Reason = l.text("reason"); i%2 == 0 {
			c.Status = grapnel.Failed
		}
		l.change(c)
	}
	l.annotate(deliveries[0], l.text("note"), l.text("discarded"), 8004)
	r := replayOf("rpl_"+l.name, 8005, grapnel.Failed)
	r.Tenant, r.Endpoint, r.Reason = l.name, l.ep, l.text("replay")
	made := l.step(l.order(r), deliveries[2], deliveries[4])
	l.change(l.said(by(made[0], grapnel.Delivered, 8006)))
	l.change(l.said(by(made[1], grapnel.Failed, 8006)))
	l.ended(l.replayed(r.ID), grapnel.ReplayCompleted, 8007)
	long := -100 * 24 * 3600.0 // totals of long ago become those of a day
	old := l.said(retried(l.live1(9, long), 0, long, long+1))
	l.change(old)
	l.change(l.said(delivered(old.Delivery, 1, long+2)))
	for i := range 3 {
		w := document(l.name, "alert", l.text(i), 0, 5)
		w.Body = []byte(l.text("body"))
		l.write(w)
		a := aside(l.text(i), l.name, "src_"+l.name, grapnel.AsideConflict, 5)
		a.Event = l.text(0)
		l.setAside(a)
	}
	l.must(l.remember(once(store.PassKeys(l.name)+"/ses_1/k", 1, 0)), "Remember")
}

// live1 publishes one more event, and returns its delivery to the endpoint.
func (l *Tenant) live1(i int, when float64) int64 {
	l.Helper()
	l.events++
	l.publish(incoming(l.event(i, when), to(l.ep)))
	return l.of(l.text(i))[0].Seq
}

// said is a change whose attempt captured texts of the tenant.
func (l *Tenant) said(c store.Change) store.Change {
	c.Tenant, c.Reason = l.name, l.text("why")
	if a := c.Attempt; a != nil {
		a.Error, a.ResponseBody, a.ResponseHeaders = l.text("error"), []byte(l.text("answer")), map[string]string{"x": l.name}
		a.RequestHeaders = []grapnel.Header{{Name: "x", Value: l.name}}
	}
	return c
}

// Leave deletes the tenant's configuration, as its callers do before they erase the tenant.
func (l *Tenant) Leave() {
	l.Helper()
	for _, ep := range l.config().Endpoints {
		if ep.Tenant != l.name {
			continue
		}
		_, err := l.End(l.ctx, ep.ID, ending(9000), math.MaxInt32)
		l.must(err, "End")
		ep.DeletedAt = at(9000)
		l.put(ep)
		l.must(l.RemoveEndpoint(l.ctx, ep.ID), "RemoveEndpoint")
	}
	with := store.With{Audit: l.entry(grapnel.VerbDelete, 9001)}
	_, err := l.DeleteSource(l.ctx, everyone, "src_"+l.name, with)
	l.must(err, "DeleteSource")
	l.must(l.DeletePolicy(l.ctx, everyone, "pol_"+l.name, with), "DeletePolicy")
	l.must(l.DeleteEventType(l.ctx, everyone, "typ_"+l.name, with), "DeleteEventType")
	l.must(l.DeleteKey(l.ctx, everyone, "key_"+l.name, with), "DeleteKey")
	l.must(l.DeleteAccess(l.ctx, everyone, "acc_"+l.name, with), "DeleteAccess")
	end, err := l.AuditEnd(l.ctx)
	l.must(err, "AuditEnd")
	l.note(&grapnel.AuditEntry{At: at(9002), Verb: grapnel.VerbProbe}, fmt.Sprint("the operator's, after ", end))
}

// Erase calls EraseTenant until nothing is left, and between two calls each.
func (l *Tenant) Erase(limit int, each func(s *store.TenantErased)) (all store.TenantErased) {
	l.Helper()
	e := store.TenantErasure{Tenant: l.name, Limit: limit}
	for calls := 0; ; calls++ {
		done, err := l.EraseTenant(l.ctx, e)
		l.must(err, "EraseTenant")
		all.Events, all.Deliveries, all.Attempts = all.Events+done.Events, all.Deliveries+done.Deliveries, all.Attempts+done.Attempts
		all.Rows += done.Rows
		if done.Events+done.Deliveries+done.Rows > 4*limit+64 || calls > 10_000 {
			l.Fatalf("with a limit of %d: %+v, after %d calls", limit, done, calls)
		}
		if e.After = done.After; calls%3 == 0 {
			e.After = 0 // the caller was replaced, and has not stored it
		}
		each(&done)
		if !done.More {
			return all
		}
	}
}

// view is what a tenant sees of itself, and what others see of it.
func (l *Tenant) view() map[string]any {
	l.Helper()
	of, all := store.Of(l.name), map[string]any{}
	see := func(what string, is any, err error) {
		l.Helper()
		l.must(err, what)
		all[what] = is
	}
	for by, scope := range map[string]store.Scope{"own": of, "everyone's": everyone} {
		events, err := l.EventList(l.ctx, scope, store.EventQuery{Tenant: l.name, Limit: 100})
		see(by+" events", events, err)
		deliveries, err := l.DeliveryList(l.ctx, scope, store.DeliveryQuery{Tenant: l.name, Limit: 100})
		see(by+" deliveries", deliveries, err)
		for _, x := range deliveries {
			whole, err := l.Delivery(l.ctx, scope, x.Seq)
			see(fmt.Sprint(by, " delivery ", x.Seq), whole, err)
		}
		for _, by := range []store.Grouping{store.ByTime, store.ByEndpoint, store.ByTenant, store.ByType} {
			totals, err := l.Totals(l.ctx, scope, store.TotalsQuery{Tenant: l.name, By: by, Duplicates: true})
			see("totals by "+string(by), totals, err)
		}
		replays, err := l.ReplayList(l.ctx, scope, store.ReplayQuery{Tenant: l.name, Limit: 100})
		see(by+" replays", replays, err)
		for _, r := range replays {
			all["items of "+r.ID] = l.items(r.ID)
		}
		entries, err := l.AuditList(l.ctx, scope, store.AuditQuery{Tenant: l.name, Limit: 100})
		see(by+" audit", entries, err)
		documents, err := l.DocumentList(l.ctx, scope, store.DocumentQuery{Kind: "alert", Tenant: l.name, Limit: 100})
		see(by+" documents", documents, err)
		asides, err := l.AsideList(l.ctx, scope, store.AsideQuery{Tenant: l.name, Limit: 100})
		see(by+" asides", asides, err)
	}
	all["positions"] = each(l.list(store.DeliveryQuery{Endpoint: l.ep}), func(x *grapnel.Delivery) int64 { return x.Position })
	for _, code := range []int{503, 200} {
		all[fmt.Sprint("answered ", code)] = labels(l.list(store.DeliveryQuery{Endpoint: l.ep, StatusCode: code}))
	}
	counts, err := l.Counts(l.ctx, of)
	see("counts", counts, err)
	_, types, err := l.HasType(l.ctx, l.name, l.text("paid"), 100)
	see("types", types, err)
	for _, ep := range []string{l.ep, l.q} {
		all["heads of "+ep], all["lanes of "+ep], all["leases of "+ep] = l.heads(ep), l.stuck(ep), l.leases(ep)
		all["waiting at "+ep], all["counts of "+ep] = l.waiting(ep), l.counts(ep, 9000)
		totals, err := l.Totals(l.ctx, everyone, store.TotalsQuery{Endpoint: ep})
		see("totals of "+ep, totals, err)
		entries, err := l.AuditList(l.ctx, everyone, store.AuditQuery{Endpoint: ep, Limit: 100})
		see("audit of "+ep, entries, err)
	}
	all["answer"] = l.recall(store.PassKeys(l.name)+"/ses_1/k", 1)
	all["standings"] = slices.DeleteFunc(l.standings(), func(s store.Standing) bool { return s.Endpoint != l.ep })
	return all
}

// seen are the parts of a view that show something.
func seen(view map[string]any) (names []string) {
	nothing := []string{"[]", "map[]", "0", "<nil>", fmt.Sprint(grapnel.QueueCounts{})}
	for name, is := range view {
		if !slices.Contains(nothing, fmt.Sprint(is)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// receiveAgain repeats the last request to the source, and says whether it is known.
func (l *Tenant) receiveAgain() bool {
	l.Helper()
	in := incoming(l.event(70, 9500))
	in.Known = &store.Known{Source: "src_" + l.name, By: []byte(l.text(7)), Until: at(1e6)}
	return l.publish(in).Events[0].Duplicate
}

// tidyTotals makes days of old totals, and purges nothing.
func (d *driver) tidyTotals() {
	d.Helper()
	_, err := d.Purge(d.ctx, store.Keep{Now: at(9000), For: seconds(1e9)}, 1)
	d.must(err, "Purge")
}
