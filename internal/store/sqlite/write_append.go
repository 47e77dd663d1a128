package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Append checks the idempotency key first, so that a repeated call gets its answer even if the
// configuration has changed since; then the version of the configuration. Every id is looked up
// that may exist, even one that the server drew: a batch whose commit was unknown is repeated with
// the ids it had. No other write can add the id in between, because one writer makes all writes.
func (s *changer) Append(ctx context.Context, b store.Batch) (store.Accepted, error) {
	o := new(struct { // one object for what most calls need
		appending
		frozen batch
		event  [1]incoming
	})
	o.frozen.events = o.event[:0]
	o.batch, o.once = &o.frozen, b.Once
	if err := s.freeze(ctx, &b, o.batch); err != nil {
		return store.Accepted{}, err
	}
	err := s.write(ctx, &o.appending)
	return o.done, err
}

// appending is the operation of Append.
type appending struct {
	batch *batch
	once  *store.Once
	made  store.Answer // for once
	done  store.Accepted
}

func (o *appending) grows() bool { return true }

func (o *appending) apply(t *tx) error {
	o.done = store.Accepted{}
	then, err := recall(t, o.once)
	if then != nil || err != nil {
		o.done.Answer = then
		return err
	}
	if o.batch.stale(t) {
		return store.ErrStale
	}
	if err := o.batch.accept(t, &o.done); err != nil {
		return err
	}
	o.made, err = remember(t, o.once, o.done)
	return err
}

// batch encodes the events of a batch, on the goroutine of the caller.
func (s *database) batch(ctx context.Context, b *store.Batch) (*batch, error) {
	if b == nil {
		return nil, nil
	}
	frozen := new(batch)
	return frozen, s.freeze(ctx, b, frozen)
}

func (s *database) freeze(ctx context.Context, b *store.Batch, frozen *batch) error {
	frozen.config, frozen.events = b.Config, slices.Grow(frozen.events, len(b.Events))
	for _, in := range b.Events {
		f, err := s.packer.Freeze(ctx, in.Event)
		if err != nil {
			return err
		}
		e := incoming{Event: *in.Event, frozen: f, known: freezeKnown(in.Known), targets: in.Targets, notBefore: in.NotBefore}
		e.Data, e.Metadata, e.Intake = nil, nil, nil
		frozen.events = append(frozen.events, e)
	}
	return nil
}

// stale says whether the batch was matched against another version of the configuration than the
// current one. b may be nil.
func (b *batch) stale(t *tx) bool { return b != nil && b.config != t.version }

// accept commits the events of a batch.
func (b *batch) accept(t *tx, done *store.Accepted) (err error) {
	done.Events = make([]store.Placed, len(b.events))
	for i := range b.events {
		if done.Events[i], err = enter(t, &b.events[i], done); err != nil {
			return err
		}
	}
	return nil
}

// told commits the events of a batch that another operation causes; nil: it causes none.
func (b *batch) told(t *tx) (*store.Accepted, error) {
	if b == nil {
		return nil, nil
	}
	done := new(store.Accepted)
	return done, b.accept(t, done)
}

// enter commits one event, and appends its new heads to done.
func enter(t *tx, e *incoming, done *store.Accepted) (store.Placed, error) {
	again, before, err := recognize(t, e)
	if err == nil && again == nil {
		again, err = meet(t, e)
	}
	if err != nil {
		return store.Placed{}, err
	}
	if again != nil {
		if again.Duplicate {
			err = publishedAgain(t, e)
		}
		return *again, err
	}
	tenant, err := t.tenant(e.Tenant)
	if err != nil {
		return store.Placed{}, err
	}
	kind, err := t.kind(kind{e.Tenant, e.Type, e.Source})
	if err != nil {
		return store.Placed{}, err
	}
	seq, err := t.events.next()
	if err != nil {
		return store.Placed{}, err
	}
	first, err := t.deliveries.next()
	if err != nil {
		return store.Placed{}, err
	}
	if err := t.data.rises(&e.frozen); err != nil {
		return store.Placed{}, err
	}
	at := codec.Micros(e.AcceptedAt)
	t.deferred.add(e, seq, kind, first)
	t.knownIDs.add(e.Tenant, e.ID, at)
	t.events.gave(1)
	t.deliveries.gave(len(e.targets))
	if err := errors.Join(noteAccepted(t, at, seq), t.cameIn(e.Source, seq)); err != nil {
		return store.Placed{}, err
	}
	for i, target := range e.targets {
		d := &t.fresh
		*d = place{Pending: decide.Pending{Seq: first + int64(i), Event: seq, Endpoint: target.Endpoint, Created: at, Trigger: target.Trigger},
			tenant: tenant, kind: kind}
		if d.target, err = t.target(target.Endpoint); err != nil {
			return store.Placed{}, err
		}
		if target.Drop != "" {
			// A dropped delivery has no position, so that the positions of its lane have no gaps.
			if err = sumMade(t, d); err == nil {
				err = archive(t, d, store.Ending{Status: grapnel.Dropped, Reason: target.Drop, At: e.AcceptedAt, Uncounted: target.Uncounted}, nil)
			}
		} else {
			err = wait(t, d, target.Ordered, e.Key, target.Delay, e.notBefore)
		}
		if err != nil {
			return store.Placed{}, err
		}
		if d.Head {
			done.Heads = append(done.Heads, d.Shown())
		}
	}
	placed := store.Placed{Seq: seq, ID: e.ID, AcceptedAt: codec.Moment(at), Deliveries: len(e.targets)}
	return placed, learn(t, e.known, placed, before)
}

// meet is the answer to an event whose tenant has used its id; nil: the id is new.
func meet(t *tx, e *incoming) (*store.Placed, error) {
	if !t.knownIDs.mayHave(e.Tenant, e.ID) {
		return nil, nil
	}
	if t.deferred.event(e.ID) {
		if err := t.writeDeferred(); err != nil {
			return nil, err
		}
	}
	return rows.First(t.q.eventByID.Text(e.ID).Text(e.Tenant), nil, func(q *sqlite3.Stmt) (*store.Placed, error) {
		erased := codec.IsErased(q.Integer(5))
		if q.String(3) == e.Type && (erased || q.String(4) == e.Key) {
			same := erased
			if !erased {
				same, _ = t.data.same(t.packer, e, q.Bytes(6), q.Integer(5)) // corrupt data are other data, as are those without their key
			}
			if same {
				return &store.Placed{Seq: q.Integer(0), ID: e.ID, AcceptedAt: codec.Moment(q.Integer(1)), Deliveries: int(q.Integer(2)),
					Duplicate: true}, nil
			}
		}
		return &store.Placed{Conflict: true}, nil
	})
}

// wait adds a new delivery to the end of its lane, or alone if it is unordered or has no key. The
// delay applies to a head only.
func wait(t *tx, d *place, ordered bool, key string, delay time.Duration, notBefore time.Time) error {
	first := true
	if ordered && key != "" {
		var err error
		if first, err = joinLane(t, d, key); err != nil {
			return err
		}
	}
	d.Enter(first, delay, notBefore)
	if err := errors.Join(sumMade(t, d), sumQueued(t, d, 1)); err != nil {
		return err
	}
	t.pending.add(d)
	return nil
}

// joinLane takes the next position in a lane, and says whether no pending delivery is before it.
func joinLane(t *tx, d *place, key string) (first bool, err error) {
	l, err := t.lane(laneOf{d.target, key})
	if err != nil {
		return false, err
	}
	head, err := t.laneHead(d.target, key)
	l.last++
	d.Key, d.Position = key, l.last
	return head == nil, err
}

// noteAccepted notes that the event with this row id was accepted at this time. The last row id of
// an hour is stored rounded up, so that it changes now and then and not with every transaction.
func noteAccepted(t *tx, at, seq int64) error {
	hour := codec.HourOf(at)
	if seq <= t.hours[hour] {
		return nil
	}
	last := seq | (1<<rows.BlockBits - 1)
	keep(t.hours, t.bounds.Names, hour, last)
	return t.q.addHour.Int(hour).Int(seq).Int(last).Run()
}
