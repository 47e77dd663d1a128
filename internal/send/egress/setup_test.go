package egress

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/policy"
)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func endpoint(url string) *grapnel.Endpoint {
	return &grapnel.Endpoint{
		ID: "ep_1", Tenant: "acme", URL: url, MaxConcurrency: 32, Format: grapnel.FormatStandard, Revision: 1,
		Policy:  policy.Policy{Timeout: policy.Duration(10 * time.Second)},
		Secrets: []grapnel.Secret{{Text: testSecret}},
	}
}

func event(data string) *grapnel.Event {
	return &grapnel.Event{
		Seq: 1, ID: "evt_1", Tenant: "acme", Type: "invoice.paid", Key: "inv_1", Data: []byte(data), ContentType: grapnel.JSONType,
		OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC),
	}
}

func delivery(e *grapnel.Endpoint) Delivery {
	return Delivery{Endpoint: e, Event: event(`{"amount":1}`), ID: "dlv_1", Position: 17, Number: 3, Trigger: grapnel.TriggerSchedule}
}

// sender makes a sender. It is closed, with its connections, before the test ends.
func sender(t testing.TB, o Options) *Sender {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	return s
}

// server is a receiver on a real socket of this machine.
func server(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// serveOn is server on a listener of the test's choice.
func serveOn(t testing.TB, l net.Listener, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// httptestTLS is a receiver with an untrusted certificate. It returns its URL.
func httptestTLS(t testing.TB) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(ok))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// closing answers and ends the connection.
func closing(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// piped makes a sender on a network in memory; for use inside a synctest bubble.
func piped(t testing.TB, n *pipenet.Network, o Options) *Sender {
	t.Helper()
	o.Dial = n.Dial
	return New(o)
}

// peer serves connections of a host with a function for each; stop waits for them.
func peer(n *pipenet.Network, host string, serve func(net.Conn)) (stop func()) {
	return serveConns(n.Listen(host), serve)
}

func serveConns(l net.Listener, serve func(net.Conn)) (stop func()) {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	return func() {
		_ = l.Close()
		running.Wait()
	}
}

func send(s *Sender, d Delivery) Result { return s.Send(context.Background(), d) }
