//go:build full

package brokers

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/grapnelhq/grapnel"
)

// A source is a static member of a consumer group: a consumer that connects takes the place of its
// predecessor at once, and the cluster refuses further commits by the predecessor. The order is
// that of each partition; a commit is made of offsets, so it covers all records before them.

var _ = registerReading("kafka", Reading{
	What: "topic",
	// group: name of the consumer group; none: that of the source
	Options: []Option{{Name: "sasl", One: saslNames}, {Name: "group"}},
	Open: func(ctx context.Context, t *grapnel.Target, p Place, n Network, group string, most int) (Consumer, error) {
		options := []kgo.Opt{
			kgo.SeedBrokers(p.Hosts...), kgo.ClientID("grapnel"), kgo.RequestRetries(1), kgo.MetadataMinAge(time.Second),
			kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return n.Dial(ctx, address) }),
			kgo.ConsumeTopics(t.Name), kgo.ConsumerGroup(cmp.Or(t.Options["group"], group)), kgo.InstanceID(group), kgo.DisableAutoCommit(),
			kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MaxConcurrentFetches(1),
			kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchBytes / 4), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		}
		if t.Username != "" {
			options = append(options, kgo.SASL(saslOf(t)))
		}
		client, err := kgo.NewClient(options...)
		if err != nil {
			return nil, err
		}
		if err := client.Ping(ctx); err != nil {
			client.Close()
			return nil, refusedByKafka(err)
		}
		return &kafkaConsumer{client: client, most: most, asked: time.Now()}, nil
	},
})

const (
	fetchBytes = 4 << 20 // of one answer with records, unless its first is larger
	// the library reconnects without a word: an idle consumer asks the cluster this often
	askAgain = 5 * time.Second
)

type kafkaConsumer struct {
	client *kgo.Client
	most   int
	asked  time.Time
	open   []*kgo.Record // returned, and not acknowledged
}

func (c *kafkaConsumer) Receive(ctx context.Context, wait time.Duration) (all []Received, err error) {
	within, end := context.WithTimeout(ctx, wait)
	defer end()
	fetched := c.client.PollRecords(within, c.most)
	for _, failed := range fetched.Errors() {
		if within.Err() == nil {
			return nil, refusedByKafka(failed.Err)
		}
	}
	fetched.EachRecord(func(r *kgo.Record) {
		c.open = append(c.open, r)
		all = append(all, receivedOfKafka(r))
	})
	if len(all) > 0 {
		c.asked = time.Now()
		return all, nil
	}
	c.client.AllowRebalance()
	if time.Since(c.asked) < askAgain {
		return nil, nil
	}
	c.asked = time.Now()
	return nil, refusedByKafka(c.client.Ping(ctx))
}

func receivedOfKafka(r *kgo.Record) Received {
	is := Received{Key: string(r.Key), Body: r.Value, At: r.Timestamp, Place: r.Topic + " " + strconv.Itoa(int(r.Partition)) + " " +
		strconv.FormatInt(r.Offset, 10) + " " + strconv.FormatInt(r.Timestamp.UnixMilli(), 10)}
	for _, h := range r.Headers {
		is.Headers = append(is.Headers, grapnel.Header{Name: h.Key, Value: string(h.Value)})
	}
	return is
}

// Ack commits. Records of one answer are ordered by partition, so the first n of them are the
// first of each of their partitions.
func (c *kafkaConsumer) Ack(ctx context.Context, n int) error {
	if err := c.client.CommitRecords(ctx, c.open[:n]...); err != nil {
		return refusedByKafka(err)
	}
	if c.open = slices.Clone(c.open[n:]); len(c.open) == 0 {
		c.client.AllowRebalance()
	}
	return nil
}

func (c *kafkaConsumer) Close() { c.client.CloseAllowingRebalance() }
