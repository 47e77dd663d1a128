package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/plain"
	"github.com/grapnelhq/grapnel/internal/store"
)

// node is another node; it records the requests it gets.
type node struct {
	heads  chan []store.Head
	queues chan []string
	order  store.Order
	spent  string
	fails  error
}

func (n *node) Hinted(heads []store.Head, queues []string) { n.heads <- heads; n.queues <- queues }
func (n *node) Operate(_ context.Context, o store.Order) error {
	n.order = o
	return n.fails
}
func (n *node) OwnHealths(ids []string) (all []grapnel.Health) {
	for _, id := range ids {
		all = append(all, grapnel.Health{State: grapnel.HealthOpen, Reason: "of " + id, Since: at})
	}
	return all
}
func (n *node) OwnOpen() []string { return []string{"ep_1", "ep_2"} }
func (n *node) OwnConsumers(queue string) []grapnel.Consumer {
	return []grapnel.Consumer{{Name: "w1", SeenAt: time.Unix(1, 0)}, {Name: queue, SeenAt: time.Unix(2, 0)}}
}
func (n *node) CatchUp(context.Context) error { return n.fails }
func (n *node) Spend(tenant string, hosts []string, back bool) error {
	n.spent = fmt.Sprint(tenant, hosts, back)
	return n.fails
}

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// table has the rows of the nodes.
type table struct {
	mu    sync.Mutex
	rows  []store.Node
	reads int
	err   error
}

func (d *table) nodes(context.Context) ([]store.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	return slices.Clone(d.rows), d.err
}

func (d *table) put(rows ...store.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rows = rows
}

func drawn(t *testing.T) *Identity {
	t.Helper()
	is, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// joins makes the Client of a node that reads a table.
func (d *table) joins(t *testing.T, secret string, logged io.Writer) *Client {
	t.Helper()
	return New(Options{Secret: secret, Identity: drawn(t), Nodes: d.nodes, Log: slog.New(slog.NewTextHandler(logged, nil)),
		Bounds: Bounds{Reread: time.Millisecond}})
}

// serve serves a handler as the node of a Client does, and returns its row.
func serve(t *testing.T, r *Client, h http.Handler) store.Node {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := plain.New(&http.Server{Handler: h, ReadHeaderTimeout: time.Minute}, func(string) bool { return false }, plain.Bounds{})
	server.Handshake = func(ctx context.Context, c net.Conn) (*tls.Conn, error) {
		secure := tls.Server(c, r.Server())
		return secure, secure.HandshakeContext(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return store.Node{ID: "one", Address: "http://" + l.Addr().String(), Fingerprint: r.identity.Fingerprint}
}

func two(t *testing.T, secret string) (*node, *Client, string) {
	t.Helper()
	n := &node{heads: make(chan []store.Head, 10), queues: make(chan []string, 10)}
	d := new(table)
	one := serve(t, d.joins(t, "the secret", io.Discard), Handler(n, Options{Secret: "the secret"}))
	other := d.joins(t, secret, io.Discard)
	d.put(one, store.Node{ID: "other", Address: "http://other", Fingerprint: other.identity.Fingerprint})
	return n, other, one.Address
}

func TestWhatOneAsksTheOtherAnswers(t *testing.T) {
	n, r, url := two(t, "the secret")
	o := store.Order{Token: 7, Verb: store.Skip, Endpoint: "ep_1", Delivery: 12, Reason: "why not",
		Audit:  &grapnel.AuditEntry{At: at, Tenant: "acme", Actor: "key_1", Verb: grapnel.VerbSkip, Delivery: "dlv_12"},
		Answer: &store.Answered{Key: "key_1/a", Answer: store.Answer{Fingerprint: [32]byte{1}, Status: 200}, Expires: at, Now: at}}
	if err := r.Order(t.Context(), url, o); err != nil || !reflect.DeepEqual(n.order, o) {
		t.Errorf("the order arrived as %+v, %v", n.order, err)
	}
	if h, err := r.Healths(t.Context(), url, []string{"a", "b"}); err != nil || len(h) != 2 || h[1].Reason != "of b" || !h[1].Since.Equal(at) {
		t.Errorf("healths: %+v, %v", h, err)
	}
	if ids, err := r.Open(t.Context(), url); err != nil || len(ids) != 2 {
		t.Errorf("open: %v, %v", ids, err)
	}
	if list, err := r.Consumers(t.Context(), url, "que_1"); err != nil || !reflect.DeepEqual(list, n.OwnConsumers("que_1")) {
		t.Errorf("consumers: %v, %v", list, err)
	}
	if err := r.CatchUp(t.Context(), url); err != nil {
		t.Error(err)
	}
	if err := r.Spend(t.Context(), url, "acme", []string{"a.test", "b.test"}, true); err != nil || n.spent != "acme[a.test b.test] true" {
		t.Errorf("a challenge arrived as %s, %v", n.spent, err)
	}
	// An error's code and detail reach the caller; the wrapped error, which is for the log, does
	// not.
	n.fails = &grapnel.Error{Code: grapnel.CodeConflict, Detail: "it is over", Err: errors.New("row 12"), RetryAfter: time.Second}
	err := r.Order(t.Context(), url, o)
	var is *grapnel.Error
	if !errors.As(err, &is) || is.Code != grapnel.CodeConflict || is.Detail != "it is over" || is.Err != nil || is.RetryAfter != time.Second {
		t.Errorf("%#v", err)
	}
	n.fails = errors.New("a disk at 10.0.0.1")
	if err = r.CatchUp(t.Context(), url); grapnel.CodeOf(err) != grapnel.CodeUnavailable || strings.Contains(err.Error(), "10.0") {
		t.Errorf("%v", err)
	}
}

func TestHintsGoTogether(t *testing.T) {
	n, r, url := two(t, "the secret")
	for i := range 3 {
		r.Hint(url, []store.Head{{Delivery: int64(i), Endpoint: "ep", Lane: "k", Due: at, Trigger: grapnel.TriggerSchedule}}, []string{"q"})
	}
	r.Hint("http://127.0.0.1:1", []store.Head{{Delivery: 9}}, nil) // no node listens there, and Hint does not fail
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	heads, queues := <-n.heads, <-n.queues
	if len(heads) != 3 || heads[2].Delivery != 2 || !heads[2].Due.Equal(at) || len(queues) != 3 {
		t.Errorf("%+v and %v arrived", heads, queues)
	}
	stop()
	<-done
}

// TestTooManyHints sends more hints at once than the bound, in one call and in several: the first
// of them arrive.
func TestTooManyHints(t *testing.T) {
	n, r, url := two(t, "the secret")
	r.bounds.Hints = 3
	r.Hint(url, []store.Head{{Delivery: 1}, {Delivery: 2}}, nil)
	r.Hint(url, []store.Head{{Delivery: 3}, {Delivery: 4}}, []string{"a", "b", "c", "d"})
	r.Hint(url, []store.Head{{Delivery: 5}}, []string{"e"})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	if heads, queues := <-n.heads, <-n.queues; len(heads) != 3 || heads[2].Delivery != 3 || !slices.Equal(queues, []string{"a", "b", "c"}) {
		t.Errorf("%+v and %v arrived", heads, queues)
	}
	stop()
	<-done
}

// TestANodeThatStandsStillDelaysNoHints: hints to one node do not wait for the answer of another.
func TestANodeThatStandsStillDelaysNoHints(t *testing.T) {
	n, r, url := two(t, "the secret")
	began, release := make(chan struct{}), make(chan struct{})
	d := new(table)
	still := serve(t, d.joins(t, "", io.Discard), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(began); <-release }))
	defer close(release)
	rows, _ := r.pins.nodes(t.Context())
	d.put(append(rows, still)...)
	r.pins.nodes, r.bounds.Within = d.nodes, time.Minute
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.Hint(still.Address, []store.Head{{Delivery: 1}}, nil)
	<-began
	r.Hint(still.Address, []store.Head{{Delivery: 2}}, nil) // it waits for the answer to the first
	for i := range int64(3) {
		r.Hint(url, []store.Head{{Delivery: i}}, nil)
		select {
		case heads := <-n.heads:
			if len(heads) != 1 || heads[0].Delivery != i {
				t.Errorf("%+v arrived", heads)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a hint waits for a node that stands still")
		}
	}
	stop()
	<-done
}

// TestStrangers: a request without the secret gets 404, and an invalid request changes nothing.
func TestStrangers(t *testing.T) {
	n, r, url := two(t, "another secret")
	if err := r.Order(t.Context(), url, store.Order{Verb: store.Skip}); err == nil || n.order.Verb != "" {
		t.Errorf("a stranger's order: %v", err)
	}
	for _, authorization := range []string{"", "Bearer ", "Bearer the secret"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+Path, strings.NewReader("no gob"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", authorization)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		want := http.StatusNotFound
		if authorization == "Bearer the secret" {
			want = http.StatusBadRequest
		}
		if resp.StatusCode != want {
			t.Errorf("%q: %s", authorization, resp.Status)
		}
	}
	if len(n.heads) != 0 {
		t.Error("a hint came out of nothing")
	}
}
