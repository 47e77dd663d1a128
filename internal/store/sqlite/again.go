package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Again refuses an endpoint that is absent or marked as deleted: unlike Append it carries no
// version of the configuration, and a delivery created after the endpoint's End would be pending
// for ever.
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
	of, err := t.origin(r.Of)
	if err != nil {
		return err
	}
	if of == nil || !o.scope.Allows(of.tenant) {
		return store.ErrNotFound("delivery")
	}
	endpoint, err := t.endpoint(of.target)
	if err != nil {
		return err
	}
	if err := t.open(endpoint); err != nil {
		return err
	}
	if o.done, err = t.again(of, r.Trigger, r.Ordered, r.Delay, r.At, ""); err != nil {
		return err
	}
	if r.Audit != nil {
		if err := t.note(r.Audit); err != nil {
			return err
		}
	}
	_, err = t.remember(r.Once, o.done)
	return err
}
