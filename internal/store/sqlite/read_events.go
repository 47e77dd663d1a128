package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	eventByIDQuery = `SELECT ` + eventColumns + `, e.first, e.made, e.intake FROM event e JOIN kind k ON k.number = e.kind
		WHERE e.id = ?1 AND (?2 = '' OR k.tenant = ?2)`
	eventsQuery      = "SELECT seq FROM event WHERE seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	eventsKindQuery  = "SELECT seq FROM event WHERE seq >> 12 = ? AND kind = ?"
	eventsKindsQuery = "SELECT seq, kind FROM event WHERE seq >> 12 = ?"
	eventsKeyQuery   = "SELECT seq FROM event WHERE seq >> 12 = ? AND hash = ? AND hash <> 0"
	oldestEventQuery = "SELECT min(seq) FROM event"
	newestEventQuery = "SELECT max(seq) FROM event"
	kindsQuery       = "SELECT number, tenant, type FROM kind"
	kindsTenantQuery = "SELECT number, tenant, type FROM kind WHERE tenant = ?"
	kindsSourceQuery = "SELECT number, tenant, type FROM kind WHERE source = ? AND source <> ''"
	blockSourceQuery = "SELECT block FROM source_block WHERE source = ? AND block <= ? ORDER BY block DESC LIMIT 1"
	hoursQuery       = "SELECT min(first), max(last) FROM hour WHERE hour BETWEEN ? AND ?"
)

var (
	blockOfKindQuery = blockQuery("event", "kind = ?3")
	blockOfKeyQuery  = blockQuery("event", "hash = ?3 AND hash <> 0")
)

// eventFilter is the condition on events in lists of events and of deliveries.
type eventFilter struct {
	scope store.Scope
	store.EventQuery
}

// oneTenant is the tenant that the filter is limited to, if it is to one.
func (f *eventFilter) oneTenant() (string, bool) {
	if tenant, one := f.scope.One(); one {
		return tenant, true
	}
	return f.Tenant, f.Tenant != ""
}

// anyKind says whether the filter accepts every kind of events.
func (f *eventFilter) anyKind() bool {
	_, one := f.oneTenant()
	return !one && f.Source == "" && (f.Type == "" || f.Type == "*")
}

// events returns the range of row ids of events accepted in the filter's time.
func (f *eventFilter) events(r *sqlite3.Conn) (window, error) {
	all := everything(0)
	if f.From.IsZero() && f.To.IsZero() {
		return all, nil
	}
	from, to := int64(-1<<62), int64(1<<62)
	if !f.From.IsZero() {
		from = codec.HourOf(codec.Micros(f.From))
	}
	if !f.To.IsZero() {
		to = codec.HourOf(codec.Micros(f.To) - 1)
	}
	return rows.First(r.Query(hoursQuery).Int(from).Int(to), nil, func(q *sqlite3.Stmt) (in window, err error) {
		if !q.IsNull(0) {
			in = window{q.Integer(0), q.Integer(1) + 1}
		}
		return in, nil
	})
}

// stream is the numbers of the events in a window that may pass the filter: all that pass are among
// them.
func (f *eventFilter) stream(ctx context.Context, r *sqlite3.Conn, b *Bounds, in window, look *look) (*stream, error) {
	if f.Key == "" && f.anyKind() {
		return columnStream(r, b, eventsQuery, in, func(*sqlite3.Stmt) {}), nil
	}
	there, err := stored(r, oldestEventQuery, newestEventQuery)
	if err != nil {
		return nil, err
	}
	of := blocks{ctx: ctx, look: look, in: in.and(there)}
	if f.Source != "" {
		of.upTo = func(block int64) (int64, error) {
			return newestBlock(r.Query(blockSourceQuery).Text(f.Source).Int(block))
		}
	}
	if f.Key != "" {
		hash := keyHash(f.Key)
		of.read = having(r, []int64{hash}, b.Wanted, eventsKeyQuery, "")
		if of.upTo == nil {
			of.upTo = holding(r, b, blockOfKeyQuery, hash, of.in)
		}
		return of.stream(), nil
	}
	kinds, err := f.kinds(r)
	if err != nil || len(kinds) == 0 {
		return listStream(nil, in), err
	}
	if of.upTo == nil && len(kinds) == 1 {
		of.upTo = holding(r, b, blockOfKindQuery, kinds[0], of.in)
	}
	of.read = having(r, kinds, b.Wanted, eventsKindQuery, eventsKindsQuery)
	return of.stream(), nil
}

// kinds are the numbers of the kinds of events that pass the filter.
func (f *eventFilter) kinds(r *sqlite3.Conn) (kinds []int64, err error) {
	query, name := kindsQuery, ""
	if tenant, one := f.oneTenant(); f.Source != "" {
		query, name = kindsSourceQuery, f.Source
	} else if one {
		query, name = kindsTenantQuery, tenant
	}
	q := r.Query(query)
	if query != kindsQuery {
		q.Text(name)
	}
	for q.More(&err) {
		if f.Type == "" || grapnel.MatchType(f.Type, q.String(2)) {
			kinds = append(kinds, q.Integer(0))
		}
	}
	return kinds, err
}

const hasTypeQuery = `SELECT EXISTS (SELECT 1 FROM kind WHERE tenant = ? AND type = ?),
	(SELECT count(*) FROM (SELECT 1 FROM kind WHERE tenant = ? LIMIT ?))`

// HasType reads the tables without a flush, because publishers of new types wait for it.
func (s *reader) HasType(ctx context.Context, tenant, name string, limit int) (has bool, n int, err error) {
	err = s.readFlushed(ctx, func(r *sqlite3.Conn) error {
		q := r.Query(hasTypeQuery).Text(tenant).Text(name).Text(tenant).Int(int64(max(limit, 0)))
		return rows.Single(q, func() { has, n = q.Integer(0) == 1, int(q.Integer(1)) })
	})
	return has, n, err
}

// EventList returns at most Limit events; Limit 0 returns none.
func (s *reader) EventList(ctx context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error) {
	f := eventFilter{scope, q}
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (list []grapnel.Event, err error) {
		within, err := f.events(r)
		if err != nil || q.Limit <= 0 {
			return nil, err
		}
		events, err := f.stream(ctx, r, &s.bounds, within.and(everything(q.Before)), nil)
		if err != nil {
			return nil, err
		}
		err = merge(ctx, []*stream{events}, func(seq int64) (bool, error) {
			e, err := rows.First(r.Query(eventQuery).Int(seq), nil, func(row *sqlite3.Stmt) (*grapnel.Event, error) {
				ofSource := q.Source == "" || q.Source == row.String(12) // an index of keys has no source
				if !ofSource || !f.Takes(scope, row.String(2), row.String(3), row.String(4), codec.Moment(row.Integer(5))) {
					return nil, nil
				}
				return s.readEvent(row)
			})
			if e != nil {
				list = append(list, *e)
			}
			return err == nil && len(list) < q.Limit, err
		})
		return list, err
	})
}

// Event treats an empty tenant as any tenant that the scope allows.
func (s *reader) Event(ctx context.Context, scope store.Scope, tenant, id string) (e *grapnel.Event, ds []grapnel.Delivery, err error) {
	tenant, some := scope.Narrow(tenant)
	if !some {
		return nil, nil, store.ErrNotFound("event")
	}
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		q := r.Query(eventByIDQuery)
		found, err := q.Text(id).Text(tenant).Row()
		if err != nil {
			return err
		}
		defer q.Reset()
		if !found {
			return store.ErrNotFound("event")
		}
		if e, err = s.readEvent(q); err != nil {
			return err
		}
		if e.Damaged {
			return codec.Damaged(id)
		}
		if !q.IsNull(15) {
			if e.Intake, err = s.packer.DecodeIntake(ctx, q.Bytes(15), e.Tenant, id); err != nil {
				return fmt.Errorf("sqlite: intake of event %s: %w", id, err)
			}
		}
		numbers, err := rows.Integers(r.Query(newestRedeliveriesQuery).Int(e.Seq).Int(store.MostRedeliveries))
		for n := q.Integer(13) + q.Integer(14) - 1; n >= q.Integer(13); n-- {
			numbers = append(numbers, n)
		}
		for _, seq := range slices.Backward(numbers) {
			d, err := fetch(r, s.packer, seq)
			if err != nil {
				return err
			}
			if d != nil {
				ds = append(ds, d.Delivery)
			}
		}
		if err != nil {
			return err
		}
		if more, err := q.Next(); err != nil || !more {
			return err
		}
		return store.ErrSeveral
	})
	if err != nil {
		return nil, nil, err
	}
	return e, ds, nil
}
