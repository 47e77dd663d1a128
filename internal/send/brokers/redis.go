//go:build full

package brokers

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/grapnelhq/grapnel"
)

// The entries of a Redis stream have the field body and one field for each header. Redis knows no
// ids of messages: consumers tell repetitions by webhook-id.

var _ = register(Kind{
	Name: "redis", Plain: "redis", Secure: "rediss", Port: "6379", Path: "database number", What: "stream's key",
	Options: []Option{{Name: "max_length", Number: true}}, // the stream is trimmed to about this many entries; none: never
	Check:   checkDatabase,
	Open:    openRedis,
})

func checkDatabase(_ *grapnel.Target, p Place) *Fault {
	if _, err := strconv.ParseUint(p.Path, 10, 16); p.Path != "" && err != nil {
		return &Fault{"address", "has a path that is not the number of a database"}
	}
	return nil
}

type redisDriver struct {
	client  *redis.Client
	stream  string
	most    int64
	reached atomic.Bool
}

func openRedis(t *grapnel.Target, p Place, n Network) (Driver, error) {
	quietRedis()
	database, _ := strconv.Atoi(p.Path)
	most, _ := strconv.ParseInt(t.Options["max_length"], 10, 64)
	return &redisDriver{stream: t.Name, most: most, client: redis.NewClient(&redis.Options{
		Addr: p.Hosts[0], Username: t.Username, Password: t.Password.Text, DB: database, Protocol: 2, DisableIdentity: true,
		Dialer:     func(ctx context.Context, _, address string) (net.Conn, error) { return n.Dial(ctx, address) },
		MaxRetries: -1, DialerRetries: 1, PoolSize: n.Conns, ContextTimeoutEnabled: true, ReadTimeout: -1, WriteTimeout: -1,
	})}, nil
}

// Connect asks once, so that a wrong password is found before a message is written.
func (d *redisDriver) Connect(ctx context.Context) error {
	if d.reached.Load() {
		return nil
	}
	if err := d.client.Ping(ctx).Err(); err != nil {
		return refusedByRedis(err)
	}
	d.reached.Store(true)
	return nil
}

func (d *redisDriver) Send(ctx context.Context, m *Message) (Receipt, error) {
	values := make([]any, 0, 2+2*len(m.Headers))
	values = append(values, "body", m.Body)
	for _, h := range m.Headers {
		values = append(values, h.Name, h.Value)
	}
	entry, err := d.client.XAdd(ctx, &redis.XAddArgs{Stream: d.stream, MaxLen: d.most, Approx: d.most > 0, Values: values}).Result()
	if err != nil {
		return nil, refusedByRedis(err)
	}
	return Receipt{"entry": entry}, nil
}

func (d *redisDriver) Close() { _ = d.client.Close() }

// refusedByRedis makes a refusal of an error that Redis answered; its first word says which one.
func refusedByRedis(err error) error {
	var answered redis.Error
	if !errors.As(err, &answered) {
		return err
	}
	word, _, _ := strings.Cut(answered.Error(), " ")
	status := 502
	switch word {
	case "NOAUTH", "WRONGPASS":
		status = 401
	case "NOPERM":
		status = 403
	case "WRONGTYPE":
		status = 409
	case "OOM", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "MISCONF", "NOREPLICAS":
		status = 503
	}
	return &Refusal{Status: status, Text: answered.Error()}
}

var quietRedis = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

// silent writes nothing: the library would log failures that an attempt records.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
