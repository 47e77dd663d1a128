package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Again refuses an endpoint that is absent or marked as deleted (decide.Object.Open).
func (s *Store) Again(ctx context.Context, scope store.Scope, r store.Redelivery) (done store.Redelivered, err error) {
	err = s.write(ctx, &change{do: func(t *tx) (err error) {
		done, err = t.repeat(scope, &r)
		return err
	}})
	return done, err
}

func (t *tx) repeat(scope store.Scope, r *store.Redelivery) (done store.Redelivered, err error) {
	then, err := t.recall(r.Once)
	if then != nil || err != nil {
		return store.Redelivered{Answer: then}, err
	}
	of, err := t.origin(r.Of)
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
	if err := t.open(endpoint); err != nil {
		return done, err
	}
	if done, err = t.again(of, r.Trigger, r.Ordered, r.Delay, r.At, ""); err != nil {
		return done, err
	}
	if err := t.note(r.Audit); err != nil {
		return done, err
	}
	_, err = t.remember(r.Once, done)
	return done, err
}
