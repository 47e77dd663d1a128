package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/policy"
)

// kinds is a query's condition on the kind of events; all: no condition.
type kinds struct {
	numbers []int32
	all     bool
}

// kinds finds the kinds of a tenant, or of any, that match one of the patterns, or all if there are
// no patterns. It reads only kinds of the tenant that begin like the patterns: the unique index is
// by tenant and then by type.
func (s *Store) kinds(ctx context.Context, tenant, source string, patterns ...string) (k kinds, err error) {
	match := matching(patterns)
	if tenant == "" && source == "" && match == nil {
		return kinds{all: true}, nil
	}
	f := new(filter)
	f.text("SELECT number, type FROM kind WHERE true").equal("tenant", tenant).equal("source", source)
	if match != nil {
		f.text(" AND (false")
		for _, pattern := range patterns {
			start, _, _ := strings.Cut(pattern, "*")
			f.text(" OR type ^@ ").value(start)
		}
		f.text(")")
	}
	k.numbers = []int32{}
	var number int32
	var eventType string
	err = f.ask(ctx, s.reading).each([]any{&number, &eventType}, func() {
		if match == nil || match(eventType) {
			k.numbers = append(k.numbers, number)
		}
	})
	return k, err
}

// matching says whether a type matches one of the patterns; nil: every type does.
func matching(patterns []string) func(string) bool {
	if len(patterns) == 0 || slices.Contains(patterns, "*") {
		return nil
	}
	return func(eventType string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return grapnel.MatchType(pattern, eventType) })
	}
}

// patternsOf returns the pattern of a list; none: every type matches.
func patternsOf(pattern string) []string {
	if pattern == "" {
		return nil
	}
	return []string{pattern}
}

// statuses is a list's condition on statuses. Place and endpoint decide between held and pending.
type statuses struct {
	over          []string
	pending, held bool
	heldTargets   []int32
}

const targetNumbersQuery = "SELECT number FROM target WHERE endpoint = ANY($1)"

func (s *Store) statuses(ctx context.Context, q *store.DeliveryQuery) (w statuses, err error) {
	for _, status := range q.Status {
		switch status {
		case grapnel.Pending:
			w.pending = true
		case grapnel.Held:
			w.held = true
		default:
			w.over = append(w.over, string(status))
		}
	}
	if len(q.Status) == 0 {
		w.pending, w.held = true, true
	}
	w.heldTargets = []int32{}
	if w.pending != w.held && len(q.HeldEndpoints) > 0 {
		w.heldTargets, err = firstColumn[int32](ask(ctx, s.reading, targetNumbersQuery, q.HeldEndpoints))
	}
	return w, err
}

// DeliveryList returns at most Limit deliveries; no limit: none.
func (s *Store) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	list, _, err := s.list(ctx, scope, q, 0)
	return list, err
}

// list examines at most about `most` finished deliveries, or all if it is 0. from is the row id of
// the oldest one that it examines; 0: it examines all.
func (s *Store) list(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	most int) (list []grapnel.Delivery, from int64, err error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some || q.Limit <= 0 {
		return nil, 0, ctx.Err()
	}
	q.Tenant = tenant
	f, from, err := s.listQuery(ctx, &q, most)
	if err != nil || f == nil {
		return nil, 0, readError(ctx, err)
	}
	err = readDeliveries(f.ask(ctx, s.reading), func(d grapnel.Delivery, _ []byte) { list = append(list, d) })
	return list, from, readError(ctx, err)
}

const tenantTargetsQuery = "SELECT DISTINCT target FROM tally WHERE tenant = $1 LIMIT $2"

// listQuery is the statement of a list, and where it ends; nil: the list is empty.
func (s *Store) listQuery(ctx context.Context, q *store.DeliveryQuery, most int) (f *filter, from int64, err error) {
	of, err := s.kinds(ctx, q.Tenant, "", patternsOf(q.Type)...)
	if err != nil || !of.all && len(of.numbers) == 0 {
		return nil, 0, err
	}
	status, err := s.statuses(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	var targets []int32
	endpoints, args := targetNumbersQuery, []any{[]string{q.Endpoint}}
	if q.Endpoint == "" {
		endpoints, args = tenantTargetsQuery, []any{q.Tenant, s.bounds.ListTargets + 1}
	}
	if q.Endpoint != "" || q.Tenant != "" {
		if targets, err = firstColumn[int32](ask(ctx, s.reading, endpoints, args...)); err != nil || len(targets) == 0 {
			return nil, 0, err
		}
	}
	over := len(q.Status) == 0 || len(status.over) > 0
	if over && most > 0 && sifts(q) {
		if from, err = s.farthest(ctx, q, &status, targets, most); err != nil {
			return nil, 0, err
		}
	}
	f = new(filter)
	f.text("SELECT " + showColumns + " FROM (")
	looked := false
	for _, part := range []struct {
		wanted       bool
		shape, table string
	}{
		{(status.pending || status.held) && !q.DeadLetters, waitingShape, "pending"},
		{over, overShape, "finished"},
	} {
		if !part.wanted {
			continue
		}
		if looked {
			f.text(" UNION ALL ")
		}
		looked = true
		f.part(part.shape, part.table, targets, s.bounds.ListTargets, q, func() {
			if from > 0 {
				f.text(" AND d.seq >= ").value(from)
			}
			if !of.all {
				either(f, "d.kind", of.numbers)
			}
			if part.table == "pending" {
				status.whereWaiting(f)
			} else {
				status.whereOver(f, q)
			}
			f.whereLast(q.Class, q.StatusCode)
			f.equal("d.code", string(q.ReasonCode)).whereWithin(acceptedAt, q.From, q.To)
		})
	}
	if !looked {
		return nil, 0, nil
	}
	f.text(")" + showJoins + " ORDER BY d.seq DESC LIMIT ").value(q.Limit)
	return f, from, nil
}

// sifts says whether a list has a condition on finished deliveries that none of their indexes has.
func sifts(q *store.DeliveryQuery) bool {
	return q.Key == "" && (q.Type != "" || q.Class != "" || q.StatusCode != 0 || q.ReasonCode != "" || q.DeadLetters || !q.From.IsZero() ||
		!q.To.IsZero())
}

// farthest is the row id at which a list ends, because it has examined its part of `most` finished
// deliveries of a target by then; 0: there are fewer. An index has them in their order.
func (s *Store) farthest(ctx context.Context, q *store.DeliveryQuery, status *statuses, targets []int32, most int) (from int64, err error) {
	f := new(filter)
	f.text("SELECT coalesce(max(x.seq), 0) FROM ")
	where := ""
	if apart := len(targets) > 0 && len(targets) <= s.bounds.ListTargets; apart {
		f.text("unnest(").value(targets).text("::int[]) one(target) CROSS JOIN ")
		where, most = " AND d.target = one.target", most/len(targets)
		wanted := status.over
		if q.DeadLetters {
			wanted = []string{string(grapnel.Failed)}
		}
		if len(wanted) > 0 && !slices.Contains(wanted, string(grapnel.Delivered)) {
			f.text("unnest(").value(wanted).text("::text[]) state(status) CROSS JOIN ")
			where += " AND d.status = state.status AND d.status <> 'delivered'"
		}
	}
	f.text("LATERAL (SELECT d.seq FROM finished d WHERE d.seq < ").value(below(q.Before))
	f.text(where + " ORDER BY d.seq DESC LIMIT 1 OFFSET ").value(most).text(") x")
	err = s.reading.QueryRow(ctx, f.sql(), f.values...).Scan(&from)
	return from, err
}

// part selects the newest matching rows of one table; for each target separately if there are at
// most `most` targets.
func (f *filter) part(shape, table string, targets []int32, most int, q *store.DeliveryQuery, where func()) {
	apart := len(targets) > 1 && len(targets) <= most
	if apart {
		f.text("(SELECT d.* FROM unnest(").value(targets).text("::int[]) one(target) CROSS JOIN LATERAL ")
	}
	f.text("(SELECT " + shape + " FROM ")
	if q.Key == "" {
		f.text(table)
	} else {
		// Deliveries are found by their events: the original ones by their range of row ids, redeliveries
		// one by one.
		f.text("(SELECT x.* FROM event e CROSS JOIN LATERAL (SELECT * FROM " + table +
			" WHERE seq BETWEEN e.first AND e.last AND seq = ANY(ARRAY(SELECT generate_series(e.first, e.last))) AND event = e.seq) x" +
			" WHERE e.key = ").value(q.Key)
		f.text(" AND e.key <> '' UNION ALL SELECT x.* FROM event e JOIN redelivery r ON r.event = e.seq JOIN " + table +
			" x ON x.seq = r.delivery WHERE e.key = ").value(q.Key).text(" AND e.key <> '')")
	}
	f.text(" d WHERE d.seq < ").value(below(q.Before))
	switch {
	case apart:
		f.text(" AND d.target = one.target")
	case len(targets) == 1:
		f.text(" AND d.target = ").value(targets[0])
	}
	where()
	f.text(" ORDER BY d.seq DESC LIMIT ").value(q.Limit).text(")")
	if apart {
		f.text(" d)")
	}
}

func (w *statuses) whereWaiting(f *filter) {
	if w.pending == w.held {
		return
	}
	not := ""
	if w.pending {
		not = "NOT "
	}
	f.text(" AND " + not + "(NOT d.head OR d.blocked OR d.target = ANY(").value(w.heldTargets).text("))")
}

func (w *statuses) whereOver(f *filter, q *store.DeliveryQuery) {
	f.whereStatus(w.over)
	if q.DeadLetters {
		f.text(" AND d.status = 'failed' AND d.status <> 'delivered' AND NOT EXISTS (SELECT FROM mark WHERE delivery = d.seq AND (discarded IS NOT NULL")
		if !q.Replayed {
			f.text(" OR replay_result = 'delivered'")
		}
		f.text(") OFFSET 0)") // so that it is looked up row by row
	}
}

// whereStatus adds the condition that a finished delivery has one of some statuses; none: any.
func (f *filter) whereStatus(some []string) {
	either(f, "d.status", some)
	if len(some) > 0 && !slices.Contains(some, string(grapnel.Delivered)) {
		f.text(" AND d.status <> 'delivered'") // an index leaves out delivered rows
	}
}

// whereLast adds conditions on a delivery's last attempt; zero: any.
func (f *filter) whereLast(class policy.Class, statusCode int) {
	f.equal("d.class", string(class))
	if statusCode != 0 {
		f.text(" AND ").value(statusCode).text(" IN (d.status_code, d.status_code / 100)")
	}
}

// acceptedAt is the acceptance time of a delivery's event.
const acceptedAt = "CASE WHEN d.replay_of = 0 THEN d.created ELSE (SELECT accepted FROM event WHERE seq = d.event) END"

// whereWithin adds the condition that a time is within a span, whose ends may be open.
func (f *filter) whereWithin(at string, from, to time.Time) {
	if !from.IsZero() {
		f.text(" AND " + at + " >= ").value(codec.Micros(from))
	}
	if !to.IsZero() {
		f.text(" AND " + at + " < ").value(codec.Micros(to))
	}
}

// EventList returns at most Limit events; no limit: none. It leaves out corrupt ones.
func (s *Store) EventList(ctx context.Context, scope store.Scope, q store.EventQuery) (list []grapnel.Event, err error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some {
		return nil, ctx.Err()
	}
	of, err := s.kinds(ctx, tenant, q.Source, patternsOf(q.Type)...)
	if err != nil || !of.all && len(of.numbers) == 0 {
		return nil, readError(ctx, err)
	}
	for len(list) < q.Limit {
		f := new(filter)
		f.text("SELECT " + eventColumns + " FROM ")
		if apart := !of.all && q.Key == "" && len(of.numbers) <= s.bounds.ListTargets; apart {
			f.text("unnest(").value(of.numbers).text("::int[]) one(kind) CROSS JOIN LATERAL (SELECT * FROM event e WHERE e.kind = one.kind")
		} else {
			f.text("(SELECT * FROM event e WHERE true")
			if !of.all {
				either(f, "e.kind", of.numbers)
			}
		}
		if q.Key != "" {
			f.text(" AND e.key = ").value(q.Key).text(" AND e.key <> ''")
		}
		f.whereWithin("e.accepted", q.From, q.To)
		limit := min(q.Limit-len(list), s.bounds.ListPage)
		f.text(" AND e.seq < ").value(below(q.Before)).text(" ORDER BY e.seq DESC LIMIT ").value(limit)
		f.text(") e JOIN kind k ON k.number = e.kind ORDER BY e.seq DESC LIMIT ").value(limit)
		found := 0
		var r eventRow
		err := f.ask(ctx, s.reading).each(r.into(), func() {
			found, q.Before = found+1, r.Seq
			if e := s.thaw(&r); e != nil {
				list = append(list, *e)
			}
		})
		if err != nil || found < limit {
			return list, readError(ctx, err)
		}
	}
	return list, nil
}
