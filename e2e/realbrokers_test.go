//go:build linux && prove

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// brokerProcess is the process of a broker, which is started on the same address and files again.
type brokerProcess struct {
	t       *testing.T
	dir     string
	address string
	command func() *exec.Cmd
	ready   func(context.Context) error
	running *process.Process
	secure  *security // nil: the broker takes connections without TLS
}

func newBroker(t *testing.T, kind string) broker {
	return brokerOf(kind, brokerProcess{t: t, dir: t.TempDir(), address: unusedAddress(t)})
}

func brokerOf(kind string, p brokerProcess) broker {
	switch kind {
	case "redis":
		return newRedisBroker(p)
	case "nats":
		return newNATSBroker(p)
	case "rabbitmq":
		return newRabbitBroker(p)
	}
	return newKafkaBroker(p)
}

func (p *brokerProcess) start() {
	p.t.Helper()
	cmd := p.command()
	log, err := os.OpenFile(filepath.Join(p.dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a script may start the broker: both end together
	if p.running == nil {
		p.t.Cleanup(func() {
			p.stop(true)
			if text, err := os.ReadFile(log.Name()); err == nil && p.t.Failed() {
				p.t.Logf("the broker's last words:\n%s", text[max(0, len(text)-4000):])
			}
		})
	}
	if p.running, err = process.Start(cmd); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, time.Minute, "the broker is ready", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = p.ready(ctx)
		return err == nil || p.running.Ended()
	})
	if err != nil {
		p.t.Fatalf("the broker ended while starting: %v", err)
	}
}

func (p *brokerProcess) stop(hard bool) {
	kill := func() {
		_ = syscall.Kill(-p.running.PID, syscall.SIGKILL)
		<-p.running.Done
	}
	if hard || syscall.Kill(-p.running.PID, syscall.SIGTERM) != nil {
		kill()
	} else {
		select {
		case <-p.running.Done:
		case <-time.After(30 * time.Second):
			kill()
		}
	}
	eventually(p.t, 30*time.Second, "the broker has ended", func() bool {
		conn, err := net.DialTimeout("tcp", p.address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

func (p *brokerProcess) port() string {
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	return port
}

func (p *brokerProcess) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

type redisBroker struct {
	brokerProcess
	client *redis.Client
}

func newRedisBroker(p brokerProcess) broker {
	b := &redisBroker{brokerProcess: p, client: redis.NewClient(&redis.Options{Addr: p.address, Password: "hush", MaxRetries: -1,
		TLSConfig: p.trust()})}
	p.t.Cleanup(func() { _ = b.client.Close() })
	b.command = func() *exec.Cmd {
		return exec.Command("redis-server", append(b.flags("redis", "--port", b.port()), "--bind", "127.0.0.1", "--requirepass", "hush",
			"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", b.dir)...)
	}
	b.ready = func(ctx context.Context) error { return b.client.Ping(ctx).Err() }
	return b
}

func (b *redisBroker) dedupes() bool { return false }

func (b *redisBroker) target() map[string]any {
	return map[string]any{"kind": "redis", "address": b.url("redis", "rediss"), "name": "events", "password": "hush"}
}

func (b *redisBroker) read() (all []brokered) {
	for from := "-"; ; {
		page, err := b.client.XRangeN(b.t.Context(), "events", from, "+", 1000).Result()
		b.must(err)
		for _, m := range page {
			got := brokered{headers: map[string]string{}}
			for name, value := range m.Values {
				if name == "body" {
					got.body = []byte(value.(string))
				} else {
					got.headers[name] = value.(string)
				}
			}
			all = append(all, got)
			from = "(" + m.ID
		}
		if len(page) == 0 {
			return all
		}
	}
}

type natsBroker struct{ brokerProcess }

func newNATSBroker(p brokerProcess) broker {
	b := &natsBroker{p}
	b.command = func() *exec.Cmd {
		return exec.Command("nats-server", append(b.flags("nats"), "-js", "-a", "127.0.0.1", "-p", b.port(), "-sd", b.dir, "--user", "me",
			"--pass", "hush")...)
	}
	b.ready = func(ctx context.Context) error {
		return b.with(func(js jetstream.JetStream) error {
			_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
			return err
		})
	}
	return b
}

func (b *natsBroker) with(do func(jetstream.JetStream) error) error {
	conn, err := b.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return do(js)
}

func (b *natsBroker) dedupes() bool { return true }

func (b *natsBroker) target() map[string]any {
	return map[string]any{"kind": "nats", "address": b.url("nats", "tls"), "name": "events.{event.key}", "username": "me", "password": "hush",
		"options": map[string]any{"stream": "EVENTS"}}
}

func (b *natsBroker) read() (all []brokered) {
	b.must(b.with(func(js jetstream.JetStream) error {
		ctx := b.t.Context()
		c, err := js.OrderedConsumer(ctx, "EVENTS", jetstream.OrderedConsumerConfig{})
		if err != nil {
			return err
		}
		for {
			batch, err := c.Fetch(1000, jetstream.FetchMaxWait(2*time.Second))
			if err != nil {
				return err
			}
			n := 0
			for m := range batch.Messages() {
				got := brokered{key: strings.TrimPrefix(m.Subject(), "events."), body: m.Data(), headers: map[string]string{}}
				for name, values := range m.Headers() {
					got.headers[name] = values[0]
				}
				all = append(all, got)
				n++
			}
			if n == 0 {
				return batch.Error()
			}
		}
	}))
	return all
}

type rabbitBroker struct{ brokerProcess }

func newRabbitBroker(p brokerProcess) broker {
	b := &rabbitBroker{p}
	epmd, dist := portOf(p.t), portOf(p.t)
	node := "grapnel" + b.port() + "@localhost"
	b.must(os.WriteFile(filepath.Join(b.dir, "rabbitmq.conf"), fmt.Appendf(nil,
		"%s\ndefault_user = me\ndefault_pass = hush\n", b.setting("rabbitmq", "listeners.tcp.1 = "+b.address)), 0o600))
	b.must(os.WriteFile(filepath.Join(b.dir, "enabled_plugins"), []byte("[].\n"), 0o600))
	b.command = func() *exec.Cmd {
		cmd := exec.Command("/usr/lib/rabbitmq/bin/rabbitmq-server")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "RABBITMQ_NODENAME=" + node, "RABBITMQ_MNESIA_BASE=" + b.dir,
			"RABBITMQ_LOGS=-", "RABBITMQ_CONFIG_FILE=" + filepath.Join(b.dir, "rabbitmq"), "ERL_EPMD_PORT=" + epmd, "RABBITMQ_DIST_PORT=" + dist,
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(b.dir, "enabled_plugins"), "ERL_EPMD_ADDRESS=127.0.0.1", "LANG=C.UTF-8"}
		return cmd
	}
	p.t.Cleanup(func() { // the port mapper outlives the node that has started it
		cmd := exec.Command("epmd", "-port", epmd, "-kill")
		_ = cmd.Run()
	})
	b.ready = func(context.Context) error {
		return b.with(func(ch *amqp.Channel) error {
			if err := ch.ExchangeDeclare("events", "direct", true, false, false, false, nil); err != nil {
				return err
			}
			if _, err := ch.QueueDeclare("all", true, false, false, false, nil); err != nil {
				return err
			}
			return ch.QueueBind("all", "note.added", "events", false, nil)
		})
	}
	return b
}

func portOf(t *testing.T) string {
	_, port, err := net.SplitHostPort(unusedAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (b *rabbitBroker) with(do func(*amqp.Channel) error) error {
	conn, err := b.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(ch)
}

func (b *rabbitBroker) dedupes() bool { return false }

func (b *rabbitBroker) target() map[string]any {
	return map[string]any{"kind": "rabbitmq", "address": b.url("amqp", "amqps"), "name": "events", "username": "me", "password": "hush",
		"options": map[string]any{"routing_key": "{event.type}"}}
}

func (b *rabbitBroker) read() (all []brokered) {
	b.must(b.with(func(ch *amqp.Channel) error {
		for {
			m, some, err := ch.Get("all", true)
			if err != nil || !some {
				return err
			}
			got := brokered{body: m.Body, headers: map[string]string{}}
			for name, value := range m.Headers {
				got.headers[name] = fmt.Sprint(value)
			}
			all = append(all, got)
		}
	}))
	return all
}

type kafkaBroker struct{ brokerProcess }

func newKafkaBroker(p brokerProcess) broker {
	b := &kafkaBroker{p}
	jars, err := exec.Command("../tools/kafka.sh").Output()
	b.must(err)
	java := func(main string, args ...string) *exec.Cmd {
		return exec.Command("java", append([]string{"-Xmx512m", "-Xms256m", "-cp", strings.TrimSpace(string(jars)) + "/*", main}, args...)...)
	}
	config, controller := filepath.Join(b.dir, "server.properties"), portOf(p.t)
	b.must(os.WriteFile(config, fmt.Appendf(nil, `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%s
listeners=CONTROLLER://127.0.0.1:%s,%s
controller.listener.names=CONTROLLER
log.dirs=%s/data
offsets.topic.replication.factor=1
num.partitions=4
`, controller, controller, b.setting("kafka", "PLAINTEXT://"+b.address), b.dir), 0o600))
	format := java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", config)
	if text, err := format.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, text)
	}
	b.command = func() *exec.Cmd { return java("kafka.Kafka", config) }
	b.ready = func(ctx context.Context) error {
		return b.with(nil, func(cl *kgo.Client) error {
			ask := kmsg.NewPtrCreateTopicsRequest()
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "events", 4, 1
			ask.Topics = append(ask.Topics, topic)
			said, err := ask.RequestWith(ctx, cl)
			if err != nil {
				return err
			}
			if err = kerr.ErrorForCode(said.Topics[0].ErrorCode); errors.Is(err, kerr.TopicAlreadyExists) {
				return nil
			}
			return err
		})
	}
	return b
}

func (b *kafkaBroker) with(more []kgo.Opt, do func(*kgo.Client) error) error {
	cl, err := b.connect(append(more, kgo.RequestRetries(0))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return do(cl)
}

func (b *kafkaBroker) dedupes() bool { return false }

func (b *kafkaBroker) target() map[string]any {
	t := map[string]any{"kind": "kafka", "address": b.url("kafka", "kafka+ssl"), "name": "events"}
	if b.secure != nil {
		t["username"], t["password"] = "me", "hush"
	}
	return t
}

func (b *kafkaBroker) read() (all []brokered) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	b.must(b.with([]kgo.Opt{kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, func(cl *kgo.Client) error {
		for {
			within, cancel := context.WithTimeout(ctx, 3*time.Second) // longer than a fetch waits for records
			fetched := cl.PollFetches(within)
			cancel()
			if fetched.NumRecords() == 0 {
				return nil
			}
			fetched.EachRecord(func(r *kgo.Record) {
				got := brokered{key: string(r.Key), body: r.Value, headers: map[string]string{}}
				for _, h := range r.Headers {
					got.headers[h.Key] = string(h.Value)
				}
				all = append(all, got)
			})
		}
	}))
	return all
}
