package alerting

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

func newGathering(k *Keeper) *gathering {
	return &gathering{k: k, hours: map[string]*usualHours{}, last: map[string]time.Time{}, certificates: map[string]time.Time{},
		failures: map[string]int{}}
}

// each reads the next of a sorted list of ids, at most n, by their indices.
func (t *turns) each(ids []string, n int, read func(i int) error) {
	at, there := slices.BinarySearch(ids, t.after)
	if there && t.after != "" {
		at++
	}
	for end := min(at+n, len(ids)); at < end; at++ {
		if err := read(at); err != nil {
			t.failed = true
		}
	}
	t.after = ""
	if at < len(ids) {
		t.after = ids[at-1]
	} else {
		t.whole, t.failed = t.whole || !t.failed, false
	}
}

// adminKeyFor is how long a new key with all rights is worth an alert.
const adminKeyFor = 24 * time.Hour

// gather reads the facts of a round. What cannot be read is logged, and its rules are Unread.
func (g *gathering) gather(ctx context.Context, now time.Time, settings alert.Settings) *alert.Facts {
	e := g.k.o.Engine
	f := &alert.Facts{Now: now, Unread: map[string]bool{}}
	sources := e.Sources(store.Everyone())
	var eps []*grapnel.Endpoint // not their copies: each round would leave megabytes of them
	e.EachEndpoint(store.Everyone(), func(ep *grapnel.Endpoint) bool {
		eps = append(eps, ep)
		return true
	})
	if g.slow.IsZero() || now.Sub(g.slow) >= g.k.bounds.Slow || now.Before(g.slow) {
		g.slow = now
		g.readSlowly(ctx, f, eps, sources)
	}
	g.addEndpoints(ctx, f, eps, settings)
	for i := range sources {
		last := g.last[sources[i].ID]
		if last.IsZero() && !sources[i].Paused {
			f.Unread[alert.UnreadIn(alert.SourceSilent, sources[i].ID)] = true
		}
		s := alert.Source{Source: &sources[i], Last: last}
		if g.k.o.Unverified != nil {
			s.Unverified = g.k.o.Unverified(s.ID)
		}
		f.Sources = append(f.Sources, s)
	}
	for _, tenant := range e.Tenants() {
		if g.hours[tenant] == nil {
			for _, rule := range ofTotals {
				f.Unread[alert.UnreadIn(rule, tenant)] = true
			}
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(g.hours)) {
		f.Hours = append(f.Hours, g.hours[tenant].Hours)
	}
	for _, k := range e.Keys(store.Everyone()) {
		// the server's own key is as old as the server
		if k.Tenant == "" && k.May(grapnel.ScopeAdmin) && k.ID != grapnel.AdminKeyID && now.Sub(k.CreatedAt) < adminKeyFor {
			f.Keys = append(f.Keys, k)
		}
		if !k.ExpiresAt.IsZero() {
			f.Ending = append(f.Ending, k)
		}
	}
	if g.k.o.Burns != nil {
		f.Burns = g.k.o.Burns()
	}
	if g.k.o.Backups != nil {
		f.Backups = g.k.o.Backups()
	}
	if g.k.o.Disk != nil {
		if free, total, err := g.k.o.Disk(ctx); g.read(ctx, f, err, "measuring the disk", alert.DiskFull) == nil {
			f.Disk = &alert.Disk{Free: free, Total: total}
		}
	}
	g.readOwn(ctx, f)
	f.Imbalance = g.imbalance
	for rule, whole := range map[string]bool{alert.SourceSilent: g.sources.whole, alert.Certificate: g.endpoints.whole,
		alert.DeadLetters: g.tenants.whole, alert.DeadLetter: g.tenants.whole,
		alert.FirstAttempts: g.tenants.whole, alert.Imbalance: g.imbalance != nil} {
		if !whole {
			f.Unread[rule] = true // not all of its facts were read yet
		}
	}
	return f
}

// ofTotals are the rules about a tenant's totals.
var ofTotals = []string{alert.DeadLetters, alert.DeadLetter, alert.FirstAttempts}

// addEndpoints adds the endpoints with their health and their earliest due delivery, and the
// backlogs.
func (g *gathering) addEndpoints(ctx context.Context, f *alert.Facts, eps []*grapnel.Endpoint, settings alert.Settings) {
	ids := make([]string, len(eps))
	for i := range eps {
		ids[i] = eps[i].ID
	}
	at := map[string]*alert.Endpoint{}
	f.Endpoints = make([]alert.Endpoint, len(eps))
	healths := g.k.o.Engine.Healths(ids)
	for i := range eps {
		until := g.certificates[eps[i].ID]
		if until.IsZero() && strings.HasPrefix(eps[i].URL, "https:") && eps[i].Status != grapnel.EndpointDisabled {
			f.Unread[alert.UnreadIn(alert.Certificate, eps[i].ID)] = true
		}
		f.Endpoints[i] = alert.Endpoint{Endpoint: eps[i], Health: healths[i], CertificateUntil: until,
			ClientCertUntil: egress.ClientCertUntil(eps[i].TLS)}
		at[eps[i].ID] = &f.Endpoints[i]
		if f.Endpoints[i].Forgotten() {
			for _, rule := range []string{alert.EndpointFailing, alert.CircuitOpen} {
				f.Unread[alert.UnreadIn(rule, eps[i].ID)] = true
			}
		}
		if f.Endpoints[i].Hidden() {
			f.Unread[alert.UnreadIn(alert.EndpointDegraded, eps[i].ID)] = true
		}
		if healths[i].State == "" && eps[i].Queue == nil && eps[i].Status == grapnel.EndpointEnabled {
			// its owner did not answer
			for _, rule := range []string{alert.EndpointFailing, alert.CircuitOpen, alert.DisableSoon} {
				f.Unread[alert.UnreadIn(rule, eps[i].ID)] = true
			}
			f.Unread[alert.BacklogAge] = true
		}
	}
	list, err := g.k.o.Store.Backlogs(ctx, store.Everyone(), "", f.Now, g.k.bounds.Heads)
	if g.read(ctx, f, err, "counting pending deliveries", alert.BacklogAge, alert.BacklogGrowth, alert.ConsumerGone,
		alert.FailedAttempts) != nil {
		return
	}
	pending := map[string]int64{}
	for i := range list {
		if ep := at[list[i].Endpoint]; ep != nil {
			ep.Leased = list[i].Leased
			pending[ep.Tenant] += list[i].Pending
			pending[""] += list[i].Pending
		}
	}
	f.Backlogs = g.growth(f.Now, pending)
	g.addTries(ctx, f, list, at, settings)
	late := slices.DeleteFunc(list, func(b store.Backlog) bool {
		return b.Ready == 0 || at[b.Endpoint] == nil || !at[b.Endpoint].Waits()
	})
	slices.SortFunc(late, func(a, b store.Backlog) int {
		return cmp.Or(a.Oldest.Compare(b.Oldest), strings.Compare(a.Endpoint, b.Endpoint))
	})
	most := min(len(late), g.k.bounds.Late)
	for _, b := range late[most:] {
		ep := at[b.Endpoint]
		f.Unread[alert.UnreadIn(alert.ConsumerGone, ep.ID)], f.Unread[alert.UnreadIn(alert.BacklogAge, ep.Tenant)] = true, true
	}
	for _, b := range late[:most] {
		heads, err := g.k.o.Store.Heads(ctx, b.Endpoint, 1)
		if g.read(ctx, f, err, "reading due deliveries", alert.BacklogAge, alert.ConsumerGone) != nil {
			return
		}
		if len(heads) > 0 && heads[0].Due.Before(f.Now) {
			at[b.Endpoint].Due = heads[0].Due
		}
	}
}

// growth compares the backlogs with those of Bounds.Growth ago, or with the oldest known ones.
func (g *gathering) growth(now time.Time, pending map[string]int64) (all []alert.Backlog) {
	const parts = 30 // of Growth that are remembered
	if n := len(g.backlogs); n == 0 || now.Sub(g.backlogs[n-1].at) >= g.k.bounds.Growth/parts || now.Before(g.backlogs[n-1].at) {
		g.backlogs = append(g.backlogs, backlogs{now, pending})
	}
	for len(g.backlogs) > 1 && now.Sub(g.backlogs[1].at) >= g.k.bounds.Growth || len(g.backlogs) > 2*parts {
		g.backlogs = g.backlogs[1:]
	}
	before := g.backlogs[0].pending
	for _, tenant := range slices.Sorted(maps.Keys(pending)) {
		all = append(all, alert.Backlog{Tenant: tenant, Now: pending[tenant], Before: before[tenant]})
	}
	return all
}

// readSlowly reads the facts that need a read for each object, of the objects whose turn it is.
func (g *gathering) readSlowly(ctx context.Context, f *alert.Facts, eps []*grapnel.Endpoint, sources []grapnel.Source) {
	tenants := append([]string{""}, g.k.o.Engine.Tenants()...)
	_ = g.read(ctx, f, g.k.clear(ctx, f.Now), "deleting old alerts")
	g.tenants.each(tenants, g.k.bounds.Tenants, func(i int) error {
		return g.read(ctx, f, g.readHours(ctx, f.Now, tenants[i]), "reading totals", ofTotals...)
	})
	forget(g.hours, tenants)
	ids := make([]string, len(sources))
	for i := range sources {
		ids[i] = sources[i].ID
	}
	g.sources.each(ids, g.k.bounds.Turn, func(i int) error {
		return g.read(ctx, f, g.readLast(ctx, &sources[i]), "reading the last events", alert.SourceSilent)
	})
	forget(g.last, ids)
	var secure []*grapnel.Endpoint
	ids = nil
	for i := range eps {
		if strings.HasPrefix(eps[i].URL, "https:") {
			secure, ids = append(secure, eps[i]), append(ids, eps[i].ID)
		}
	}
	g.endpoints.each(ids, g.k.bounds.Turn, func(i int) error {
		return g.read(ctx, f, g.readCertificate(ctx, secure[i]), "reading certificates", alert.Certificate)
	})
	forget(g.certificates, ids)
	off, err := g.k.o.Store.Imbalance(ctx)
	if g.imbalance = &off; g.read(ctx, f, err, "comparing the counts of deliveries", alert.Imbalance) != nil {
		g.imbalance = nil
	}
}

// forget deletes the entries of objects that do not exist any more. The ids are sorted.
func forget[T any](of map[string]T, ids []string) {
	maps.DeleteFunc(of, func(id string, _ T) bool {
		_, there := slices.BinarySearch(ids, id)
		return !there
	})
}

// readHours reads the totals of a tenant; empty: of all. The baseline is computed now and then.
func (g *gathering) readHours(ctx context.Context, now time.Time, tenant string) error {
	is := g.hours[tenant]
	if is == nil {
		is = &usualHours{Hours: alert.Hours{Tenant: tenant}}
	}
	begin := now.Truncate(time.Hour).Add(-time.Hour)
	from := begin
	again := is.at.IsZero() || now.Sub(is.at) >= g.k.bounds.Usual || now.Before(is.at)
	if again {
		from = begin.Add(-alert.BaselineFor)
	}
	buckets, err := g.k.o.Store.Totals(ctx, store.Everyone(), store.TotalsQuery{Tenant: tenant, From: from})
	if err != nil {
		return err
	}
	is.Last = alert.LastHour(buckets, now)
	if again {
		is.Usual, is.at = alert.Usual(buckets, begin), now
	}
	g.hours[tenant] = is
	if tenant == "" {
		return nil
	}
	is.Groups, err = g.readGroups(ctx, now, begin, tenant, is.Groups, buckets)
	return err
}

// readLast reads when a source received its last event.
func (g *gathering) readLast(ctx context.Context, s *grapnel.Source) error {
	list, err := g.k.o.Store.EventList(ctx, store.Of(s.Tenant), store.EventQuery{Source: s.ID, Limit: 1})
	if len(list) > 0 {
		g.last[s.ID] = list[0].AcceptedAt
	} else if _, known := g.last[s.ID]; !known && err == nil {
		g.last[s.ID] = time.Time{}
	}
	return err
}

// readOwn adds the certificate at PublicURL, which it reads now and then. A failure is no fact
// about the certificate: the last one read holds.
func (g *gathering) readOwn(ctx context.Context, f *alert.Facts) {
	if g.k.o.Certificate == nil {
		return
	}
	if g.looked.IsZero() || f.Now.Sub(g.looked) >= g.k.bounds.Own || f.Now.Before(g.looked) {
		g.looked = f.Now
		dialing, cancel := context.WithTimeout(ctx, g.k.bounds.Dial)
		defer cancel()
		if until, err := g.k.o.Certificate(dialing); g.read(ctx, f, err, "reading the certificate at --public-url") == nil {
			g.own = until
		}
	}
	f.Unread[alert.UnreadIn(alert.Certificate, g.k.o.PublicURL.Hostname())] = g.own.IsZero()
	f.Own = alert.Own{Host: g.k.o.PublicURL.Hostname(), CertificateUntil: g.own}
}

// lookedAt is the number of an endpoint's newest deliveries among which one with an attempt is
// sought for the certificate.
const lookedAt = 3

// readCertificate reads until when the certificate is valid that an endpoint showed lately.
func (g *gathering) readCertificate(ctx context.Context, ep *grapnel.Endpoint) error {
	list, err := g.k.o.Store.DeliveryList(ctx, store.Of(ep.Tenant), store.DeliveryQuery{Endpoint: ep.ID, Limit: lookedAt})
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].AttemptsMade == 0 {
			continue
		}
		d, err := g.k.o.Store.Delivery(ctx, store.Of(ep.Tenant), list[i].Seq)
		if grapnel.CodeOf(err) == grapnel.CodeNotFound {
			continue // purged meanwhile
		}
		if err != nil {
			return err
		}
		if n := len(d.Attempts); n > 0 && !d.Attempts[n-1].Peer.CertificateUntil.IsZero() {
			g.certificates[ep.ID] = d.Attempts[n-1].Peer.CertificateUntil
			return nil
		}
	}
	if _, known := g.certificates[ep.ID]; !known {
		g.certificates[ep.ID] = time.Time{}
	}
	return nil
}

// clear deletes alerts that were resolved long ago.
func (k *Keeper) clear(ctx context.Context, now time.Time) error {
	for {
		n, err := k.o.Store.ClearDocuments(ctx, alert.KindResolved, now.Add(-k.bounds.Retain), k.bounds.Page)
		if err != nil || n < k.bounds.Page {
			return err
		}
	}
}
