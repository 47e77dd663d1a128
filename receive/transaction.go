package receive

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Transaction is the mode for effects in the store's own database: the key and the effects of
// handle commit together, so a crash leaves both or neither. T is the store's transaction type.
//
// An error of the handler rolls back; then the delivery is counted in a transaction of its own. A
// crash rolls back and is not counted. The handler may neither commit nor roll back.
//
// Transaction panics if the kit's store has no transactions of type T.
func Transaction[T any](k *Kit, handle func(ctx context.Context, tx T, d *Delivery) error) *Endpoint {
	store, ok := k.opt.Store.(Transactor[T])
	if !ok {
		panic(fmt.Sprintf("receive: %T has no transactions of type %v; the handler's second parameter is of the store's type",
			k.opt.Store, reflect.TypeFor[T]()))
	}
	return &Endpoint{kit: k, run: func(ctx context.Context, d *Delivery, b Bid) result {
		var ran bool
		var failed error
		c, res, won := k.obtain(ctx, d, b, func(b Bid) (Claim, error) {
			ctx, cancel := context.WithTimeout(ctx, k.opt.Wait+k.opt.Timeout+margin)
			defer cancel()
			return store.Transact(ctx, b, k.opt.Wait, func(tx T, c Claim) (Outcome, error) {
				ran = true
				limited, cancel := context.WithTimeout(ctx, k.opt.Timeout)
				defer cancel()
				failed = k.call(d, c, func() error { return handle(limited, tx, d) })
				if o := k.classify(failed); o == Processed || o == Parked {
					return o, nil
				}
				return "", failed
			})
		})
		switch {
		case won:
			return result{outcome: c.Outcome, err: failed}
		case ran && failed == nil:
			failed = res.err // of the commit
		case !ran:
			return res
		}
		return k.count(ctx, d, b, failed)
	}}
}

// count makes the end of a handler durable whose transaction was rolled back.
func (k *Kit) count(ctx context.Context, d *Delivery, b Bid, failed error) result {
	limited, cancel := context.WithTimeout(ctx, k.opt.Wait+margin)
	defer cancel()
	b = k.again(b)
	b.LeaseUntil = b.Now.Add(margin)
	c, err := k.opt.Store.Claim(limited, b)
	switch {
	case err != nil:
		return result{outcome: Failed, err: errors.Join(err, failed)}
	case c.Owner != b.Owner: // another copy has it, and its answer is for the next delivery
		return result{outcome: InProgress, err: failed}
	}
	return k.finish(ctx, d, c, failed)
}
