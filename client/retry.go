package client

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second // if the server asks for more, its error is returned to the caller
)

// repeatable says whether the request may be sent again after this failure.
func (rq call) repeatable(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		switch refused.Status {
		case http.StatusTooManyRequests:
			return true // turned away before anything was done
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return rq.safe()
		case http.StatusConflict:
			// The first try is still being worked on; its answer will be there.
			return rq.safe() && refused.Code == string(grapnel.CodeInFlight)
		}
		return false
	}
	var lost *Unreachable
	if !errors.As(err, &lost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var op *net.OpError
	neverSent := errors.As(err, &op) && op.Op == "dial"
	return neverSent || rq.safe()
}

// safe says whether doing it twice comes to the same as doing it once.
func (rq call) safe() bool { return rq.method == http.MethodGet || rq.once != "" || rq.idempotent }

// pause waits before a repetition. false: no repetition, because the budget is empty, the time is
// short or the wait too long.
func (c *Client) pause(ctx context.Context, tries int, err error) bool {
	wait := firstPause << (tries - 1)
	wait += time.Duration(float64(wait) * c.fraction())
	if refused, ok := errors.AsType[*Error](err); ok {
		wait = max(wait, refused.RetryAfter)
	}
	if deadline, ok := ctx.Deadline(); wait > maxPause || ok && time.Until(deadline) < wait || !c.budget.spend() {
		return false
	}
	return rest(ctx, wait)
}

// rest lets time pass, unless ctx ends.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fraction is a random number in [0, 1).
func (c *Client) fraction() float64 {
	var b [8]byte
	if _, err := io.ReadFull(c.options.Random, b[:]); err != nil {
		return 0.5
	}
	return float64(binary.BigEndian.Uint64(b[:])>>11) / (1 << 53)
}

const reserve = 10

func newBudget() *budget { return &budget{tenths: reserve * 10} }

func (b *budget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenths = min(b.tenths+1, reserve*10)
}

func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tenths < 10 {
		return false
	}
	b.tenths -= 10
	return true
}
