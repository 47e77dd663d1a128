package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
)

// bubble is a server on a network in memory, in the bubble of a synctest.
type bubble struct {
	*Server
	t      *testing.T
	net    *pipenet.Network
	client *client.Client
	pages  *browser
	portal *browser
}

// inBubble runs a test with a server in a bubble. All its data are in a directory of the test.
func inBubble(t *testing.T, test func(b *bubble)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o := options(dir)
		o.AdminKey, o.Store = testKey, "sqlite:"+filepath.Join(dir, "grapnel.db")
		o.Retention, o.Log = DefaultRetention, slog.New(slog.DiscardHandler)
		o.PublicURL = &url.URL{Scheme: "http", Host: "grapnel"} // without it there are no links to the portal
		b := &bubble{Server: newServer(o), t: t, net: pipenet.New()}
		b.node, b.sender = "node_1", egress.New(egress.Options{Dial: b.net.Dial, Node: "node_1"})
		b.traces = trace.New(trace.Options{Log: b.log})
		place, err := ParseStore(o.Store)
		if err != nil {
			t.Fatal(err)
		}
		if b.life, err = b.openStarting(t.Context(), place, new(cleanup)); err != nil {
			t.Fatal(err)
		}
		if _, err = b.life.ensureAdminKey(t.Context(), testKey, ""); err != nil {
			t.Fatal(err)
		}
		b.keepPromises()
		b.lives = newLives(b.Server)
		b.net.Handle("grapnel", b.lives)
		running, stop := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() { b.life.run(running, false) })
		defer func() {
			stop()
			work.Wait()
			b.net.Close()
			b.sender.Close()
			if err := b.life.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		transport := &http.Transport{DialContext: b.net.Dial}
		defer transport.CloseIdleConnections()
		b.pages, b.portal = b.browser(transport), b.browser(transport)
		in := client.Options{Server: "http://grapnel", Key: testKey, HTTP: &http.Client{Transport: transport}}
		if b.client, err = client.New(in); err != nil {
			t.Fatal(err)
		}
		test(b)
	})
}

func (b *bubble) browser(transport http.RoundTripper) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return &browser{b.t, "http://grapnel", &http.Client{Jar: jar, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// must is the value of a call that does not fail.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// outage is a tenant whose endpoints fail for an hour: one is down, so its circuit opens; one
// answers 422, so its deliveries are retried for the 75 hours of its policy; the last
// does not retry such an answer.
type outage struct {
	*bubble
	down, rejects atomic.Int64 // status codes
	endpoints     map[string]string
	queue         string
	events        int
	tally         *rawTally
}

func newOutage(b *bubble) *outage {
	o := &outage{bubble: b, endpoints: map[string]string{}}
	answer := func(code func(*http.Request) int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code(r)) }
	}
	o.down.Store(200)
	o.rejects.Store(200)
	b.net.Handle("steady.example", answer(func(*http.Request) int { return 204 }))
	b.net.Handle("chat.example", answer(func(*http.Request) int { return 200 }))
	b.net.Handle("down.example", answer(func(*http.Request) int { return int(o.down.Load()) }))
	b.net.Handle("rejects.example", answer(func(*http.Request) int { return int(o.rejects.Load()) }))
	for name, host := range map[string]string{"steady": "steady", "down": "down", "rejects": "rejects", "picky": "rejects"} {
		in := client.NewEndpoint{URL: "http://" + host + ".example/" + name, Description: name, Tenant: "acme", EventTypes: []string{"order.*"}}
		if name == "picky" {
			in.Policy = json.RawMessage(`{"classify":{"422":"fail"}}`)
		}
		o.endpoints[name] = must(b.client.CreateEndpoint(b.t.Context(), in))(b.t).ID
	}
	q := must(b.client.CreateQueue(b.t.Context(), client.NewQueue{Name: "jobs", Tenant: "acme", EventTypes: []string{"order.made"}}))(b.t)
	o.queue = q.Name
	must(b.client.CreateChannel(b.t.Context(), client.NewChannel{URL: "generic+http://chat.example/", Tenant: "acme"}))(b.t)
	b.pages.signIn(testKey)
	o.tally = newRawTally(o)
	// What ends in the very instant between two minutes counts in one of the two (package minutes), so
	// nothing here does: events come 7 and 37 seconds after a full minute.
	time.Sleep(7 * time.Second) //nolint:forbidigo // the bubble's time
	return o
}

// openPortal has a browser open the portal of the tenant.
func (b *bubble) openPortal() {
	b.t.Helper()
	link := must(b.client.CreatePortalLink(b.t.Context(), "acme", client.NewPortalLink{Subject: "jane",
		Scopes: []grapnel.Scope{grapnel.ScopeRead}}))(b.t)
	_, code, _ := strings.Cut(link.URL, "#")
	if status, _, body := b.portal.ask("POST", "/portal/open", url.Values{"code": {code}}); status != 200 {
		b.t.Fatal(status, body)
	}
}

// pass publishes an event every 30 seconds for a time. A consumer acknowledges a message of each
// three, hands one back and forgets one.
func (o *outage) pass(d time.Duration) {
	o.t.Helper()
	for until := time.Now().Add(d); time.Now().Before(until); {
		e := client.NewEvent{Type: "order.made", Tenant: "acme", Data: []byte(fmt.Sprintf(`{"n":%d}`, o.events))}
		if o.events%3 == 0 {
			e.Type, e.Key = "order.paid", fmt.Sprint("key-", o.events%5)
		}
		must(o.client.Publish(o.t.Context(), e))(o.t)
		o.events++
		for i, m := range must(o.client.Next(o.t.Context(), o.queue, client.Take{Max: 3}))(o.t) {
			var err error
			switch (o.events + i) % 3 {
			case 0:
				err = o.client.Ack(o.t.Context(), m.Lease)
			case 1:
				err = o.client.Nack(o.t.Context(), m.Lease, "later", 0)
			}
			if err != nil {
				o.t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second) //nolint:forbidigo // the bubble's time
	}
	synctest.Wait()
}
