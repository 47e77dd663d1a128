//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// publisher publishes over connections of its own, in a closed loop or at a fixed rate.
type publisher struct {
	accepted atomic.Int64

	mu   sync.Mutex
	stop context.CancelFunc
	wait func() // for the end of all connections
	err  error
}

// order is the orchestrator's order to a publisher.
type order struct {
	Addr        string
	Bearer      string
	Path        string // of a source; empty: the API
	Secret      string // signs requests to the source
	Connections int
	Size        int
	Keys        int
	Batch       int           // events in one POST; up to 1: single events
	Rate        int           // of an open loop
	For         time.Duration // of an open loop
}

func newPublisher() verbs {
	p := &publisher{}
	return verbs{
		"closed":   taking(p.closed),
		"accepted": func(json.RawMessage) (any, error) { return p.accepted.Load(), nil },
		"stop": func(json.RawMessage) (any, error) {
			p.stop()
			p.wait()
			return p.accepted.Load(), p.err
		},
		"open": taking(p.open),
	}
}

// closed starts publishers that publish again as soon as they are answered, until stop.
func (p *publisher) closed(o order) (any, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	return nil, p.start(o, func(c *connection) error {
		for ctx.Err() == nil {
			if err := c.publish(time.Now()); err != nil {
				return err
			}
			p.accepted.Add(int64(max(1, o.Batch)))
		}
		return nil
	})
}

// start opens the connections and lets each do its work.
func (p *publisher) start(o order, work func(*connection) error) error {
	p.err = nil
	p.accepted.Store(0)
	var all sync.WaitGroup
	p.wait = all.Wait
	for n := range o.Connections {
		c, err := o.connect(uint64(n))
		if err != nil {
			return err
		}
		all.Go(func() {
			defer func() { _ = c.conn.Close() }()
			if err := work(c); err != nil {
				p.fail(err)
			}
		})
	}
	return nil
}

func (p *publisher) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// open publishes at a fixed rate and returns how many events were accepted. Each event carries the
// time at which it should have been sent: if no connection is free it waits, and that wait is part
// of its latency.
func (p *publisher) open(o order) (int64, error) {
	due := make(chan time.Time, o.Rate*int(1+o.For/time.Second))
	if err := p.start(o, func(c *connection) error {
		for at := range due {
			if err := c.publish(at); err != nil {
				return err
			}
			p.accepted.Add(1)
		}
		return nil
	}); err != nil {
		return 0, err
	}
	start, every := time.Now(), time.Second/time.Duration(o.Rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for at := start; at.Sub(start) < o.For; at = at.Add(every) {
		timer.Reset(time.Until(at))
		<-timer.C
		due <- at
	}
	close(due)
	p.wait()
	return p.accepted.Load(), p.err
}

// connection is one connection of a publisher.
type connection struct {
	conn  net.Conn
	reply *message
	order order
	rng   *rand.Rand
	body  []byte
	out   []byte
	pad   []byte

	signer *sign.Signer // nil: the API's key is sent
	run    uint64       // random; with sent it makes the ids of signed requests unique
	sent   int
}

func (o order) connect(n uint64) (*connection, error) {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return nil, err
	}
	c := &connection{conn: conn, reply: newMessage(conn), order: o, rng: rand.New(rand.NewPCG(n, uint64(time.Now().UnixNano()))),
		pad: make([]byte, 4*o.Size)}
	c.run = c.rng.Uint64()
	if o.Secret != "" {
		if c.signer, err = sign.NewSigner(o.Secret); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	for i := range c.pad { // 64 random letters: as hard to compress as data in JSON can be
		c.pad[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[c.rng.IntN(64)]
	}
	return c, nil
}

// publish sends one event, or a batch of events, and waits for the answer.
func (c *connection) publish(due time.Time) error {
	path := "/v1/events"
	if c.body = c.body[:0]; c.order.Batch > 1 {
		path = "/v1/events/batch"
		c.body = append(c.body, `{"events":[`...)
		for n := range c.order.Batch {
			if n > 0 {
				c.body = append(c.body, ',')
			}
			c.event(due)
		}
		c.body = append(c.body, `]}`...)
	} else {
		c.event(due)
	}
	if c.order.Path != "" {
		path = c.order.Path
	}
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path,
		c.order.Addr, len(c.body))
	if c.signer == nil {
		c.out = fmt.Appendf(c.out, "Authorization: Bearer %s\r\n", c.order.Bearer)
	} else {
		var err error
		if c.out, err = c.signed(c.out); err != nil {
			return err
		}
	}
	c.out = append(append(c.out, "\r\n"...), c.body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	if err := c.reply.read(); err != nil {
		return err
	}
	if status := c.reply.status(); status != http.StatusAccepted {
		return errors.New("publishing was answered " + string(c.reply.head) + " " + string(c.reply.body))
	}
	return nil
}

// event appends one event of the ordered size to the body.
func (c *connection) event(due time.Time) {
	begin := len(c.body)
	c.body = append(c.body, `{"type":"bench.tick",`...)
	if c.order.Keys > 0 {
		c.body = fmt.Appendf(c.body, `"key":"k%d",`, c.rng.IntN(c.order.Keys))
	}
	c.body = fmt.Appendf(c.body, `"data":{%s%d,"pad":"`, sentMark, due.UnixNano())
	const tail = `"}}`
	if room := c.order.Size - (len(c.body) - begin) - len(tail); room > 0 {
		at := c.rng.IntN(len(c.pad) - room)
		c.body = append(c.body, c.pad[at:at+room]...)
	}
	c.body = append(c.body, tail...)
}

// signed appends the headers of Standard Webhooks for the body to the request's head.
func (c *connection) signed(out []byte) ([]byte, error) {
	now := time.Now()
	c.sent++
	id := fmt.Sprintf("msg_%x_%d", c.run, c.sent)
	signature, err := c.signer.Sign(id, now, c.body)
	return fmt.Appendf(out, "Webhook-Id: %s\r\nWebhook-Timestamp: %d\r\nWebhook-Signature: %s\r\n", id, now.Unix(), signature), err
}
