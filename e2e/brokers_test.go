//go:build linux && prove

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/sign"
)

// Events of some keys are delivered to a real broker. The server is killed again and again, and the
// broker stops and starts. In the end the broker has every event, each key's in its order. An event
// is there twice only if a crash came between the broker's answer and the server's record of it:
// each crash repeats at most one event of each key.
func TestBrokersThroughKills(t *testing.T) {
	for _, kind := range []string{"redis", "nats", "rabbitmq", "kafka"} {
		t.Run(kind, func(t *testing.T) {
			beside(t, busy)
			events, keys, kills, pace := 2000, 20, 6, 5*time.Millisecond
			if soak() {
				events, kills, pace = 100_000, 100, 0
			}
			through(t, newBroker(t, kind), events, keys, kills, pace)
		})
	}
}

// fullBinary builds the program with the drivers of all brokers, once per test run.
var fullBinary = sync.OnceValues(func() (string, error) { return process.Build(scratch, "full") })

// broker is a real one that a test starts and stops.
type broker interface {
	start()
	stop(hard bool)
	target() map[string]any
	read() []brokered // all messages, in the order of each key
	dedupes() bool    // it drops a message whose id it has already received
}

// brokered is a message as a consumer gets it.
type brokered struct {
	key     string
	body    []byte
	headers map[string]string
}

func through(t *testing.T, b broker, events, keys, kills int, pace time.Duration) {
	dice := newDice(t)
	b.start()
	c := startFull(t)
	policy, _ := inline(5*time.Second, 1000, 100*time.Millisecond, 300*time.Millisecond)
	var made struct{ ID, Secret string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/endpoints", map[string]any{"target": b.target(), "policy": policy}, &made)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began := time.Now()
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() { c.publishInOrder(ctx, t, fmt.Sprint("k", k), events/keys, pace*time.Duration(keys)) })
	}
	published := make(chan struct{})
	go func() { all.Wait(); close(published) }()
	crashes := c.crash(ctx, b, dice, kills)
	<-published
	eventually(t, drained(), "all is delivered", func() bool {
		left := pages[row](c, "/v1/deliveries", url.Values{"status": {"pending"}}, 1)
		return len(left) == 0
	})
	took := time.Since(began)
	judgeBrokered(t, b, made.Secret, events, keys, crashes)
	if t.Failed() {
		for _, is := range c.some(url.Values{}, 1000) {
			t.Logf("%s is %s %s after %d attempts", is.EventID, is.Status, is.ReasonCode, is.Attempts)
		}
	}
	t.Logf("%d events, %d crashes, %v", events, crashes, took.Round(time.Millisecond))
}

// drained is how long the messages that are pending may take: 100,000 to moto take a quarter of an
// hour or more.
func drained() time.Duration {
	if soak() {
		return 2 * time.Hour
	}
	return 10 * time.Minute
}

// startFull starts the program that has the drivers of all brokers.
func startFull(t *testing.T) *child {
	path, err := fullBinary()
	if err != nil {
		t.Fatal(err)
	}
	c := newChild(t, program{path: path}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	return c
}

// crash kills the server again and again, and stops the broker every third time instead. It returns
// the number of crashes.
func (c *child) crash(ctx context.Context, b broker, dice *dice, kills int) (crashes int) {
	for n := 0; n < kills && !c.t.Failed(); n++ {
		pause(ctx, dice.between(200*time.Millisecond, 1500*time.Millisecond))
		if n%3 == 2 {
			b.stop(n%2 == 0)
			pause(ctx, dice.between(100*time.Millisecond, time.Second))
			b.start()
		} else {
			c.kill()
			c.start()
			c.ready(30 * time.Second)
		}
		crashes++
	}
	return crashes
}

// publishInOrder publishes the events of one key, one after the other, each until it is accepted.
func (c *child) publishInOrder(ctx context.Context, t *testing.T, key string, n int, pace time.Duration) {
	for i := 1; i <= n && ctx.Err() == nil; {
		result, refused := c.publish(ctx, newEvent{ID: fmt.Sprint(key, "-", i), Type: "note.added", Key: key, Data: fmt.Appendf(nil, `{"n":%d}`, i)})
		switch {
		case refused != "":
			t.Errorf("%s-%d was refused: %s", key, i, refused)
			return
		case result == history.OK:
			i++
			pause(ctx, pace)
		default:
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// judgeBrokered compares what the broker has with what was published.
func judgeBrokered(t *testing.T, b broker, secret string, events, keys, crashes int) {
	t.Helper()
	verify, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	last, twice, early := map[string]int{}, 0, 0
	got := b.read()
	for _, m := range got {
		id := m.headers["webhook-id"]
		key, text, _ := strings.Cut(id, "-")
		n, err := strconv.Atoi(text)
		var body struct {
			ID   string
			Data struct{ N int }
		}
		if err != nil || json.Unmarshal(m.body, &body) != nil || body.ID != id || body.Data.N != n || m.key != "" && m.key != key {
			t.Fatalf("the message %q of key %q has the body %s", id, m.key, m.body)
		}
		header := http.Header{}
		for name, value := range m.headers {
			header.Set(name, value)
		}
		at, err := strconv.ParseInt(m.headers["webhook-timestamp"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verify.VerifyAt(header, m.body, time.Unix(at, 0)); err != nil {
			t.Fatalf("%s does not verify: %v", id, err)
		}
		switch {
		case n == last[key]+1:
			last[key] = n
		case n == last[key]:
			twice++
		case n < last[key]:
			early++
			t.Errorf("%s came after %s-%d", id, key, last[key])
		default:
			t.Errorf("%s came where %s-%d was due", id, key, last[key]+1)
			last[key] = n
		}
	}
	for k := range keys {
		if key := fmt.Sprint("k", k); last[key] != events/keys {
			t.Errorf("of %s the broker has %d events of %d", key, last[key], events/keys)
		}
	}
	if most := crashes * keys; twice > most || b.dedupes() && twice > 0 {
		t.Errorf("%d events are there twice; %d crashes explain %d", twice, crashes, most)
	}
	t.Logf("%d messages: %d events, %d twice, %d out of order", len(got), len(got)-twice, twice, early)
}
