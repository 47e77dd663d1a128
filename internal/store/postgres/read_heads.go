package postgres

import (
	"bytes"
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

var headsQuery = "SELECT " + placeColumns + ` FROM (SELECT * FROM pending WHERE target = (SELECT number FROM target WHERE endpoint = $1)
		AND due IS NOT NULL ORDER BY due, seq LIMIT $2) p` + placeJoins + " ORDER BY p.due, p.seq"

const (
	standingsQuery = "SELECT endpoint, number, body FROM standing ORDER BY endpoint"
	waitingQuery   = `SELECT least(coalesce(sum(pending), 0), $2)::bigint FROM tally WHERE target = (SELECT number FROM target WHERE endpoint = $1)`
)

// readHeads reads places one by one, without their lanes.
func (s *database) readHeads(ctx context.Context, from *pool, take func(*place), query string, args ...any) error {
	return readError(ctx, readPlaces(rows.Ask(ctx, from, query, args...), take))
}

// Heads leaves out blocked heads: they have no due time.
func (s *reader) Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error) {
	heads := []store.Head{}
	err := s.readHeads(ctx, s.pool, func(p *place) { heads = append(heads, p.Shown()) }, headsQuery, endpoint, max(limit, 0))
	return heads, err
}

// Head returns neither due time nor anchor for a delivery behind the head of its lane.
func (s *reader) Head(ctx context.Context, delivery int64) (head *store.Head, first bool, err error) {
	err = s.readHeads(ctx, s.pool, func(p *place) { head, first = p.shown(), p.Head }, placesQuery, []int64{delivery})
	return head, first, err
}

// Standings are sorted by endpoint.
func (s *reader) Standings(ctx context.Context) (all []store.Standing, err error) {
	var one store.Standing
	var body []byte
	err = rows.Ask(ctx, s.pool, standingsQuery).Try([]any{&one.Endpoint, &one.Number, &body}, func() (err error) {
		one.Standing, err = codec.DecodeStanding(0, body)
		all = append(all, one)
		return err
	})
	return all, readError(ctx, err)
}

// Waiting reads the maintained counters.
func (s *reader) Waiting(ctx context.Context, endpoint string, limit int) (n int, err error) {
	err = s.pool.QueryRow(ctx, waitingQuery, endpoint, max(limit, 0)).Scan(&n)
	return n, readError(ctx, err)
}

const hasTypeQuery = `SELECT EXISTS (SELECT FROM kind WHERE tenant = $1 AND type = $2),
	(SELECT count(*) FROM (SELECT FROM kind WHERE tenant = $1 LIMIT $3) k)`

// HasType looks the type up and counts those of the tenant.
func (s *reader) HasType(ctx context.Context, tenant, name string, limit int) (has bool, n int, err error) {
	err = s.pool.QueryRow(ctx, hasTypeQuery, tenant, name, max(limit, 0)).Scan(&has, &n)
	return has, n, readError(ctx, err)
}

const (
	eventColumns = "e.seq, e.id, k.tenant, k.type, k.source, e.key, e.accepted, e.occurred, e.content_type, e.metadata, e.packed, e.sum, e.data"
	eventsQuery  = "SELECT " + eventColumns + " FROM event e JOIN kind k ON k.number = e.kind WHERE e.seq = ANY($1)"
)

// eventRow is an event as the database returns it.
type eventRow struct {
	grapnel.Event
	accepted, occurred, packed, sum int64
	metadata, data                  []byte
	given                           bool // another event already uses the data
}

func (r *eventRow) into() []any {
	return []any{&r.Seq, &r.ID, &r.Tenant, &r.Type, &r.Source, &r.Key, &r.accepted, &r.occurred, &r.ContentType, &r.metadata, &r.packed,
		&r.sum,
		&r.data}
}

// thaw returns the event. One whose bytes are corrupt is Damaged, without data.
func (s *database) thaw(ctx context.Context, r *eventRow) *grapnel.Event {
	e := r.Event
	e.AcceptedAt, e.OccurredAt = codec.Moment(r.accepted), codec.Moment(r.occurred)
	var erased bool
	if e.ErasedAt, erased = codec.ErasedAt(r.data, r.packed); erased {
		return &e
	}
	f := codec.Frozen{Data: r.data, Packed: r.packed, Metadata: r.metadata, Sum: r.sum}
	if err := s.packer.Thaw(ctx, &e, &f); err != nil {
		s.stats.damaged.Add(1)
		s.log.Error("event is corrupt", "event", e.ID, "number", e.Seq, "err", err)
		e.Damaged = true
	}
	return &e
}

// Events returns copies of the events with these row ids.
func (s *reader) Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error) {
	events := make([]*grapnel.Event, len(seqs))
	if len(seqs) == 0 {
		return events, ctx.Err()
	}
	found := make(map[int64]*eventRow, len(seqs))
	var row eventRow
	err := rows.Ask(ctx, s.pool, eventsQuery, seqs).Each(row.into(), func() {
		r := row
		found[r.Seq] = &r
	})
	for i, seq := range seqs {
		if r := found[seq]; r != nil {
			if r.given {
				r.data = bytes.Clone(r.data)
			}
			if e := s.thaw(ctx, r); !e.Damaged && !e.Erased {
				events[i] = e
			}
			r.given = true
		}
	}
	return result(&events, readError(ctx, err))
}
