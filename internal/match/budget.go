package match

import (
	"context"
	"errors"
)

// ErrTooCostly says that a budget was used up before every filter had run.
var ErrTooCostly = errors.New("the filters that see these events do too much work")

// Budget is the work that filters may do together for one request, whatever number of events and
// endpoints meet. One filter has limits of its own, so a budget is overdrawn by one filter at most.
// It belongs to one goroutine.
type Budget struct {
	ctx  context.Context
	left int64
}

// NewBudget gives a request so many units of cost (see meter.go), until its context ends.
func NewBudget(ctx context.Context, units int64) *Budget { return &Budget{ctx, units} }

// open returns nil if another filter may run, else the reason.
func (b *Budget) open() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.left <= 0 {
		return ErrTooCostly
	}
	return nil
}
