//go:build full

package egress

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// TestCloudsAreGuarded: the APIs of clouds are reached by the rules of the guard and the deadline, as
// all else is, and nothing counts as sent before there is a connection.
func TestCloudsAreGuarded(t *testing.T) {
	var conns atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveConns(l, func(c net.Conn) { // it reads, and says nothing
		conns.Add(1)
		b := make([]byte, 1<<10)
		for err := error(nil); err == nil; _, err = c.Read(b) {
		}
	}))
	for kind, is := range map[string]grapnel.Target{
		"sqs": {Name: "1/events"}, "sns": {Name: "arn:aws:sns:eu-west-1:1:events"}, "s3": {Name: "a/{event.id}"}, "pubsub": {Name: "projects/p/topics/t"},
	} {
		to := func(address string) Delivery {
			e := endpoint("http://x")
			e.ID, e.Policy.Timeout, e.Target = kind+address, policy.Duration(200*time.Millisecond), &is
			if is.Kind, is.Address = kind, "http://"+address; kind == "s3" {
				is.Address += "/bucket"
			}
			if kind != "pubsub" {
				is.Username, is.Password.Text = "AKID", "canary-of-a-cloud"
			}
			return delivery(e)
		}
		before := conns.Load()
		if r := send(sender(t, Options{}), to(l.Addr().String())); r.Outcome.Class != policy.ClassBlocked || conns.Load() != before {
			t.Errorf("%s at a private address: %+v", kind, r)
		}
		r := send(sender(t, Options{Allow: loopback()}), to(l.Addr().String()))
		if r.Outcome.Class != policy.ClassTimeout || strings.Contains(r.Error, "canary") || conns.Load() == before {
			t.Errorf("a silent %s: %+v", kind, r)
		}
		if r := send(sender(t, Options{Allow: loopback()}), to("127.0.0.1:1")); r.Outcome.Class != policy.ClassConnect || r.Sent != nil {
			t.Errorf("%s where nobody listens: %+v", kind, r)
		}
	}
}

// TestCloudSourcesAreGuarded: the same holds for sources. A consumer whose broker says nothing waits
// no longer than it was told, and leaves no link when it is closed.
func TestCloudSourcesAreGuarded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveConns(l, func(c net.Conn) {
		b := make([]byte, 1<<10)
		for err := error(nil); err == nil; _, err = c.Read(b) {
		}
	}))
	src := sourceAt("http://" + l.Addr().String())
	src.Broker.Kind, src.Broker.Name, src.Broker.Username = "sqs", "1/events", "AKID"
	strict := sender(t, Options{})
	if _, err := Consume(t.Context(), strict, src, "", 1, 1<<20); err == nil || len(strict.links.open) > 0 {
		t.Errorf("a private address: %v, %d links", err, len(strict.links.open))
	}
	open := sender(t, Options{Allow: loopback()})
	c, err := Consume(t.Context(), open, src, "", 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if all, err := c.Receive(t.Context(), 20*time.Millisecond); len(all) > 0 || err != nil {
		t.Errorf("%d messages: %v", len(all), err)
	}
	c.Close()
	if took := time.Since(began); took > 5*time.Second || len(open.links.open) > 0 {
		t.Errorf("it took %v and left %d links", took, len(open.links.open))
	}
}
