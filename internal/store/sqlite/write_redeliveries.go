package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Advance commits the cursor together with the deliveries before it, so a repeated step finds the
// cursor elsewhere.
func (s *changer) Advance(ctx context.Context, step store.ReplayStep) (done []store.Redelivered, err error) {
	err = s.write(ctx, &change{do: func(t *tx) (err error) {
		done, err = advance(t, &step)
		return err
	}})
	return done, err
}

func advance(t *tx, step *store.ReplayStep) ([]store.Redelivered, error) {
	r, err := findReplay(t.q.replay, step.Replay)
	if err == nil && r == nil {
		err = store.ErrNotFound("replay")
	}
	if err == nil {
		err = decide.Step(r.Shown(), step)
	}
	if err == nil {
		err = checkOpen(t, r.Endpoint)
	}
	if err != nil {
		return nil, err
	}
	target, err := t.numberOf(r.Endpoint)
	if err != nil {
		return nil, err
	}
	done, started := make([]store.Redelivered, len(step.Items)), int64(0)
	for i := range step.Items {
		item := &step.Items[i]
		of, err := originOf(t, item.Of)
		if err != nil {
			return nil, err
		}
		if of == nil || of.status == "" || of.target != target || of.erased {
			continue
		}
		if overtaken, err := overtaken(t, item); overtaken || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if done[i], err = redeliver(t, of, grapnel.TriggerReplay, item.Ordered, item.Delay, step.At, r.ID); err != nil {
			return nil, err
		}
		err = t.q.addItem.Int(done[i].Delivery).Int(r.Number).Int(of.Seq).Int(of.Created).
			Int(codec.Micros(done[i].CreatedAt)).Int(rows.StatusPending).Run()
		if err != nil {
			return nil, err
		}
		started++
	}
	return done, t.q.advance.Int(step.To).Int(started).Int(r.Number).Run()
}

// overtaken says whether an original was redelivered or discarded since its replay chose it.
func overtaken(t *tx, item *store.Redelivery) (bool, error) {
	return rows.First(t.q.markOf.Int(item.Of), nil, func(q *sqlite3.Stmt) (bool, error) {
		return item.Overtaken(q.Integer(0), q.Integer(1) != 0), nil
	})
}

// checkOpen refuses an endpoint that takes no new deliveries.
func checkOpen(t *tx, endpoint string) error {
	at, err := findObject(t, endpoints, endpoint)
	if err == nil {
		err = at.Open()
	}
	return err
}

// redeliver creates a delivery that repeats another one, by hand or by a replay, and records that
// on the original.
func redeliver(t *tx, of *origin, trigger grapnel.Trigger, ordered bool, delay time.Duration, at time.Time,
	by string) (done store.Redelivered, err error) {
	d := &t.fresh
	*d = place{Pending: decide.Pending{Event: of.Event, Created: codec.Micros(at), ReplayOf: of.Seq, Trigger: trigger},
		target: of.target, kind: of.kind}
	if d.tenant, err = t.tenant(of.owner); err != nil {
		return done, err
	}
	if d.Endpoint, err = t.endpoint(d.target); err != nil {
		return done, err
	}
	if d.Seq, err = t.deliveries.next(); err != nil {
		return done, err
	}
	t.deliveries.gave(1)
	if err := t.q.addRedelivery.Int(d.Seq).Int(d.Event).Run(); err != nil {
		return done, err
	}
	if err := wait(t, d, ordered, of.key, delay, time.Time{}); err != nil {
		return done, err
	}
	done.Delivery, done.CreatedAt = d.Seq, codec.Moment(d.Created)
	if d.Head {
		done.Head = d.head()
	}
	return done, t.q.markReplayed.Int(of.Seq).Int(d.Created).Text(by).Int(d.Seq).Int(rows.StatusPending).Run()
}

// origin is a delivery to redeliver, with the tenant and the key of its event.
type origin struct {
	*ended
	owner, key string
	erased     bool // its event was
}

// originOf returns a delivery, pending or finished, or nil.
func originOf(t *tx, delivery int64) (*origin, error) {
	f, err := t.find(delivery)
	if f == nil {
		return nil, err
	}
	return rows.First(t.q.eventOf.Int(f.Event), nil, func(q *sqlite3.Stmt) (*origin, error) {
		f.kind = q.Integer(2)
		return &origin{f, q.String(0), q.String(1), codec.IsErased(q.Integer(3))}, nil
	})
}

// Again refuses an endpoint that is absent or marked as deleted (decide.Object.Open).
func (s *changer) Again(ctx context.Context, scope store.Scope, r store.Redelivery) (done store.Redelivered, err error) {
	err = s.write(ctx, &change{do: func(t *tx) (err error) {
		done, err = repeat(t, scope, &r)
		return err
	}})
	return done, err
}

func repeat(t *tx, scope store.Scope, r *store.Redelivery) (done store.Redelivered, err error) {
	then, err := recall(t, r.Once)
	if then != nil || err != nil {
		return store.Redelivered{Answer: then}, err
	}
	of, err := originOf(t, r.Of)
	if err != nil {
		return done, err
	}
	if of == nil || !scope.Allows(of.owner) {
		return done, store.ErrNotFound("delivery")
	}
	endpoint, err := t.endpoint(of.target)
	if err != nil {
		return done, err
	}
	if err := checkOpen(t, endpoint); err != nil {
		return done, err
	}
	if of.erased {
		return done, store.ErrErased
	}
	if done, err = redeliver(t, of, r.Trigger, r.Ordered, r.Delay, r.At, ""); err != nil {
		return done, err
	}
	if err := writeAudit(t, r.Audit); err != nil {
		return done, err
	}
	_, err = remember(t, r.Once, done)
	return done, err
}

// Annotate writes only the mark.
func (s *changer) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	return s.write(ctx, &change{do: func(t *tx) error { return annotate(t, scope, &a) }})
}

func annotate(t *tx, scope store.Scope, a *store.Annotation) error {
	of, err := originOf(t, a.Delivery)
	if err != nil {
		return err
	}
	if of == nil || !scope.Allows(of.owner) {
		return store.ErrNotFound("delivery")
	}
	if err := decide.Annotate(of.status, a); err != nil {
		return err
	}
	if a.Note != nil {
		if err := t.q.setNote.Int(a.Delivery).Text(*a.Note).Run(); err != nil {
			return err
		}
	}
	if a.Discard != "" {
		if err := t.q.setDiscard.Int(a.Delivery).Int(codec.Micros(a.At)).Text(a.Discard).Run(); err != nil {
			return err
		}
	}
	return writeAudit(t, a.Audit)
}

// readReplay reads the columns of a row.
func readReplay(q *sqlite3.Stmt) (*decide.StoredReplay, error) {
	r, err := codec.DecodeReplay(q.Integer(1), q.Bytes(2))
	if err != nil {
		return nil, err
	}
	r.UpTo, r.Cursor, r.Started = q.Integer(3), q.Integer(4), int(q.Integer(5))
	r.Done, r.Delivered, r.Failed, r.Row = int(q.Integer(6)), int(q.Integer(7)), int(q.Integer(8)), int(q.Integer(9))
	return &decide.StoredReplay{Number: q.Integer(0), Replay: r}, nil
}

// findReplay returns the replay that a statement with the replayQuery finds, or nil.
func findReplay(q *sqlite3.Stmt, id string) (*decide.StoredReplay, error) {
	return rows.First(q.Text(id), nil, readReplay)
}

// PutReplay gives a new replay revision 1. An existing one can be changed while the disk is full:
// an operator may want to stop the writes that flush it.
func (s *changer) PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error) {
	return s.putting(ctx, &putting{with: with, keep: true, full: r.Revision > 0,
		do: func(t *tx) (int64, error) { return putReplay(t, scope, r) }})
}

// putReplay decides before it writes.
func putReplay(t *tx, scope store.Scope, r grapnel.Replay) (revision int64, err error) {
	there, err := findReplay(t.q.replay, r.ID)
	if err == nil {
		r, err = decide.Replay(scope, there.Shown(), r)
	}
	if err != nil {
		return 0, err
	}
	body, err := codec.EncodeReplay(r)
	if err != nil {
		return 0, err
	}
	revision = r.Revision + 1
	if there != nil {
		return revision, t.q.setReplay.Text(string(r.Status)).Bool(!r.Status.Final()).Int(revision).Blob(body).Int(there.Number).Run()
	}
	insert := t.q.addReplay.Text(r.ID).Text(r.Tenant).Text(r.Endpoint).Text(string(r.Status)).Bool(!r.Status.Final()).Int(revision).Blob(body)
	number, err := rows.LookUp(insert)
	if err != nil {
		return 0, err
	}
	return revision, t.q.addProgress.Int(number).Int(t.deliveries.last).Run()
}
