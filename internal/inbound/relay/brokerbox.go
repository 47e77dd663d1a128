package relay

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/brokers"
)

// brokerBox is a broker as a box: look receives messages, and take acknowledges them. The node
// that owns the source's shard reads, the others stand by.
//
// A node that has lost the source between receiving and publishing drops the messages, so the
// broker delivers them to the next one before any later message. If it loses the source while it
// publishes, both publish the same messages, and the later publish finds duplicates.
type brokerBox struct {
	courier *courier
	reader  *reader
	from    brokers.Consumer // nil: not connected
	rows    []row            // received, and not acknowledged
}

var _ box = (*brokerBox)(nil)

func openBroker(c *courier) (box, error) {
	r, err := newReader(&c.source, c.runner.o.Bounds.Hops)
	return &brokerBox{courier: c, reader: r}, err
}

func (b *brokerBox) look(ctx context.Context, _ int64) (p page, err error) {
	c := b.courier
	if ctx.Err() != nil { // else a courier that stands by would never end
		return p, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, c.runner.o.Bounds.Call)
	defer cancel()
	if !b.ours() {
		return page{elsewhere: true}, nil
	}
	if len(b.rows) == 0 {
		err := b.receive(ctx)
		switch {
		case errors.Is(err, brokers.ErrElsewhere):
			return page{elsewhere: true}, nil
		case errors.Is(err, brokers.ErrTooMuch):
			c.most = max(1, c.most/2)
		}
		if err != nil {
			return p, err
		}
	}
	if !b.ours() {
		return page{elsewhere: true}, nil
	}
	p.rows, p.full = b.rows, len(b.rows) >= c.most
	if len(b.rows) > 0 {
		p.age = c.runner.o.Now().Sub(*b.rows[0].occurredAt)
	}
	return p, nil
}

// ours says whether this node reads from the broker. If not, it is disconnected.
func (b *brokerBox) ours() bool {
	if b.courier.runner.o.Engine.Decides(b.courier.source.ID) {
		return true
	}
	_ = b.Close()
	return false
}

// receive gets the next messages, and waits for them for a moment.
func (b *brokerBox) receive(ctx context.Context) (err error) {
	c := b.courier
	if b.from == nil {
		if b.from, err = c.runner.o.Consume(ctx, &c.source, c.most, max(c.runner.o.Bounds.Received, 2*c.runner.o.MaxEvent)); err != nil {
			b.from = nil
			return err
		}
	}
	messages, err := b.from.Receive(ctx, c.runner.o.Bounds.Asleep)
	if err != nil {
		return err
	}
	now := c.runner.o.Now()
	for i := range messages {
		c.serial++
		b.rows = append(b.rows, b.reader.row(&messages[i], c.serial, now))
	}
	return nil
}

func (b *brokerBox) take(ctx context.Context, p page) error {
	ctx, cancel := context.WithTimeout(ctx, b.courier.runner.o.Bounds.Call)
	defer cancel()
	if err := b.from.Ack(ctx, len(p.rows)); err != nil {
		return err
	}
	b.rows = b.rows[len(p.rows):]
	return nil
}

// leave keeps the messages for the next look.
func (b *brokerBox) leave(context.Context) error { return nil }

// sleep does nothing: a look waits for messages.
func (b *brokerBox) sleep(context.Context, time.Duration) error { return nil }

// inClear says nothing: the source's settings chose an address without TLS.
func (b *brokerBox) inClear() (host, remedy string) { return "", "" }

// Close disconnects. The broker delivers unacknowledged messages again.
func (b *brokerBox) Close() error {
	if b.from != nil {
		b.from.Close()
	}
	b.from, b.rows = nil, nil
	return nil
}
