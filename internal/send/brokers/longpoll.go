//go:build full

package brokers

import (
	"context"
	"time"
)

// longPoll asks a broker for messages in one call after the other. A call outlives a Receive that
// got nothing: had it been given up, the broker might have sent messages that nobody reads, and
// would deliver them again only when their time for an acknowledgement has passed. One goroutine
// uses a longPoll.
type longPoll[M any] struct {
	call func(context.Context) ([]M, error)
	end  context.CancelFunc
	over chan struct{} // closed when the call has ended; nil: none is under way
	all  []M           // its result
	err  error
}

const (
	pollFor  = 20 * time.Second         // that a broker waits for a message
	pollMost = pollFor + 10*time.Second // until a call counts as lost
)

// receive waits for the messages of the call under way, or of a new one. It does not return before
// wait without messages, so that a broker that does not wait is not asked without a pause.
func (p *longPoll[M]) receive(ctx context.Context, wait time.Duration) ([]M, error) {
	if p.over == nil {
		within, end := context.WithTimeout(context.WithoutCancel(ctx), pollMost)
		over := make(chan struct{})
		p.over, p.end = over, end
		go func() {
			defer close(over)
			defer end()
			p.all, p.err = p.call(within)
		}()
	}
	late, over := time.NewTimer(wait), p.over
	defer late.Stop()
	for {
		select {
		case <-over:
			over, p.over = nil, nil
			if len(p.all) > 0 || p.err != nil {
				return p.all, p.err
			}
		case <-late.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// close gives the call up and waits for its goroutine. It returns the messages that came meanwhile.
func (p *longPoll[M]) close() []M {
	if p.over == nil {
		return nil
	}
	p.end()
	<-p.over
	return p.all
}
