package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Again refuses an endpoint that is absent or marked as deleted: unlike Append it carries no version of the configuration, and a
// delivery that slipped in behind the endpoint's end would wait for ever.
func (s *Store) Again(ctx context.Context, scope store.Scope, r store.Redelivery) (store.Redelivered, error) {
	o := &repeating{scope: scope, redelivery: r}
	err := s.write(ctx, o)
	return o.done, err
}

// repeating is the operation of Again.
type repeating struct {
	scope      store.Scope
	redelivery store.Redelivery
	done       store.Redelivered
}

func (o *repeating) grows() bool { return true }

func (o *repeating) apply(t *tx) error {
	o.done = store.Redelivered{}
	r := &o.redelivery
	then, err := t.recall(r.Once)
	if then != nil || err != nil {
		o.done.Answer = then
		return err
	}
	d, tenant, key, err := t.origin(r.Of)
	if err != nil {
		return err
	}
	if d == nil || !o.scope.Allows(tenant) {
		return store.ErrNotFound("delivery")
	}
	endpoint, err := t.endpoint(d.target)
	if err != nil {
		return err
	}
	if at, err := t.endpointRow(endpoint); err != nil || !at.there || at.deleted {
		if err == nil {
			err = store.ErrNotFound("endpoint")
		}
		return err
	}
	if d.tenant, err = t.tenant(tenant); err != nil {
		return err
	}
	t.lastDelivery++
	d.seq, d.created, d.replayOf, d.trigger = t.lastDelivery, micros(r.At), r.Of, r.Trigger
	if err := t.q.addRedelivery.Int(d.seq).Int(d.event).Run(); err != nil {
		return err
	}
	if err := t.wait(d, r.Ordered, key, r.Delay); err != nil {
		return err
	}
	o.done.Delivery, o.done.CreatedAt = d.seq, moment(d.created)
	if d.head {
		o.done.Head = d.shown(endpoint)
	}
	if r.Audit != nil {
		if err := t.note(r.Audit); err != nil {
			return err
		}
	}
	return t.remember(r.Once, o.done)
}

// origin returns the event and the target of a delivery, pending or finished, with the event's tenant and key; or nil.
func (t *tx) origin(delivery int64) (d *place, tenant, key string, err error) {
	d = new(place)
	there, err := t.place(delivery)
	if err != nil {
		return nil, "", "", err
	}
	if there != nil {
		d.target, d.event = there.target, there.event
	} else {
		q := t.q.finished.Int(delivery)
		found, err := q.Row()
		if !found {
			return nil, "", "", err
		}
		d.target, d.event = q.Integer(0), q.Integer(1)
		q.Reset()
	}
	q := t.q.eventOf.Int(d.event)
	found, err := q.Row()
	if !found {
		return nil, "", "", err
	}
	defer q.Reset()
	return d, q.String(0), q.String(1), nil
}
