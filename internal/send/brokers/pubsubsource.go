//go:build full

package brokers

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnelhq/grapnel"
)

// A source pulls from a subscription, one pull after the other, because Pub/Sub delivers the next
// messages of an ordering key to a pull only when those before are acknowledged. A message that is
// not acknowledged within the subscription's deadline, or is given back, comes again before later
// ones of its key. A subscription without message ordering has no order.

var _ = registerReading("pubsub", Reading{
	What: "subscription, as in projects/p/subscriptions/s",
	Check: func(t *grapnel.Target, p Place) *Fault {
		if !subscriptionName.MatchString(t.Name) {
			return &Fault{"name", "must be a subscription with its project, as in projects/p/subscriptions/s"}
		}
		return checkServiceAccount(t, p)
	},
	Open: func(ctx context.Context, t *grapnel.Target, p Place, n Network, _ string, most int) (Consumer, error) {
		d, err := newPubSub(t, p, n)
		if err != nil {
			return nil, err
		}
		c := &pubsubConsumer{pubsubDriver: d, most: min(most, 1000)} // the API takes no higher number
		c.polls.call = c.pull
		if err := c.Connect(ctx); err != nil {
			return nil, err
		}
		return c, nil
	},
})

var subscriptionName = regexp.MustCompile(`^projects/[^/]+/subscriptions/[^/]+$`)

type pubsubConsumer struct {
	*pubsubDriver
	most  int
	polls longPoll[*pubsubpb.ReceivedMessage]
	open  []string // ids of acknowledgements of the messages that were returned and not acknowledged
}

func (c *pubsubConsumer) Receive(ctx context.Context, wait time.Duration) (received []Received, err error) {
	all, err := c.polls.receive(ctx, wait)
	for _, m := range all {
		c.open = append(c.open, m.AckId)
		received = append(received, c.received(m.Message))
	}
	return received, err
}

// pull is one call for messages. While there are none the server may wait for longer than the call:
// then it does not say that it is there, so the next call makes a new connection.
func (c *pubsubConsumer) pull(ctx context.Context) (all []*pubsubpb.ReceivedMessage, err error) {
	within, end := context.WithTimeout(ctx, pollFor)
	defer end()
	silent := false
	err = c.call(within, func(ctx context.Context, conn *grpc.ClientConn) error {
		out, err := pubsubpb.NewSubscriberClient(conn).Pull(ctx, &pubsubpb.PullRequest{Subscription: c.target.Name, MaxMessages: int32(c.most)})
		all = out.GetReceivedMessages()
		switch is, _ := status.FromError(err); {
		case is.Code() == codes.DeadlineExceeded:
			silent = true
			return nil
		case is.Code() == codes.ResourceExhausted && strings.Contains(is.Message(), "larger than max"): // by the library
			return ErrTooMuch
		}
		return err
	})
	if silent {
		c.session.close(endPubSub)
	}
	return all, err
}

func (c *pubsubConsumer) received(m *pubsubpb.PubsubMessage) Received {
	r := Received{Key: m.GetOrderingKey(), Body: m.GetData(), Place: c.target.Name + " " + m.GetMessageId()}
	if at := m.GetPublishTime(); at != nil {
		r.At = at.AsTime()
	}
	for name, value := range m.GetAttributes() {
		r.Headers = append(r.Headers, grapnel.Header{Name: name, Value: value})
	}
	return r
}

func (c *pubsubConsumer) Ack(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	in := &pubsubpb.AcknowledgeRequest{Subscription: c.target.Name, AckIds: c.open[:n]}
	err := c.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pubsubpb.NewSubscriberClient(conn).Acknowledge(ctx, in)
		return err
	})
	if err == nil {
		c.open = slices.Clone(c.open[n:])
	}
	return err
}

func (c *pubsubConsumer) Close() {
	for _, m := range c.polls.close() {
		c.open = append(c.open, m.AckId)
	}
	if len(c.open) > 0 {
		ctx, end := context.WithTimeout(context.Background(), time.Second)
		defer end()
		in := &pubsubpb.ModifyAckDeadlineRequest{Subscription: c.target.Name, AckIds: c.open}
		_ = c.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error { // so that the next consumer need not wait
			_, err := pubsubpb.NewSubscriberClient(conn).ModifyAckDeadline(ctx, in)
			return err
		})
	}
	c.pubsubDriver.Close()
}
