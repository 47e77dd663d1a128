//go:build linux && prove

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Producers write messages of some keys to a real broker, from which a source reads. The server is
// killed again and again, and the broker stops and starts. In the end the server has one event for
// each message, each key's in its order, and has set aside each message without a key.
func TestBrokerSourcesThroughKills(t *testing.T) {
	for _, kind := range []string{"redis", "nats", "rabbitmq", "kafka"} {
		t.Run(kind, func(t *testing.T) {
			beside(t, busy)
			messages, keys, kills, pace := 2000, 20, 4, 3*time.Millisecond
			if soak() {
				messages, kills, pace = 100_000, 60, 0
			}
			consumed(t, newBroker(t, kind).(supply), messages, keys, kills, pace)
		})
	}
}

// supply is a broker that a source reads from.
type supply interface {
	broker
	source() map[string]any
	// producer makes a function that writes a message and returns when the broker has it. It is for
	// one goroutine.
	producer(ctx context.Context) (write func(body []byte, headers map[string]string) error, end func())
}

func consumed(t *testing.T, b supply, messages, keys, kills int, pace time.Duration) {
	dice := newDice(t)
	b.start()
	c := startFull(t)
	c.must(http.StatusCreated, http.MethodPost, "/v1/queues", map[string]any{"name": "all"}, nil)
	var source struct{ ID string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/sources", map[string]any{"name": "broker", "broker": b.source(),
		"type": `"note.added"`, "key": `event.headers["key"]`}, &source)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began := time.Now()
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() { produceInOrder(ctx, b, fmt.Sprint("k", k), messages/keys, pace*time.Duration(keys)) })
	}
	produced := make(chan struct{})
	go func() { all.Wait(); close(produced) }()
	c.crash(ctx, b, dice, kills)
	<-produced
	t.Logf("%d messages are written after %v", messages, time.Since(began).Round(time.Millisecond))
	poison := 0
	eventually(t, drained(), "all messages are read", func() bool {
		pause(ctx, 500*time.Millisecond)
		for k := range keys {
			if status, _, _ := c.call(ctx, http.MethodGet, "/v1/events/"+fmt.Sprint("k", k, "-", messages/keys), nil); status != http.StatusOK {
				return false
			}
		}
		poison = len(pages[struct{ ID string }](c, "/v1/inbox", url.Values{"outcome": {"refused"}}, 10*keys))
		return poison >= keys
	})
	took := time.Since(began)
	seen, got := map[string]int{}, c.published()
	for _, ev := range got {
		seen[ev.Key]++
		if due := fmt.Sprint(ev.Key, "-", seen[ev.Key]); ev.ID != due {
			t.Fatalf("%s came where %s was due", ev.ID, due)
		}
	}
	if len(got) != messages || poison > keys*(kills+1) {
		t.Errorf("%d events of %d messages; %d set aside of %d", len(got), messages, poison, keys)
	}
	t.Logf("%d events, %d crashes, %d set aside of %d, %v", len(got), kills, poison, keys, took.Round(time.Millisecond))
}

// produceInOrder writes the messages of one key, one after the other, each until the broker has it,
// and among them one that has no key.
func produceInOrder(ctx context.Context, b supply, key string, n int, pace time.Duration) {
	write, end := func([]byte, map[string]string) error { return fmt.Errorf("not connected") }, func() {}
	defer func() { end() }()
	put := func(body []byte, headers map[string]string) {
		for ctx.Err() == nil && write(body, headers) != nil {
			end()
			pause(ctx, 50*time.Millisecond)
			write, end = b.producer(ctx)
		}
	}
	for i := 1; i <= n && ctx.Err() == nil; i++ {
		put(fmt.Appendf(nil, `{"n":%d}`, i), map[string]string{"webhook-id": fmt.Sprint(key, "-", i), "key": key})
		if i == n/2 {
			put([]byte("poison"), map[string]string{"webhook-id": key + "-poison"})
		}
		pause(ctx, pace)
	}
}

// groupOf is the key by which a broker orders a message, with or without the header.
func groupOf(headers map[string]string) string {
	return cmp.Or(headers["key"], strings.TrimSuffix(headers["webhook-id"], "-poison"))
}

// broken is a producer that could not connect.
func broken(err error) (func([]byte, map[string]string) error, func()) {
	return func([]byte, map[string]string) error { return err }, func() {}
}

const confirmed = 5 * time.Second // patience of a producer for the broker's confirmation

func (b *natsBroker) source() map[string]any {
	return map[string]any{"kind": "nats", "address": b.url("nats", "tls"), "name": "EVENTS", "username": "me", "password": "hush"}
}

func (b *natsBroker) producer(ctx context.Context) (func([]byte, map[string]string) error, func()) {
	conn, err := b.connect()
	if err != nil {
		return broken(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return broken(err)
	}
	return func(body []byte, headers map[string]string) error {
		m := &nats.Msg{Subject: "events.x", Data: body, Header: nats.Header{}}
		for name, value := range headers {
			m.Header[name] = []string{value}
		}
		within, end := context.WithTimeout(ctx, confirmed)
		defer end()
		_, err := js.PublishMsg(within, m)
		return err
	}, conn.Close
}

func (b *rabbitBroker) source() map[string]any {
	return map[string]any{"kind": "rabbitmq", "address": b.url("amqp", "amqps"), "name": "all", "username": "me", "password": "hush"}
}

func (b *rabbitBroker) producer(ctx context.Context) (func([]byte, map[string]string) error, func()) {
	conn, err := b.connect()
	if err != nil {
		return broken(err)
	}
	end := func() { _ = conn.Close() }
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		end()
		return broken(err)
	}
	return func(body []byte, headers map[string]string) error {
		table := amqp.Table{}
		for name, value := range headers {
			table[name] = value
		}
		within, end := context.WithTimeout(ctx, confirmed)
		defer end()
		sent, err := ch.PublishWithDeferredConfirmWithContext(within, "", "all", false, false,
			amqp.Publishing{Headers: table, Body: body, DeliveryMode: amqp.Persistent})
		if err != nil {
			return err
		}
		if acked, err := sent.WaitContext(within); err != nil || !acked {
			return fmt.Errorf("not confirmed: %v", err)
		}
		return nil
	}, end
}

func (b *redisBroker) source() map[string]any { return b.target() }

func (b *redisBroker) producer(ctx context.Context) (func([]byte, map[string]string) error, func()) {
	return func(body []byte, headers map[string]string) error {
		values := []any{"body", body}
		for name, value := range headers {
			values = append(values, name, value)
		}
		return b.client.XAdd(ctx, &redis.XAddArgs{Stream: "events", Values: values}).Err()
	}, func() {}
}

func (b *kafkaBroker) source() map[string]any { return b.target() }

func (b *kafkaBroker) producer(ctx context.Context) (func([]byte, map[string]string) error, func()) {
	cl, err := b.connect(kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(confirmed))
	if err != nil {
		return broken(err)
	}
	return func(body []byte, headers map[string]string) error {
		r := &kgo.Record{Topic: "events", Value: body, Key: []byte(groupOf(headers))}
		for name, value := range headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		return cl.ProduceSync(ctx, r).FirstErr()
	}, cl.Close
}
