package postgres

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// origin are the constant properties of a delivery that is to be repeated.
type origin struct {
	seq, event       int64
	target, kind     int32
	endpoint, tenant string
	eventType, key   string
	erased           bool // its event was
}

const originsQuery = `SELECT d.seq, d.event, d.target, d.kind, t.endpoint, k.tenant, k.type FROM (
		SELECT seq, event, target, kind FROM pending WHERE seq = ANY($1)
		UNION ALL SELECT seq, event, target, kind FROM finished WHERE seq = ANY($1)
	) d JOIN target t ON t.number = d.target JOIN kind k ON k.number = d.kind`

// origins finds deliveries, pending or finished. A delivery that finishes meanwhile is found in one
// of the tables, because one statement reads both.
func (s *changer) origins(ctx context.Context, seqs []int64) (map[int64]origin, error) {
	found, events := make(map[int64]origin, len(seqs)), make(map[int64]*shownEvent, len(seqs))
	var o origin
	into := []any{&o.seq, &o.event, &o.target, &o.kind, &o.endpoint, &o.tenant, &o.eventType}
	err := rows.Ask(ctx, s.pool, originsQuery, seqs).Each(into, func() { found[o.seq], events[o.event] = o, nil })
	if err == nil {
		err = readShown(ctx, s.pool, events)
	}
	for seq, o := range found {
		if e := events[o.event]; e != nil {
			o.key, o.erased = e.key, codec.IsErased(e.packed)
			found[seq] = o
		} else {
			delete(found, seq)
		}
	}
	return found, readError(ctx, err)
}

// needAgain adds what a repetition of the delivery needs.
func (o *origin) needAgain(n *needs, ordered bool) {
	n.refers = true
	n.deliveries = append(n.deliveries, o.seq)
	n.newNumbers++
	if ordered && o.key != "" {
		n.position(o.endpoint, o.key)
	}
}

// stillThere says whether the delivery still exists.
func stillThere(t *tx, o origin) bool {
	return o.seq != 0 && (t.places[o.seq] != nil || t.over[o.seq] != nil)
}

// repeatOf creates a delivery that repeats another one, by hand or by a replay, and records that on
// the original.
func repeatOf(t *tx, o origin, trigger grapnel.Trigger, ordered bool, delay time.Duration, at time.Time,
	by string) (store.Redelivered, error) {
	p := &place{target: o.target, kind: o.kind, tenant: o.tenant, eventType: o.eventType, Pending: decide.Pending{Seq: t.draw(),
		Event: o.event, Endpoint: o.endpoint, Created: codec.Micros(at), ReplayOf: o.seq, Trigger: trigger}}
	if ordered && o.key != "" {
		var err error
		if p.lane, err = t.laneBy(o.target, o.key); err != nil {
			return store.Redelivered{}, err
		}
	}
	t.tally(p).made++
	t.wait(p, delay, time.Time{})
	t.redeliveries = append(t.redeliveries, redelivery{p.Seq, o.event})
	t.replayed = append(t.replayed, replayed{of: o.seq, as: p.Seq, at: p.Created, by: by})
	done := store.Redelivered{Delivery: p.Seq, CreatedAt: codec.Moment(p.Created)}
	if p.Head {
		done.Head = p.shown()
	}
	return done, nil
}

// Again refuses an endpoint that is absent or marked as deleted (decide.Object.Open).
func (s *changer) Again(ctx context.Context, scope store.Scope, r store.Redelivery) (store.Redelivered, error) {
	found, err := s.origins(ctx, []int64{r.Of})
	if err != nil {
		return store.Redelivered{}, err
	}
	of := found[r.Of]
	var done store.Redelivered
	err = s.write(ctx, &change{
		needs: func(n *needs) {
			n.once(r.Once)
			if of.seq != 0 {
				of.needAgain(n, r.Ordered)
				n.endpoints[of.endpoint] = true
			}
		},
		do: func(t *tx) (err error) { done, err = redeliver(t, scope, of, &r); return err },
	})
	return result(&done, err)
}

// redeliver is Again; of is zero if the delivery does not exist.
func redeliver(t *tx, scope store.Scope, of origin, r *store.Redelivery) (done store.Redelivered, err error) {
	then, err := recall(t, r.Once)
	switch {
	case then != nil || err != nil:
		return store.Redelivered{Answer: then}, err
	case !stillThere(t, of) || !scope.Allows(of.tenant):
		return done, store.ErrNotFound("delivery")
	}
	if err := t.open(of.endpoint); err != nil {
		return done, err
	}
	if of.erased {
		return done, store.ErrErased
	}
	if done, err = repeatOf(t, of, r.Trigger, r.Ordered, r.Delay, r.At, ""); err == nil {
		t.note(r.Audit)
		remember(t, r.Once, done)
	}
	return done, err
}

const (
	markNote    = "INSERT INTO mark (delivery, note) VALUES ($1, $2) ON CONFLICT (delivery) DO UPDATE SET note = excluded.note"
	markDiscard = `INSERT INTO mark (delivery, discarded, discard_reason) VALUES ($1, $2, $3)
		ON CONFLICT (delivery) DO UPDATE SET discarded = excluded.discarded, discard_reason = excluded.discard_reason`
)

// Annotate changes the mark and nothing else.
func (s *changer) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	found, err := s.origins(ctx, []int64{a.Delivery})
	if err != nil {
		return err
	}
	of, there := found[a.Delivery]
	if !there || !scope.Allows(of.tenant) {
		return store.ErrNotFound("delivery")
	}
	return s.write(ctx, &change{
		needs: func(n *needs) { n.refers, n.deliveries = true, append(n.deliveries, a.Delivery) },
		do: func(t *tx) error {
			is := t.over[a.Delivery]
			if !stillThere(t, of) {
				return store.ErrNotFound("delivery")
			}
			if is == nil {
				is = new(over) // it is pending
			}
			if err := decide.Annotate(is.Status, &a); err != nil {
				return err
			}
			if a.Note != nil {
				t.then(markNote, a.Delivery, *a.Note)
			}
			if a.Discard != "" {
				t.then(markDiscard, a.Delivery, codec.Micros(a.At), a.Discard)
			}
			t.note(a.Audit)
			return nil
		},
	})
}
