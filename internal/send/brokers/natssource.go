package brokers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// A source is a durable pull consumer of a stream. The server delivers a message again when it was
// not acknowledged in time, and delivers later ones meanwhile. So a consumer that has just
// connected keeps what it gets until it has all messages that its predecessor did not acknowledge:
// then the order is the stream's.
//
// The server numbers its deliveries. A gap means that another program got a message, which would
// come here after later ones; so it is an error, after which the consumer waits for that message
// as well.

var _ = registerReading("nats", Reading{
	What: "stream",
	// consumer: name of the durable consumer; none: that of the source. subject: only these messages
	Options: []Option{{Name: "consumer"}, {Name: "subject"}},
	Check: func(t *grapnel.Target, _ Place) *Fault {
		for field, name := range map[string]string{"name": t.Name, "options/consumer": t.Options["consumer"]} {
			if strings.ContainsAny(name, ".*> /\\\t") {
				return &Fault{field, "must be a name without dots, wildcards and slashes"}
			}
		}
		return nil
	},
	Open: func(ctx context.Context, t *grapnel.Target, p Place, n Network, group string, most int) (Consumer, error) {
		session, err := (&natsDriver{target: t, place: p, network: n}).open(ctx)
		if err != nil {
			return nil, err
		}
		c := &natsConsumer{session: session, most: most, held: map[uint64]natsMessage{}}
		if err := c.find(ctx, t, cmp.Or(t.Options["consumer"], group)); err != nil {
			session.conn.Close()
			return nil, refusedByNATS(err)
		}
		return c, nil
	},
})

// natsAckWait is how long the server waits for an acknowledgement, and a source for the messages
// that were delivered to its predecessor.
const natsAckWait = 5 * time.Second

type natsConsumer struct {
	session *natsSession
	from    jetstream.Consumer
	most    int
	next    uint64 // number of the next delivery

	// messages that are awaited before any is returned: so many, up to this one of the stream
	awaited int
	until   uint64
	due     time.Time // when the server delivers all of them before any later message
	late    time.Time // when the consumer is opened again, since the stream may have dropped some

	held map[uint64]natsMessage // by their numbers in the stream; not returned
	last uint64                 // number in the stream of the last that was returned
	open []natsMessage          // returned, and not acknowledged
}

type natsMessage struct {
	jetstream.Msg
	is *jetstream.MsgMetadata
}

// find uses the durable consumer, or creates it.
func (c *natsConsumer) find(ctx context.Context, t *grapnel.Target, name string) (err error) {
	c.from, err = c.session.stream.Consumer(ctx, t.Name, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c.from, err = c.session.stream.CreateConsumer(ctx, t.Name, jetstream.ConsumerConfig{Durable: name,
			AckPolicy:     jetstream.AckExplicitPolicy,
			DeliverPolicy: jetstream.DeliverAllPolicy, AckWait: natsAckWait, FilterSubject: t.Options["subject"], Description: "a source of Grapnel"})
	}
	if err != nil {
		return err
	}
	is := c.from.CachedInfo()
	switch {
	case is.Config.AckPolicy != jetstream.AckExplicitPolicy || is.Config.MaxDeliver > 0:
		return &Refusal{Status: 409, Text: "the consumer " + name + " loses messages: it must have the ack policy explicit and no limit of deliveries"}
	case t.Options["subject"] != is.Config.FilterSubject && t.Options["subject"] != "":
		return &Refusal{Status: 409, Text: "the consumer " + name + " has another subject: " + is.Config.FilterSubject}
	}
	c.next, c.awaited, c.until = is.Delivered.Consumer+1, is.NumAckPending, is.Delivered.Stream
	patience := max(is.Config.AckWait, natsAckWait)
	c.due, c.late = time.Now().Add(patience+time.Second), time.Now().Add(2*patience)
	return nil
}

func (c *natsConsumer) Receive(ctx context.Context, wait time.Duration) ([]Received, error) {
	if left := time.Until(c.due); c.awaited > 0 && len(c.held) >= c.most && left > 0 {
		backoff.Wait(ctx.Done(), min(wait, left)) // else later messages would fill the memory
		return nil, ctx.Err()
	}
	if err := c.fetch(c.from.FetchNoWait(c.most)); err != nil {
		return nil, err
	}
	if !c.complete() || len(c.held) == 0 {
		if deadline, has := ctx.Deadline(); has {
			wait = min(wait, time.Until(deadline)/2)
		}
		if err := c.fetch(c.from.Fetch(1, jetstream.FetchMaxWait(max(wait, time.Millisecond)))); err != nil {
			return nil, err
		}
	}
	switch {
	case c.complete():
	case time.Now().After(c.late):
		return nil, errors.New("the server did not deliver messages again that were not acknowledged")
	default:
		return nil, nil
	}
	all := make([]Received, 0, len(c.held))
	for _, m := range c.held {
		c.open = append(c.open, m)
	}
	clear(c.held)
	slices.SortFunc(c.open, func(a, b natsMessage) int { return cmp.Compare(a.is.Sequence.Stream, b.is.Sequence.Stream) })
	for _, m := range c.open {
		if n := m.is.Sequence.Stream; n > c.last {
			c.last = n
			all = append(all, m.received())
		}
	}
	return all, nil
}

// complete says whether the messages that are awaited have come.
func (c *natsConsumer) complete() bool {
	if c.awaited == 0 {
		return true
	}
	come := 0
	for n := range c.held {
		if n <= c.until {
			come++
		}
	}
	if come < c.awaited {
		return false
	}
	c.awaited = 0
	return true
}

// fetch holds the messages of a batch.
func (c *natsConsumer) fetch(batch jetstream.MessageBatch, err error) error {
	if err != nil {
		return refusedByNATS(err)
	}
	for m := range batch.Messages() {
		is, wrong := m.Metadata()
		switch {
		case err != nil || wrong != nil:
			err = cmp.Or(err, wrong)
			continue // the batch is read to its end
		case is.Sequence.Consumer != c.next:
			err = fmt.Errorf("another program reads by the same consumer: delivery %d is followed by %d", c.next-1, is.Sequence.Consumer)
			continue
		}
		c.next++
		if is.Sequence.Stream > c.last {
			c.held[is.Sequence.Stream] = natsMessage{m, is}
		} else if !slices.ContainsFunc(c.open, func(o natsMessage) bool { return o.is.Sequence.Stream == is.Sequence.Stream }) {
			_ = m.Ack() // the server did not get the first acknowledgement
		}
	}
	if err == nil && !errors.Is(batch.Error(), nats.ErrTimeout) {
		err = batch.Error()
	}
	return refusedByNATS(err)
}

func (m natsMessage) received() Received {
	r := Received{Body: m.Data(), Key: m.Subject(), At: m.is.Timestamp, ID: m.Headers().Get(jetstream.MsgIDHeader),
		Place: m.is.Stream + " " + strconv.FormatInt(m.is.Timestamp.UnixNano(), 10) + " " + strconv.FormatUint(m.is.Sequence.Stream, 10)}
	for name, values := range m.Headers() {
		for _, value := range values {
			r.Headers = append(r.Headers, grapnel.Header{Name: name, Value: value})
		}
	}
	return r
}

func (c *natsConsumer) Ack(ctx context.Context, n int) error {
	for _, m := range c.open[:n] {
		if err := m.Ack(); err != nil {
			return refusedByNATS(err)
		}
	}
	c.open = slices.Clone(c.open[n:])
	return c.session.conn.FlushWithContext(ctx)
}

func (c *natsConsumer) Close() {
	for _, m := range c.open {
		_ = m.Nak() // so that the next consumer need not wait
	}
	_ = c.session.conn.FlushTimeout(time.Second)
	c.session.conn.Close()
}
