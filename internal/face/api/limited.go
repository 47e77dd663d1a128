package api

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
)

// A pass can be limited to some endpoints of its tenant. No store knows such scopes, and each finds
// nothing in them (store.Scope.Only). The types here stand before the engine, the history and the
// replays, and ask for the endpoints one by one. A limit has few endpoints, and each question has
// an index, so a list costs what the lists of its endpoints cost. A call that is not here finds
// nothing, as if everything was another tenant's.

// limitedHistory answers questions of limited scopes.
type limitedHistory struct{ History }

// Event has the deliveries to the endpoints in scope; without any it is not found.
func (h limitedHistory) Event(ctx context.Context, scope store.Scope, tenant, id string) (*grapnel.Event, []grapnel.Delivery, error) {
	ev, deliveries, err := h.History.Event(ctx, scope.Whole(), tenant, id)
	if err == nil && scope.Hides(ev.Type, "") {
		return nil, nil, store.ErrNotFound("event")
	}
	if _, limited := scope.Limited(); !limited || err != nil {
		return ev, deliveries, err
	}
	deliveries = slices.DeleteFunc(deliveries, func(d grapnel.Delivery) bool { return !scope.Covers(d.Tenant, d.EndpointID) })
	if len(deliveries) == 0 {
		return nil, nil, store.ErrNotFound("event")
	}
	return ev, deliveries, nil
}

// eventsOf is how many deliveries are read at once to find their events.
const eventsOf = 100

// EventList of a limited scope has the events that were delivered to its endpoints, the newest
// first. They are found by those deliveries, so the position of an event in the list, its Seq, is
// the row id of the last of them. All of an event's deliveries but repetitions follow each other.
func (h limitedHistory) EventList(ctx context.Context, scope store.Scope, q store.EventQuery) (found []grapnel.Event, err error) {
	if _, limited := scope.Limited(); !limited {
		return visible(scope, &q.Before, q.Limit, func(e *grapnel.Event) (int64, bool) { return e.Seq, scope.Hides(e.Type, "") },
			func() ([]grapnel.Event, error) { return h.History.EventList(ctx, scope, q) })
	}
	if q.Source != "" {
		return nil, nil
	}
	var last *grapnel.Delivery // of the event that is not complete yet
	add := func() error {
		if last == nil {
			return nil
		}
		ev, _, err := h.History.Event(ctx, scope.Whole(), last.Tenant, last.EventID)
		if err == nil {
			ev.Seq = last.Seq
			found = append(found, *ev)
		} else if grapnel.CodeOf(err) != grapnel.CodeNotFound {
			return err
		}
		return nil
	}
	dq := store.DeliveryQuery{Type: q.Type, Key: q.Key, Tenant: q.Tenant, From: q.From, To: q.To, Before: q.Before, Limit: eventsOf}
	for len(found) < q.Limit {
		part, err := h.DeliveryList(ctx, scope, dq)
		if err != nil {
			return nil, err
		}
		for i := range part {
			d := &part[i]
			if d.ReplayOf != 0 {
				continue
			}
			if last != nil && last.EventSeq != d.EventSeq {
				if err := add(); err != nil || len(found) == q.Limit {
					return found, err
				}
			}
			last = d
		}
		if len(part) < dq.Limit {
			return found, add()
		}
		dq.Before = part[len(part)-1].Seq
	}
	return found, nil
}

// Delivery finds one to an endpoint in scope.
func (h limitedHistory) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	d, err := h.History.Delivery(ctx, scope.Whole(), seq)
	if err == nil && (!scope.Covers(d.Tenant, d.EndpointID) || scope.Hides(d.Type, d.EndpointID)) {
		return nil, store.ErrNotFound("delivery")
	}
	return d, err
}

// DeliveryList merges the lists of the endpoints.
func (h limitedHistory) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	of := q.Endpoint
	return visible(scope, &q.Before, q.Limit, func(d *grapnel.Delivery) (int64, bool) { return d.Seq, scope.Hides(d.Type, d.EndpointID) },
		func() ([]grapnel.Delivery, error) {
			return merge(scope, of, q.Limit, newestDelivery, func(whole store.Scope, endpoint string) ([]grapnel.Delivery, error) {
				q.Endpoint = endpoint
				return h.History.DeliveryList(ctx, whole, q)
			})
		})
}

// Feed is that of an endpoint in scope, without hidden deliveries.
func (h limitedHistory) Feed(ctx context.Context, scope store.Scope, q store.FeedQuery) (page store.FeedPage, err error) {
	whole, covered := scope.For(q.Endpoint)
	if !covered {
		return page, nil
	}
	page, err = h.History.Feed(ctx, whole, q)
	page.Deliveries = slices.DeleteFunc(page.Deliveries, func(d grapnel.Delivery) bool { return scope.Hides(d.Type, d.EndpointID) })
	return page, err
}

// visible reads a list of at most limit entries until it has as many that are not hidden, or until
// there are no more: so hidden entries neither shorten a page nor end a list early. next says the
// id of an entry and whether it is hidden; before is the id before which ask reads.
func visible[T, ID any](scope store.Scope, before *ID, limit int, next func(*T) (id ID, hidden bool), ask func() ([]T, error)) (
	found []T, err error) {
	for {
		part, err := ask()
		if err != nil || !scope.HidesAlerts() {
			return part, err
		}
		for i := range part {
			id, hidden := next(&part[i])
			if *before = id; hidden {
				continue
			}
			if found = append(found, part[i]); len(found) == limit {
				return found, nil
			}
		}
		if limit == 0 || len(part) < limit {
			return found, nil
		}
	}
}

// DeliverySearch merges the searches of the endpoints. It goes on before the highest row id before
// which one of them has to go on: what others have found below that is found again.
func (h limitedHistory) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	hidden := func(d grapnel.Delivery) bool { return scope.Hides(d.Type, d.EndpointID) }
	if _, limited := scope.Limited(); !limited {
		if _, covered := scope.For(q.Endpoint); !covered {
			return nil, 0, nil
		}
		list, err = visible(scope, &q.Before, q.Limit, func(d *grapnel.Delivery) (int64, bool) { return d.Seq, hidden(*d) },
			func() (part []grapnel.Delivery, err error) {
				part, resume, err = h.History.DeliverySearch(ctx, scope, q, text)
				return part, err
			})
		if scope.HidesAlerts() && q.Limit > 0 && len(list) == q.Limit {
			resume = list[q.Limit-1].Seq // the last part may go on further than the entries that fit
		}
		return list, resume, err
	}
	list, err = merge(scope, q.Endpoint, 0, newestDelivery, func(whole store.Scope, endpoint string) ([]grapnel.Delivery, error) {
		q.Endpoint = endpoint
		found, goesOn, err := h.History.DeliverySearch(ctx, whole, q, text)
		resume = max(resume, goesOn)
		return found, err
	})
	list = slices.DeleteFunc(list, func(d grapnel.Delivery) bool { return d.Seq < resume || hidden(d) })
	if q.Limit > 0 && len(list) > q.Limit {
		list = list[:q.Limit]
		resume = list[q.Limit-1].Seq
	}
	return list, resume, err
}

// StuckLanes finds those of an endpoint in scope.
func (h limitedHistory) StuckLanes(ctx context.Context, scope store.Scope, q store.LaneQuery) ([]grapnel.Lane, error) {
	whole, covered := scope.For(q.Endpoint)
	if !covered {
		return nil, nil
	}
	of := func(l *grapnel.Lane) (int64, bool) { return l.Head.Seq, scope.Hides(l.Head.Type, l.Endpoint) }
	return visible(scope, &q.After, q.Limit, of, func() ([]grapnel.Lane, error) { return h.History.StuckLanes(ctx, whole, q) })
}

// AuditList merges the entries about the endpoints and their deliveries.
func (h limitedHistory) AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error) {
	newest := func(a, b grapnel.AuditEntry) int { return cmp.Compare(b.Seq, a.Seq) }
	of := q.Endpoint
	return visible(scope, &q.Before, q.Limit, func(e *grapnel.AuditEntry) (int64, bool) { return e.Seq, aboutAlerts(scope, e.Endpoint) },
		func() ([]grapnel.AuditEntry, error) {
			return merge(scope, of, q.Limit, newest, func(whole store.Scope, endpoint string) ([]grapnel.AuditEntry, error) {
				q.Endpoint = endpoint
				return h.History.AuditList(ctx, whole, q)
			})
		})
}

// aboutAlerts says whether an id of an audit entry is one of a channel, an alert or its rule.
func aboutAlerts(scope store.Scope, id string) bool {
	_, covered := scope.For(id)
	_, limited := scope.Limited()
	return !limited && !covered || strings.HasPrefix(id, alert.IDPrefix+"_") || strings.HasPrefix(id, alerting.RuleInAudit)
}

// Totals adds up those of the endpoints.
func (h limitedHistory) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	if _, limited := scope.Limited(); limited && q.ByTypes() {
		return nil, grapnel.Errorf(codeForbidden, "The pass is limited to some endpoints, and event types are not counted by endpoint.")
	}
	oldest := func(a, b grapnel.Bucket) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name)) }
	all, err := merge(scope, q.Endpoint, 0, oldest, func(whole store.Scope, endpoint string) ([]grapnel.Bucket, error) {
		q.Endpoint = endpoint
		return h.History.Totals(ctx, whole, q)
	})
	if scope.HidesAlerts() {
		// a group has the name of its event type or endpoint
		all = slices.DeleteFunc(all, func(b grapnel.Bucket) bool { return scope.Hides(b.Name, b.Name) })
	}
	var sums []grapnel.Bucket
	for i := range all {
		if n := len(sums); n > 0 && sums[n-1].At.Equal(all[i].At) && sums[n-1].Name == all[i].Name {
			sums[n-1].Totals.Add(&all[i].Totals)
			continue
		}
		sums = append(sums, all[i])
	}
	return sums, err
}

// Backlogs counts the limit's endpoints among the tenant's.
func (h limitedHistory) Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time,
	limit int64) ([]store.Backlog, error) {
	all, err := h.History.Backlogs(ctx, scope.Whole(), tenant, now, limit)
	return slices.DeleteFunc(all, func(b store.Backlog) bool { _, covered := scope.For(b.Endpoint); return !covered }), err
}

// Annotate notes something on a delivery to an endpoint in scope.
func (h limitedHistory) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	if _, err := h.Delivery(ctx, scope, a.Delivery); err != nil {
		return err
	}
	return h.History.Annotate(ctx, scope.Whole(), a)
}

func newestDelivery(a, b grapnel.Delivery) int { return cmp.Compare(b.Seq, a.Seq) }

// merge asks about one endpoint, about each of a limited scope, or in one question about all. limit
// is that of each list and of the whole; 0: none.
func merge[T any](scope store.Scope, endpoint string, limit int, order func(a, b T) int,
	ask func(whole store.Scope, endpoint string) ([]T, error)) ([]T, error) {
	endpoints, limited := scope.Limited()
	switch whole, covered := scope.For(endpoint); {
	case endpoint != "" && !covered:
		return nil, nil
	case !limited, endpoint != "":
		return ask(whole, endpoint)
	}
	var all []T
	for _, id := range endpoints {
		part, err := ask(scope.Whole(), id)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	slices.SortStableFunc(all, order)
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all, nil
}
