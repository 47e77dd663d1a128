package alerting

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// readGroups reads a tenant's dead letters since a time, by endpoint and reason. before are those
// of the last look. Without dead letters in the totals by the hour nothing else is read.
func (g *gathering) readGroups(ctx context.Context, now, begin time.Time, tenant string, before []alert.Group, hours []grapnel.Bucket) (
	[]alert.Group, error) {
	if !slices.ContainsFunc(hours, func(b grapnel.Bucket) bool { return !b.At.Before(begin) && b.Failed > 0 }) {
		return nil, nil
	}
	buckets, err := g.k.o.Store.Totals(ctx, store.Everyone(), store.TotalsQuery{Tenant: tenant, From: begin, By: store.ByEndpoint})
	if err != nil {
		return before, err
	}
	var all []alert.Group
	for i := range buckets {
		ep, there := g.k.o.Engine.Endpoint(store.Everyone(), buckets[i].Name)
		if !there || buckets[i].Failed == 0 {
			continue
		}
		by := buckets[i].Reasons.By()
		for _, reason := range slices.Sorted(maps.Keys(by)) {
			if !deadly[reason] {
				continue
			}
			is := alert.Group{Endpoint: &ep, Reason: reason, Count: by[reason], Since: begin, Grew: now}
			at := slices.IndexFunc(before, func(b alert.Group) bool { return b.Endpoint.ID == ep.ID && b.Reason == reason })
			if at >= 0 && before[at].Since.Equal(begin) && before[at].Count == is.Count {
				is.Grew, is.Newest = before[at].Grew, before[at].Newest
			} else if is.Newest, err = g.readNewest(ctx, &is); err != nil {
				return before, err
			}
			if at >= 0 && !before[at].Since.Equal(begin) && is.Count <= before[at].Count {
				is.Grew = before[at].Grew // an hour has left the count, and none was added for all that is known
			}
			all = append(all, is)
		}
	}
	return all, nil
}

// deadly are the reasons with which deliveries become dead letters.
var deadly = map[grapnel.ReasonCode]bool{grapnel.ReasonExhausted: true, grapnel.ReasonPermanent: true, grapnel.ReasonRejected: true,
	grapnel.ReasonExpired: true, grapnel.ReasonDamaged: true}

// readNewest reads why the newest dead letter of a group failed; empty: it was discarded or
// delivered again since.
func (g *gathering) readNewest(ctx context.Context, of *alert.Group) (string, error) {
	list, err := g.k.o.Store.DeliveryList(ctx, store.Of(of.Endpoint.Tenant), store.DeliveryQuery{Endpoint: of.Endpoint.ID,
		ReasonCode: of.Reason, DeadLetters: true, Replayed: true, Limit: 1})
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].Reason, nil
}

// addTries adds the most failed attempts of each endpoint's pending deliveries, for tenants that
// have switched the rule on.
func (g *gathering) addTries(ctx context.Context, f *alert.Facts, list []store.Backlog, at map[string]*alert.Endpoint,
	settings alert.Settings) {
	rule, _ := alert.RuleOf(alert.FailedAttempts)
	looked := 0
	for i := range list {
		ep := at[list[i].Endpoint]
		if ep == nil || list[i].Pending == 0 || !settings.Of(rule, ep.Tenant).Enabled {
			continue
		}
		if looked++; looked > g.k.bounds.Late {
			f.Unread[alert.UnreadIn(alert.FailedAttempts, ep.ID)] = true
			continue
		}
		heads, err := g.k.o.Store.Heads(ctx, ep.ID, g.k.bounds.Tried)
		if g.read(ctx, f, err, "reading retries", alert.FailedAttempts) != nil {
			return
		}
		for j := range heads {
			ep.Tries = max(ep.Tries, heads[j].Attempts)
		}
	}
}

// read passes the error of a reading on. The rules that need what could not be read are Unread.
func (g *gathering) read(ctx context.Context, f *alert.Facts, err error, what string, rules ...string) error {
	if err == nil {
		delete(g.failures, what)
		return nil
	}
	for _, rule := range rules {
		f.Unread[rule] = true
	}
	if g.failures[what]++; backoff.Tells(g.failures[what]) && ctx.Err() == nil {
		g.k.log.Warn(what+" for alert rules failed; retrying", "failures", g.failures[what], "err", err)
	}
	return err
}
