package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/grapnelhq/grapnel"
)

// A source is the only consumer of a queue: a second one would get messages of the same keys, so
// the broker is asked for an exclusive consumer. When its channel ends, the broker puts the
// messages that were not acknowledged back to their places in the queue.

var _ = registerReading("rabbitmq", Reading{
	What: "queue",
	Open: func(ctx context.Context, t *grapnel.Target, p Place, n Network, _ string, most int) (Consumer, error) {
		s, err := (&rabbitDriver{target: t, place: p, network: n}).open(ctx)
		if err != nil {
			return nil, err
		}
		c := &rabbitConsumer{session: s, most: most}
		late := context.AfterFunc(ctx, func() { _ = s.raw.Close() })
		var messages <-chan amqp.Delivery
		if err = s.channel.Qos(most, 0, false); err == nil {
			messages, err = s.channel.ConsumeWithContext(context.WithoutCancel(ctx), t.Name, "grapnel", false, true, false, false, nil)
		}
		late()
		if err == nil {
			c.gather(messages)
		}
		if err != nil {
			c.Close()
			if answered := (*amqp.Error)(nil); errors.As(err, &answered) && answered.Code == amqp.AccessRefused &&
				strings.Contains(answered.Reason, "exclusive") {
				return nil, ErrElsewhere
			}
			return nil, errors.Join(refusedByRabbit(err), ctx.Err())
		}
		return c, nil
	},
})

type rabbitConsumer struct {
	session  *rabbitSession
	most     int
	messages chan amqp.Delivery // closed when the broker sends no more
	open     []uint64           // tags of the messages that were returned and not acknowledged
}

// gather keeps the messages until Receive takes them, all at once: the library hands them over one
// by one. It never waits for Receive, because the broker sends no more than most before they are
// acknowledged.
func (c *rabbitConsumer) gather(messages <-chan amqp.Delivery) {
	c.messages = make(chan amqp.Delivery, c.most)
	go func() {
		defer close(c.messages)
		for m := range messages {
			c.messages <- m
		}
	}()
}

func (c *rabbitConsumer) Receive(ctx context.Context, wait time.Duration) (all []Received, err error) {
	late := time.NewTimer(wait)
	defer late.Stop()
	var m amqp.Delivery
	open := true
	select {
	case m, open = <-c.messages:
	case <-late.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for open {
		all = append(all, receivedOfRabbit(&m))
		c.open = append(c.open, m.DeliveryTag)
		if len(all) == c.most {
			return all, nil
		}
		select {
		case m, open = <-c.messages:
		default:
			return all, nil
		}
	}
	if c.session.channel.IsClosed() {
		return nil, refusedByRabbit(c.session.why())
	}
	return nil, &Refusal{Status: 404, Text: "the broker has ended the consumer: the queue was deleted"}
}

func receivedOfRabbit(m *amqp.Delivery) Received {
	r := Received{ID: m.MessageId, Type: m.Type, Key: m.RoutingKey, Body: m.Body}
	if m.ContentType != "" {
		r.Headers = append(r.Headers, grapnel.Header{Name: "content-type", Value: m.ContentType})
	}
	for name, value := range m.Headers {
		if name == "content-type" {
			continue
		}
		r.Headers = append(r.Headers, grapnel.Header{Name: name, Value: textOf(value)})
	}
	return r
}

func textOf(value any) string {
	if bytes, is := value.([]byte); is {
		return string(bytes)
	}
	return fmt.Sprint(value)
}

func (c *rabbitConsumer) Ack(_ context.Context, n int) error {
	if n == 0 {
		return nil
	}
	err := c.session.channel.Ack(c.open[n-1], true)
	c.open = slices.Clone(c.open[n:])
	return refusedByRabbit(err)
}

func (c *rabbitConsumer) Close() {
	endRabbit(c.session)
	if c.messages == nil {
		return
	}
	for range c.messages { // until gather has ended
	}
}
