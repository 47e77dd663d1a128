package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
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
func (s *lister) kinds(ctx context.Context, tenant, source string, patterns ...string) (k kinds, err error) {
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
	err = f.ask(ctx, s.reading).Each([]any{&number, &eventType}, func() {
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

func (s *lister) statuses(ctx context.Context, q *store.DeliveryQuery) (w statuses, err error) {
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
		w.heldTargets, err = rows.FirstColumn[int32](rows.Ask(ctx, s.reading, targetNumbersQuery, q.HeldEndpoints))
	}
	return w, err
}

// DeliveryList returns at most Limit deliveries; no limit: none.
func (s *lister) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	list, _, err := s.list(ctx, scope, q, 0)
	return list, err
}

// list examines at most about `most` finished deliveries, or all if it is 0. If it returns fewer
// than Limit, from is the row id of the oldest one that it examined; 0: it examined all.
func (s *lister) list(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	most int) (list []grapnel.Delivery, from int64, err error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some || q.Limit <= 0 {
		return nil, 0, ctx.Err()
	}
	q.Tenant = tenant
	l, err := s.listing(ctx, &q)
	if err != nil || l == nil {
		return nil, 0, readError(ctx, err)
	}
	limit, newest := q.Limit, q.Before
	for _, start := range s.starts(newest) {
		if l.sifts && most > 0 {
			if from, err = s.farthest(ctx, l, start, newest, most); err != nil {
				return nil, 0, readError(ctx, err)
			}
			start = max(start, from)
		}
		for more := true; more && q.Limit > 0; q.Limit = limit - len(list) {
			f, err := s.listQuery(ctx, l, start)
			if err != nil {
				return nil, 0, readError(ctx, err)
			}
			seqs, err := s.readDeliveries(ctx, s.reading, f.ask(ctx, s.reading), func(d grapnel.Delivery, _ []byte) { list = append(list, d) })
			if err != nil {
				return nil, 0, readError(ctx, err)
			}
			if more = len(seqs) == q.Limit; more {
				q.Before = seqs[len(seqs)-1]
			}
		}
		if q.Before = start; q.Limit == 0 || from > 0 {
			break
		}
	}
	return list, from, nil
}

const tenantTargetsQuery = "SELECT DISTINCT target FROM tally WHERE tenant = $1 LIMIT $2"

// listing is a list of which all statements have the same conditions.
type listing struct {
	q       *store.DeliveryQuery
	of      kinds
	status  statuses
	targets []int32
	parts   []listed
	sifts   bool // see sifts
}

// listed is a table from which a list reads.
type listed struct{ shape, table string }

// listing reads what the conditions need; nil: the list is empty.
func (s *lister) listing(ctx context.Context, q *store.DeliveryQuery) (l *listing, err error) {
	l = &listing{q: q}
	if l.of, err = s.kinds(ctx, q.Tenant, q.Source, patternsOf(q.Type)...); err != nil || !l.of.all && len(l.of.numbers) == 0 {
		return nil, err
	}
	if l.status, err = s.statuses(ctx, q); err != nil {
		return nil, err
	}
	endpoints, args := targetNumbersQuery, []any{[]string{q.Endpoint}}
	if q.Endpoint == "" {
		endpoints, args = tenantTargetsQuery, []any{q.Tenant, s.bounds.ListTargets + 1}
	}
	if q.Endpoint != "" || q.Tenant != "" {
		if l.targets, err = rows.FirstColumn[int32](rows.Ask(ctx, s.reading, endpoints, args...)); err != nil || len(l.targets) == 0 {
			return nil, err
		}
	}
	if (l.status.pending || l.status.held) && !q.DeadLetters {
		l.parts = append(l.parts, listed{waitingShape, "pending"})
	}
	if len(q.Status) == 0 || len(l.status.over) > 0 {
		l.parts, l.sifts = append(l.parts, listed{overShape, "finished"}), sifts(q)
	}
	if len(l.parts) == 0 {
		return nil, nil
	}
	return l, nil
}

// listQuery is the statement of a list for the rows from `start` on.
func (s *lister) listQuery(ctx context.Context, l *listing, start int64) (*filter, error) {
	again, err := s.againOf(ctx, l.q, start)
	if err != nil {
		return nil, err
	}
	f := new(filter)
	f.text("SELECT " + showColumns + " FROM (")
	for i, part := range l.parts {
		if i > 0 {
			f.text(" UNION ALL ")
		}
		f.part(part, l, start, s.bounds.ListTargets, again)
	}
	return f.text(")" + showJoins + " ORDER BY d.seq DESC LIMIT ").value(l.q.Limit), nil
}

// sifts says whether a list has a condition on finished deliveries that none of their indexes has.
func sifts(q *store.DeliveryQuery) bool {
	return q.Key == "" && (q.Type != "" || q.Source != "" || q.Class != "" || q.StatusCode != 0 || q.ReasonCode != "" || q.DeadLetters || !q.From.IsZero() ||
		!q.To.IsZero())
}

// farthest is the row id at which a list ends, because it has examined its part of `most` finished
// deliveries of a target by then; 0: from `start` on there are fewer. An index has them in their
// order.
func (s *lister) farthest(ctx context.Context, l *listing, start, before int64, most int) (from int64, err error) {
	f := new(filter)
	f.text("SELECT coalesce(max(x.seq), 0) FROM ")
	where := ""
	if apart := len(l.targets) > 0 && len(l.targets) <= s.bounds.ListTargets; apart {
		f.text("unnest(").value(l.targets).text("::int[]) one(target) CROSS JOIN ")
		where, most = " AND d.target = one.target", most/len(l.targets)
		wanted := l.status.over
		if l.q.DeadLetters {
			wanted = []string{string(grapnel.Failed)}
		}
		if len(wanted) > 0 && !slices.Contains(wanted, string(grapnel.Delivered)) {
			f.text("unnest(").value(wanted).text("::text[]) state(status) CROSS JOIN ")
			where += " AND d.status = state.status AND d.status <> 'delivered'"
		}
	}
	f.text("LATERAL (SELECT d.seq FROM finished d WHERE d.seq < ").value(below(before)).whereFrom("d.seq", start)
	f.text(where + " ORDER BY d.seq DESC LIMIT 1 OFFSET ").value(most).text(") x")
	err = s.reading.QueryRow(ctx, f.sql(), f.values...).Scan(&from)
	return from, err
}

// part selects the newest matching rows of one table from `start` on; for each target separately if
// there are at most `most` targets.
func (f *filter) part(of listed, l *listing, start int64, most int, again *againOf) {
	apart := len(l.targets) > 1 && len(l.targets) <= most
	if apart {
		f.text("(SELECT d.* FROM unnest(").value(l.targets).text("::int[]) one(target) CROSS JOIN LATERAL ")
	}
	f.text("(SELECT " + of.shape + " FROM ")
	if l.q.Key == "" {
		f.text(of.table)
	} else {
		f.ofKey(of.table, l.q, start, again)
	}
	f.text(" d WHERE d.seq < ").value(below(l.q.Before)).whereFrom("d.seq", start)
	switch {
	case apart:
		f.text(" AND d.target = one.target")
	case len(l.targets) == 1:
		f.text(" AND d.target = ").value(l.targets[0])
	}
	if !l.of.all {
		either(f, "d.kind", l.of.numbers)
	}
	if of.table == "pending" {
		l.status.whereWaiting(f)
	} else {
		l.status.whereOver(f, l.q)
	}
	f.whereLast(l.q.Class, l.q.StatusCode)
	f.equal("d.code", string(l.q.ReasonCode)).whereAccepted(l.q, again)
	f.text(" ORDER BY d.seq DESC LIMIT ").value(l.q.Limit).text(")")
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

// EventList returns at most Limit events; no limit: none. It leaves out corrupt ones.
func (s *lister) EventList(ctx context.Context, scope store.Scope, q store.EventQuery) (list []grapnel.Event, err error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some {
		return nil, ctx.Err()
	}
	of, err := s.kinds(ctx, tenant, q.Source, patternsOf(q.Type)...)
	if err != nil || !of.all && len(of.numbers) == 0 {
		return nil, readError(ctx, err)
	}
	for starts := s.starts(q.Before); len(list) < q.Limit && len(starts) > 0; {
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
		f.text(" AND e.seq < ").value(below(q.Before)).whereFrom("e.seq", starts[0])
		f.text(" ORDER BY e.seq DESC LIMIT ").value(limit)
		f.text(") e JOIN kind k ON k.number = e.kind ORDER BY e.seq DESC LIMIT ").value(limit)
		found := 0
		var r eventRow
		err := f.ask(ctx, s.reading).Each(r.into(), func() {
			found, q.Before = found+1, r.Seq
			list = append(list, *s.thaw(ctx, &r))
		})
		if err != nil {
			return list, readError(ctx, err)
		}
		if found < limit {
			q.Before, starts = starts[0], starts[1:]
		}
	}
	return list, nil
}
