package match

import (
	"context"
	"errors"
)

// ErrTooCostly says that a budget was used up before every filter had run.
var ErrTooCostly = errors.New("the filters that see these events cost too much")

// Budget is the work that filters may do together for one request, whatever number of events and
// endpoints meet. One filter has limits of its own, so a budget is overdrawn by one filter at most.
// It belongs to one goroutine.
type Budget struct {
	ctx  context.Context
	left int64
	step func(ctx context.Context, did int64) error // nil: filters run at once
	told int64                                      // left at the last step
}

// NewBudget gives a request the given units of cost (see meter.go), until its context ends.
func NewBudget(ctx context.Context, units int64) *Budget {
	return &Budget{ctx: ctx, left: units, told: units}
}

// Stepwise calls step before each filter, with the units spent since the last call. The filter runs
// once step returns nil.
func (b *Budget) Stepwise(step func(ctx context.Context, did int64) error) *Budget {
	b.step = step
	return b
}

// Untold returns the units spent since the last step.
func (b *Budget) Untold() int64 { return b.told - b.left }

// open returns nil if another filter may run, else the reason.
func (b *Budget) open() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.left <= 0 {
		return ErrTooCostly
	}
	if b.step != nil {
		did := b.Untold()
		b.told = b.left
		return b.step(b.ctx, did)
	}
	return nil
}
