//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// Measures leases over HTTP from the real binary with its database on disk: messages one by one
// (next, then ack), in batches (next with max, then settle), and how soon a waiting consumer is
// answered once an event is published. The consumers are this process; they do as little as they
// can, but they share the machine with the server.

// queueSettings are the flags of this part.
type queueSettings struct {
	settings
	consumers int
	batch     int
	size      int
	singles   int
	batched   int
	wakes     int
}

func queuesMain(ctx context.Context, args []string, out io.Writer) int {
	var s queueSettings
	flags := flag.NewFlagSet("bench queues", flag.ContinueOnError)
	flags.IntVar(&s.consumers, "consumers", 16, "consumers, one connection each")
	flags.IntVar(&s.batch, "batch", 100, "messages that are leased and settled together, in the second part")
	flags.IntVar(&s.size, "size", 200, "bytes of an event's data")
	flags.IntVar(&s.singles, "singles", 50_000, "messages of the first part")
	flags.IntVar(&s.batched, "batched", 200_000, "messages of the second part")
	flags.IntVar(&s.wakes, "wakes", 200, "events published to a waiting consumer")
	flags.StringVar(&s.dir, "dir", "", "where the database is put; empty: a new directory below the current one")
	flags.StringVar(&s.binary, "binary", "", "the grapnel binary; empty: it is built")
	if flags.Parse(args) != nil {
		return 2
	}
	if err := queues(ctx, s, out); err != nil {
		return failed(err)
	}
	return 0
}

func queues(ctx context.Context, s queueSettings, out io.Writer) (err error) {
	dir, _, remove, err := s.prepare("queues", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	g, err := startServer(ctx, s.settings, dir, nil)
	if err != nil {
		return err
	}
	defer g.Stop()
	c, err := dial(g.Addr)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.post("/v1/queues", `{"name":"bench","ordering":"none","lease":"10m"}`, 201); err != nil {
		return err
	}
	for _, part := range []struct {
		name      string
		messages  int
		max       int
		consumers int
	}{{"singles", s.singles, 1, s.consumers}, {"batches", s.batched, s.batch, s.consumers}} {
		if err := c.fill(part.messages, s.size); err != nil {
			return err
		}
		before, err := g.cpu()
		if err != nil {
			return err
		}
		n, took, err := drainQueue(g.Addr, part.consumers, part.max)
		if err != nil {
			return err
		}
		after, err := g.cpu()
		if err != nil {
			return err
		}
		if n != int64(part.messages) {
			return fmt.Errorf("%s: %d of %d messages came", part.name, n, part.messages)
		}
		fmt.Fprintf(out, "%s: %d consumers, %d at a time: %.0f messages/s leased and settled (%d in %.2f s; the server used %.2f processors)\n",
			part.name,
			part.consumers, part.max, float64(n)/took.Seconds(), n, took.Seconds(), (after-before).Seconds()/took.Seconds())
	}
	return wake(ctx, c, g.Addr, s.wakes, out)
}

// drainQueue leases and settles until the queue is empty, and returns the number of messages.
func drainQueue(addr string, consumers, most int) (messages int64, took time.Duration, err error) {
	var count atomic.Int64
	began := time.Now()
	err = each(consumers, consumers, func(int) error {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		defer c.close()
		return c.consume(most, &count)
	})
	return count.Load(), time.Since(began), err
}

// wake measures how soon a waiting consumer is answered.
func wake(ctx context.Context, c *caller, addr string, events int, out io.Writer) error {
	waiting, err := dial(addr)
	if err != nil {
		return err
	}
	defer waiting.close()
	var fromSent, fromAccepted []time.Duration
	for range events {
		answered := make(chan error, 1)
		var at time.Time
		go func() {
			err := waiting.ask("GET", "/v1/queues/bench/next?wait=30s&max=2", "")
			at = time.Now()
			answered <- err
		}()
		// The consumer should be waiting by then. If it is not, it is answered later and not
		// sooner, because its request has still to be read.
		if !backoff.Wait(ctx.Done(), 5*time.Millisecond) {
			return ctx.Err()
		}
		sent := time.Now()
		if err := c.post("/v1/events", `{"type":"bench.made","data":{"n":1}}`, 202); err != nil {
			return err
		}
		accepted := time.Now()
		if err := <-answered; err != nil {
			return err
		}
		if waiting.in.status() != 200 {
			return fmt.Errorf("a waiting consumer was answered %s", waiting.in.head)
		}
		fromSent, fromAccepted = append(fromSent, at.Sub(sent)), append(fromAccepted, max(at.Sub(accepted), 0))
		if err := waiting.settle(waiting.leases()); err != nil {
			return err
		}
	}
	slices.Sort(fromSent)
	slices.Sort(fromAccepted)
	fmt.Fprintf(out, "wake-up: from the publisher's request to the consumer's answer p50 %s, p99 %s, longest %s; from the publisher's answer p50 %s, p99 %s, longest %s\n",
		quantile(fromSent, .5), quantile(fromSent, .99), fromSent[len(fromSent)-1], quantile(fromAccepted, .5), quantile(fromAccepted,
			.99), fromAccepted[len(fromAccepted)-1])
	return nil
}

// caller is one connection.
type caller struct {
	net.Conn
	in  *message
	out []byte
}

func dial(addr string) (*caller, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &caller{Conn: conn, in: newMessage(conn)}, nil
}

func (c *caller) close() { _ = c.Close() }

// ask sends a request and reads its answer.
func (c *caller) ask(method, target, body string) error {
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nAccept: application/json\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, target, bearer, len(body), body)
	if _, err := c.Write(c.out); err != nil {
		return err
	}
	return c.in.read()
}

func (c *caller) post(target, body string, status int) error {
	if err := c.ask("POST", target, body); err != nil {
		return err
	}
	if got := c.in.status(); got != status {
		return fmt.Errorf("POST %s was answered %d: %s", target, got, c.in.body)
	}
	return nil
}

// fill publishes events, a thousand at a time.
func (c *caller) fill(events, size int) error {
	event := `{"type":"bench.made","data":{"pad":"` + strings.Repeat("x", max(size-10, 0)) + `"}}`
	for events > 0 {
		n := min(events, 1000)
		events -= n
		if err := c.post("/v1/events/batch", `{"events":[`+strings.Repeat(event+",", n-1)+event+`]}`, 202); err != nil {
			return err
		}
	}
	return nil
}

// consume leases and settles until the queue is empty.
func (c *caller) consume(most int, count *atomic.Int64) error {
	target := fmt.Sprint("/v1/queues/bench/next?max=", most)
	for {
		if err := c.ask("GET", target, ""); err != nil {
			return err
		}
		switch c.in.status() {
		case 204:
			return nil
		case 200:
		default:
			return fmt.Errorf("next was answered %s: %s", c.in.head, c.in.body)
		}
		leases := c.leases()
		if err := c.settle(leases); err != nil {
			return err
		}
		count.Add(int64(len(leases)))
	}
}

var leaseName = []byte(`"lease":"`)

// leases are those in the answer that was read last.
func (c *caller) leases() (all []string) {
	for rest := c.in.body; ; {
		_, after, found := bytes.Cut(rest, leaseName)
		if !found {
			return all
		}
		token, more, _ := bytes.Cut(after, []byte(`"`))
		all, rest = append(all, string(token)), more
	}
}

// settle acks leases: one by its own URL, several together.
func (c *caller) settle(leases []string) error {
	if len(leases) == 1 {
		return c.post("/v1/leases/"+leases[0]+"/ack", "", 204)
	}
	if err := c.post("/v1/leases/settle", `{"acks":["`+strings.Join(leases, `","`)+`"]}`, 200); err != nil {
		return err
	}
	if want := fmt.Sprintf(`"settled":%d,`, len(leases)); !bytes.Contains(c.in.body, []byte(want)) {
		return fmt.Errorf("settling %d leases was answered %s", len(leases), c.in.body)
	}
	return nil
}
