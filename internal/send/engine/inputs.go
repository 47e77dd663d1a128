package engine

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
)

// inputs is the way to the core, which only the goroutine of Run calls.
type inputs struct {
	queue chan input
	over  chan struct{} // closed when Run accepts no more inputs
}

// input is one input for the core. done, if not nil, is closed once the core has taken it.
type input struct {
	core.Input
	ask  func(*core.Core, time.Time) // instead of an Input: reads the core
	done chan struct{}
}

func newInputs() *inputs {
	return &inputs{queue: make(chan input, 1024), over: make(chan struct{})}
}

// token puts a token into a channel that holds one, unless it is there already.
func token(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// send gives the core an input; false: the engine has stopped.
func (i *inputs) send(in core.Input) bool {
	select {
	case i.queue <- input{Input: in}:
		return true
	case <-i.over:
		return false
	}
}

// ask calls do between two steps of the core, and returns once do has returned.
func (i *inputs) ask(ctx context.Context, do func(*core.Core, time.Time)) error {
	in := input{ask: do, done: make(chan struct{})}
	select {
	case i.queue <- in:
	case <-i.over:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-in.done:
		return nil
	case <-i.over:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errStopping = grapnel.Errorf(grapnel.CodeUnavailable, "the server is shutting down")
