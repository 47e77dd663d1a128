package postgres

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// DeliverySearch reads the list page by page, and the events of each page a few at a time: events
// may be large, and the search ends once it has read enough.
func (s *lister) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	limit, size, page := q.Limit, int64(0), s.bounds.SearchPage
	if limit <= 0 {
		return nil, 0, ctx.Err()
	}
	if text == "" { // the database applies every other condition by itself
		q.Limit++
		list, from, err := s.list(ctx, scope, q, s.bounds.SearchRows)
		if err != nil || len(list) <= limit {
			return list, from, err
		}
		return list[:limit], list[limit-1].Seq, nil
	}
	q.Limit = page
	for looked := 0; ; {
		found, from, err := s.list(ctx, scope, q, s.bounds.SearchRows)
		if err != nil {
			return nil, 0, err
		}
		var events map[int64]*grapnel.Event
		for i, d := range found {
			if i%s.bounds.SearchRead == 0 {
				if events, err = s.eventsOf(ctx, found[i:min(i+s.bounds.SearchRead, len(found))]); err != nil {
					return nil, 0, err
				}
			}
			looked, q.Before = looked+1, d.Seq
			if e := events[d.EventSeq]; e != nil {
				size += int64(len(e.Data))
				if bytes.Contains(e.Data, []byte(text)) {
					list = append(list, d)
				}
			}
			enough := len(list) == limit || looked >= s.bounds.SearchMost || size >= s.bounds.SearchBytes
			if more := i+1 < len(found) || len(found) == page || from > 0; more && enough {
				return list, d.Seq, nil
			}
		}
		if len(found) < page {
			return list, from, nil
		}
	}
}

// eventsOf returns the events of deliveries, by row id.
func (s *lister) eventsOf(ctx context.Context, list []grapnel.Delivery) (map[int64]*grapnel.Event, error) {
	seqs := rows.Column(list, func(d grapnel.Delivery) int64 { return d.EventSeq })
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	events, err := (&reader{s.database}).Events(ctx, seqs)
	if err != nil {
		return nil, err
	}
	found := make(map[int64]*grapnel.Event, len(seqs))
	for i, seq := range seqs {
		found[seq] = events[i]
	}
	return found, nil
}

// Candidates returns matching deliveries, oldest first.
func (s *lister) Candidates(ctx context.Context, scope store.Scope,
	q store.CandidateQuery) (list []grapnel.Delivery, resume int64, err error) {
	tenant, some := scope.Narrow("")
	if !some || q.Limit <= 0 {
		return nil, 0, ctx.Err()
	}
	sel := &q.Selection
	var types []string
	if len(sel.Deliveries) == 0 {
		types = sel.Types
	}
	of, err := s.kinds(ctx, tenant, "", types...)
	if err != nil || !of.all && len(of.numbers) == 0 {
		return nil, 0, readError(ctx, err)
	}
	if len(sel.Status) == 0 {
		sel.Status = []grapnel.Status{grapnel.Failed}
	}
	behind, err := s.unexamined(ctx, &q)
	if err != nil {
		return nil, 0, readError(ctx, err)
	}
	f := new(filter)
	f.text("SELECT " + showColumns + " FROM (SELECT " + overShape).fromFinished(&q)
	f.text(" AND d.finished <= ").value(codec.Micros(q.OverBy))
	if behind != 0 {
		f.text(" AND d.seq < ").value(behind)
		resume = behind - 1
	}
	if !of.all {
		either(f, "d.kind", of.numbers)
	}
	if len(sel.Deliveries) > 0 {
		either(f, "d.seq", sel.Deliveries)
	} else {
		f.whereSelected(sel)
	}
	f.text(" ORDER BY d.seq LIMIT ").value(q.Limit + 1).text(")" + showJoins + " ORDER BY d.seq")
	seqs, err := s.readDeliveries(ctx, s.reading, f.ask(ctx, s.reading), func(d grapnel.Delivery, _ []byte) { list = append(list, d) })
	if err != nil {
		return nil, 0, readError(ctx, err)
	}
	if len(seqs) > q.Limit {
		resume = seqs[q.Limit-1]
		list = slices.DeleteFunc(list, func(d grapnel.Delivery) bool { return d.Seq > resume })
	}
	return list, resume, nil
}

// fromFinished adds the finished deliveries among which Candidates searches.
func (f *filter) fromFinished(q *store.CandidateQuery) *filter {
	f.text(" FROM finished d WHERE d.target = (SELECT number FROM target WHERE endpoint = ").value(q.Endpoint)
	f.text(") AND d.seq > ").value(q.After)
	if q.UpTo != 0 {
		f.text(" AND d.seq <= ").value(q.UpTo)
	}
	return f
}

// unexamined is the row id at which Candidates stops, because there are Looked deliveries of a
// status before it; 0: there is none. Each status has its own query, which an index answers in
// order.
func (s *lister) unexamined(ctx context.Context, q *store.CandidateQuery) (behind int64, err error) {
	statuses := q.Selection.Status
	if len(q.Selection.Deliveries) > 0 {
		return 0, nil
	}
	if slices.Contains(statuses, grapnel.Delivered) {
		statuses = []grapnel.Status{""} // all at once
	}
	for _, status := range statuses {
		f := new(filter)
		f.text("SELECT d.seq").fromFinished(q).equal("d.status", string(status))
		if status != "" {
			f.text(" AND d.status <> 'delivered'") // an index leaves out delivered rows
		}
		f.text(" ORDER BY d.seq LIMIT 1 OFFSET ").value(s.bounds.Looked)
		seqs, err := rows.FirstColumn[int64](f.ask(ctx, s.reading))
		if err != nil {
			return 0, err
		}
		if len(seqs) > 0 && (behind == 0 || seqs[0] < behind) {
			behind = seqs[0]
		}
	}
	return behind, nil
}

// whereSelected adds the conditions of a selection that does not name deliveries.
func (f *filter) whereSelected(sel *grapnel.Selection) {
	f.whereStatus(rows.Column(sel.Status, func(status grapnel.Status) string { return string(status) }))
	if len(sel.Keys) > 0 {
		f.text(" AND EXISTS (SELECT FROM event WHERE seq = d.event")
		either(f, "key", sel.Keys).text(")")
	}
	f.whereLast(sel.Class, sel.StatusCode)
	f.whereWithin(acceptedAt, sel.From, sel.To)
}

const (
	// stuckQuery examines all heads of an endpoint. An index of blocked heads would have to be written
	// with every failed attempt.
	stuckQuery = `SELECT seq FROM pending p WHERE target = (SELECT number FROM target WHERE endpoint = $1) AND head AND lane <> 0
		AND (attempts > 0 OR blocked) AND seq > $2 AND ($3 = '' OR (SELECT tenant FROM kind WHERE number = p.kind) = $3) ORDER BY seq LIMIT $4`
	behindQuery = `SELECT p.seq, (SELECT count(*) FROM (SELECT FROM pending b WHERE b.lane = p.lane AND b.lane <> 0 AND b.position > p.position LIMIT $2) x)
		FROM pending p WHERE p.seq = ANY($1)`
)

// StuckLanes returns at most Limit lanes; no limit: none.
func (s *lister) StuckLanes(ctx context.Context, scope store.Scope, q store.LaneQuery) (lanes []grapnel.Lane, err error) {
	tenant, one := scope.One()
	if q.Limit <= 0 || one && !scope.Allows(tenant) {
		return nil, ctx.Err()
	}
	err = s.snapshot(ctx, s.reading, func(ctx context.Context, tx pgx.Tx) error {
		heads, err := rows.FirstColumn[int64](rows.Ask(ctx, tx, stuckQuery, q.Endpoint, q.After, tenant, q.Limit))
		if err != nil || len(heads) == 0 {
			return err
		}
		behind := make(map[int64]int, len(heads))
		var seq int64
		var n int
		if err := rows.Ask(ctx, tx, behindQuery, heads, q.MostWaiting()).Each([]any{&seq, &n}, func() { behind[seq] = n }); err != nil {
			return err
		}
		_, err = s.readDeliveries(ctx, tx, rows.Ask(ctx, tx, deliveriesQuery, heads), func(d grapnel.Delivery, _ []byte) {
			lanes = append(lanes, grapnel.Lane{Endpoint: d.EndpointID, Key: d.Key, Head: d, Waiting: behind[d.Seq]})
		})
		return err
	})
	return lanes, err
}
