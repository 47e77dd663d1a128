package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/sign"
)

// natsFake speaks as much of the protocol of a NATS server as a publisher to a stream needs.
type natsFake struct {
	net.Listener
	answer func(p natsPublish) string // to a publish; empty: none

	mu    sync.Mutex
	got   []natsPublish
	conns int // that are open
	made  int
}

type natsPublish struct {
	subject string
	header  http.Header // names as they were sent
	body    string
}

const natsPassword = "canary-of-a-broker"

func newNATSFake(t *testing.T, answer func(natsPublish) string) *natsFake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &natsFake{Listener: l, answer: answer}
	t.Cleanup(serveConns(l, f.serve))
	return f
}

func stored(natsPublish) string { return `{"stream":"S","seq":7}` }

func (f *natsFake) serve(c net.Conn) {
	f.count(1)
	defer f.count(-1)
	_, _ = fmt.Fprintf(c, "INFO {\"server_id\":\"x\",\"version\":\"2.10.0\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n")
	r, inbox := bufio.NewReader(c), ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch words := strings.Fields(line); words[0] {
		case "CONNECT":
			if !strings.Contains(line, natsPassword) {
				_, _ = fmt.Fprintf(c, "-ERR 'Authorization Violation'\r\n")
				return
			}
		case "PING":
			_, _ = fmt.Fprintf(c, "PONG\r\n")
		case "SUB":
			inbox = words[2]
		case "HPUB":
			head, _ := strconv.Atoi(words[3])
			size, _ := strconv.Atoi(words[4])
			b := make([]byte, size+2)
			if _, err := io.ReadFull(r, b); err != nil {
				return
			}
			p := natsPublish{subject: words[1], header: http.Header{}, body: string(b[head:size])}
			for _, text := range strings.Split(string(b[:head]), "\r\n")[1:] {
				if name, value, is := strings.Cut(text, ": "); is {
					p.header[name] = []string{value}
				}
			}
			f.mu.Lock()
			f.got = append(f.got, p)
			f.mu.Unlock()
			if said := f.answer(p); said != "" {
				_, _ = fmt.Fprintf(c, "MSG %s %s %d\r\n%s\r\n", words[2], inbox, len(said), said)
			}
		}
	}
}

func (f *natsFake) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns += n
	f.made += max(n, 0)
}

func (f *natsFake) counts() (open, made int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns, f.made
}

// toBroker is a delivery to the fake.
func (f *natsFake) delivery() Delivery {
	e := endpoint("nats://x")
	e.Policy.Timeout = policy.Duration(2 * time.Second)
	e.Headers = map[string]string{"X-Team": "a", "X-Event": "{event.id}"}
	e.Target = &grapnel.Target{Kind: "nats", Address: "nats://" + f.Addr().String(), Name: "events.{event.type}.{event.key}", Username: "me",
		Password: grapnel.Secret{Text: natsPassword}}
	return delivery(e)
}

// TestMessages: a message has the body and the headers of the request that a URL would get, the
// signature among them, and the attempt records where the broker put it.
func TestMessages(t *testing.T) {
	f := newNATSFake(t, stored)
	s := sender(t, Options{Allow: loopback()})
	d := f.delivery()
	r := send(s, d)
	if r.Outcome.Class != policy.ClassNone || r.Headers["stream"] != "S" || r.Headers["sequence"] != "7" || r.Phases.Reused || r.Peer.Address != "127.0.0.1" {
		t.Fatalf("the result is %+v", r)
	}
	got := f.got[0]
	if got.subject != "events.invoice.paid.inv_1" || got.body != string(envelope(d.Event)) {
		t.Errorf("%s got %s", got.subject, got.body)
	}
	h := http.Header{}
	for name, values := range got.header {
		h.Set(name, values[0])
	}
	v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{testSecret}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(h, []byte(got.body)); err != nil {
		t.Errorf("it does not verify: %v in %v", err, got.header)
	}
	for name, want := range map[string]string{"webhook-id": "evt_1", "content-type": "application/json", "x-team": "a", "x-event": "evt_1",
		"grapnel-delivery": "dlv_1", "Nats-Msg-Id": "evt_1"} {
		if is := got.header[name]; len(is) != 1 || is[0] != want {
			t.Errorf("%s is %q, want %q", name, is, want)
		}
	}
	if !slices.ContainsFunc(r.Sent, func(h grapnel.Header) bool { return h.Name == "X-Team" && h.Value == redacted }) {
		t.Errorf("the attempt keeps %v", r.Sent)
	}
	if again := send(s, d); !again.Phases.Reused {
		t.Errorf("the second attempt made a connection: %+v", again)
	}
}

// TestAnswersOfBrokers: each kind of failure has a class that receivers of requests have, and no
// text has the password.
func TestAnswersOfBrokers(t *testing.T) {
	answering := func(text string) func(*testing.T) Delivery {
		return func(t *testing.T) Delivery {
			return newNATSFake(t, func(natsPublish) string { return text }).delivery()
		}
	}
	for name, tc := range map[string]struct {
		to     func(*testing.T) Delivery
		class  policy.Class
		status int
	}{
		"a full stream":  {answering(`{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}`), policy.ClassStatus5xx, 503},
		"a wrong stream": {answering(`{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"}}`), policy.ClassStatus4xx, 400},
		"its own secret": {answering(`{"error":{"code":400,"err_code":1,"description":"` + natsPassword + `"}}`), policy.ClassStatus4xx, 400},
		"no answer":      {answering(""), policy.ClassTimeout, 0},
		"a wrong password": {func(t *testing.T) Delivery {
			d := newNATSFake(t, stored).delivery()
			d.Endpoint.Target.Password.Text = "wrong-password"
			return d
		}, policy.ClassStatus4xx, 401},
		"nobody listens": {func(t *testing.T) Delivery {
			f := newNATSFake(t, stored)
			_ = f.Close()
			return f.delivery()
		}, policy.ClassConnect, 0},
		"another protocol": {func(t *testing.T) Delivery {
			d := newNATSFake(t, stored).delivery()
			d.Endpoint.Target.Address = "nats://" + strings.TrimPrefix(server(t, ok).URL, "http://")
			return d
		}, "", 0},
		"a wildcard in the key": {func(t *testing.T) Delivery {
			d := newNATSFake(t, stored).delivery()
			d.Event.Key = "a.>"
			return d
		}, policy.ClassStatus4xx, 400},
		"an unknown kind": {func(t *testing.T) Delivery {
			d := newNATSFake(t, stored).delivery()
			d.Endpoint.Target.Kind = "pigeon"
			return d
		}, policy.ClassInternal, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := tc.to(t)
			d.Endpoint.Policy.Timeout = policy.Duration(300 * time.Millisecond)
			r := send(sender(t, Options{Allow: loopback()}), d)
			if tc.class != "" && r.Outcome.Class != tc.class || r.Outcome.Status != tc.status || r.Error == "" || r.Outcome.Class == policy.ClassNone {
				t.Errorf("the result is %s %d %q", r.Outcome.Class, r.Outcome.Status, r.Error)
			}
			if text := fmt.Sprintf("%+v", r); strings.Contains(text, natsPassword) || strings.Contains(text, "wrong-password") {
				t.Errorf("the result has the password: %s", text)
			}
		})
	}
}

// TestBrokersAreGuarded: a broker's address is checked as a receiver's is, whether it was written as
// an address or as a name, and again at the socket.
func TestBrokersAreGuarded(t *testing.T) {
	f := newNATSFake(t, stored)
	_, port, err := net.SplitHostPort(f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := sender(t, Options{Resolver: &answers{lists: [][]netip.Addr{answer("127.0.0.1")}}})
	for _, address := range []string{"nats://127.0.0.1:" + port, "nats://broker.example:" + port, "nats://broker.example:22"} {
		d := f.delivery()
		d.Endpoint.ID, d.Endpoint.Target.Address = address, address
		if r := send(s, d); r.Outcome.Class != policy.ClassBlocked {
			t.Errorf("%s: %+v", address, r)
		}
	}
	if _, made := f.counts(); made != 0 {
		t.Errorf("%d connections were made", made)
	}
	for _, rules := range []URLRules{{}, {Allow: loopback(), HTTPSOnly: true}} {
		if _, faults := CheckTarget(f.delivery().Endpoint.Target, rules); len(faults) != 1 || faults[0].Field != "address" {
			t.Errorf("by %+v the faults are %v", rules, faults)
		}
	}
	if _, faults := CheckTarget(f.delivery().Endpoint.Target, URLRules{Allow: loopback()}); len(faults) != 0 {
		t.Errorf("the faults are %v", faults)
	}
	// Rules that become stricter close the connection that they forbid.
	s = sender(t, Options{Allow: loopback()})
	send(s, f.delivery())
	s.Allow(nil, false)
	if r := send(s, f.delivery()); r.Outcome.Class != policy.ClassBlocked {
		t.Errorf("after the rules changed: %+v", r)
	}
	f.await(t, 0)
}

// await waits until so many connections are open.
func (f *natsFake) await(t *testing.T, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for {
		open, _ := f.counts()
		if open == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d connections are open, want %d", open, want)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestLinksAreFew: a tenant has a number of connections. A further endpoint takes the place of one
// that is idle; while none is, its attempt is postponed. Idle connections are closed, and so are
// those of an endpoint that has changed.
func TestLinksAreFew(t *testing.T) {
	release := make(chan struct{})
	f := newNATSFake(t, func(p natsPublish) string {
		if strings.HasSuffix(p.subject, ".slow") {
			<-release
		}
		return stored(p)
	})
	s := sender(t, Options{Allow: loopback(), Bounds: Bounds{BrokerTenant: 1, BrokerIdle: 50 * time.Millisecond}})
	to := func(id, key string) Delivery {
		d := f.delivery()
		d.Endpoint.ID, d.Event.Key = id, key
		return d
	}
	send(s, to("ep_1", "k"))
	if r := send(s, to("ep_2", "k")); r.Outcome.Class != policy.ClassNone || r.Phases.Reused {
		t.Errorf("the second endpoint: %+v", r)
	}
	done := make(chan Result)
	go func() { done <- send(s, to("ep_2", "slow")) }()
	for s.Stats().Written < 3 {
		time.Sleep(time.Millisecond)
	}
	if r := send(s, to("ep_1", "k")); !r.Deferred || r.Outcome.Class != policy.ClassInternal {
		t.Errorf("beside a connection in use: %+v", r)
	}
	close(release)
	if r := <-done; r.Outcome.Class != policy.ClassNone {
		t.Errorf("the slow one: %+v", r)
	}
	f.await(t, 0) // it was idle
	send(s, to("ep_1", "k"))
	changed := to("ep_1", "k")
	changed.Endpoint.Revision = 2
	if r := send(s, changed); r.Phases.Reused {
		t.Errorf("a changed endpoint has its old connection: %+v", r)
	}
	s.Close()
	f.await(t, 0)
	if n := s.Stats().Open; n != 0 {
		t.Errorf("%d connections are counted as open", n)
	}
}

// TestStoppingDoesNotWaitForABroker: a broker that does not answer keeps no server from stopping.
func TestStoppingDoesNotWaitForABroker(t *testing.T) {
	f := newNATSFake(t, func(natsPublish) string { return "" })
	s := sender(t, Options{Allow: loopback()})
	done := make(chan Result)
	go func() { done <- send(s, f.delivery()) }()
	for s.Stats().Written == 0 {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	s.Close()
	if r := <-done; r.Outcome.Class != policy.ClassInternal {
		t.Errorf("the result is %+v", r)
	}
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("closing took %v", took)
	}
}
