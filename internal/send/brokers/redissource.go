//go:build full

package brokers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/grapnelhq/grapnel"
)

// A source is the one consumer of a group of a Redis stream, under the same name on each node. So
// a consumer that connects reads first, by that name, the entries that its predecessor did not
// acknowledge. If an entry that it did not get is pending, another node has read it meanwhile: it
// would come here after later ones, so the consumer begins again.

var _ = registerReading("redis", Reading{
	What:    "stream's key",
	Options: []Option{{Name: "group"}}, // name of the consumer group; none: that of the source
	Check:   checkDatabase,
	Open: func(ctx context.Context, t *grapnel.Target, p Place, n Network, group string, most int) (Consumer, error) {
		quietRedis()
		database, _ := strconv.Atoi(p.Path)
		c := &redisConsumer{stream: t.Name, group: cmp.Or(t.Options["group"], group), most: int64(most), after: "0"}
		c.client = redis.NewClient(&redis.Options{
			Addr: p.Hosts[0], Username: t.Username, Password: t.Password.Text, DB: database, Protocol: 2, DisableIdentity: true,
			Dialer:     func(ctx context.Context, _, address string) (net.Conn, error) { return n.Dial(ctx, address) },
			MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ContextTimeoutEnabled: true, ReadTimeout: -1, WriteTimeout: -1,
		})
		if err := c.client.XGroupCreateMkStream(ctx, c.stream, c.group, "0").Err(); err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
			c.Close()
			return nil, refusedByRedis(err)
		}
		return c, nil
	},
})

const redisReader = "grapnel" // the name of the consumer

type redisConsumer struct {
	client        *redis.Client
	stream, group string
	most          int64
	after         string   // the last entry that a predecessor left and that was read here; ">": all were
	open          []string // entries that were returned, and not acknowledged
}

func (c *redisConsumer) Receive(ctx context.Context, wait time.Duration) ([]Received, error) {
	for c.after != ">" {
		n, left, err := c.read(ctx, -1)
		if err != nil || len(left) > 0 {
			return left, err
		}
		if n == 0 {
			c.after = ">"
		}
	}
	_, all, err := c.read(ctx, max(wait, time.Millisecond))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	pending, err := c.client.XPending(ctx, c.stream, c.group).Result()
	if err == nil && (pending.Count != int64(len(c.open)) || pending.Lower != c.open[0]) {
		err = errors.New("another program reads by the same group")
	}
	return all, refusedByRedis(err)
}

// read reads entries: of its own that are pending, without waiting, or new ones. n includes those
// that the stream has dropped since they were read first.
func (c *redisConsumer) read(ctx context.Context, wait time.Duration) (n int, all []Received, err error) {
	found, err := c.client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: c.group, Consumer: redisReader, Streams: []string{c.stream, c.after},
		Count: c.most, Block: wait}).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil, nil
	}
	if err != nil || len(found) == 0 {
		return 0, nil, refusedByRedis(err)
	}
	for _, m := range found[0].Messages {
		if c.after != ">" {
			c.after = m.ID
		}
		if len(m.Values) == 0 {
			if err := c.client.XAck(ctx, c.stream, c.group, m.ID).Err(); err != nil {
				return 0, nil, refusedByRedis(err)
			}
			continue
		}
		c.open = append(c.open, m.ID)
		all = append(all, c.received(m))
	}
	return len(found[0].Messages), all, nil
}

// received is an entry. Its body is the field body; without one, all its fields as JSON.
func (c *redisConsumer) received(m redis.XMessage) Received {
	is := Received{Place: c.stream + " " + m.ID}
	if ms, err := strconv.ParseInt(m.ID[:max(0, strings.IndexByte(m.ID, '-'))], 10, 64); err == nil {
		is.At = time.UnixMilli(ms).UTC()
	}
	body, has := m.Values["body"].(string)
	if is.Body = []byte(body); !has {
		is.Body, _ = json.Marshal(m.Values) // texts alone
		return is
	}
	for name, value := range m.Values {
		if text, ok := value.(string); ok && name != "body" {
			is.Headers = append(is.Headers, grapnel.Header{Name: name, Value: text})
		}
	}
	return is
}

func (c *redisConsumer) Ack(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	err := c.client.XAck(ctx, c.stream, c.group, c.open[:n]...).Err()
	c.open = slices.Clone(c.open[n:])
	return refusedByRedis(err)
}

func (c *redisConsumer) Close() { _ = c.client.Close() }
