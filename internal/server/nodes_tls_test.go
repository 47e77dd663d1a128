//go:build prove

package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/nodes/peer"
	"github.com/grapnelhq/grapnel/internal/store"
)

// wiretap is a proxy in front of a node that records all bytes in both directions.
type wiretap struct {
	net.Listener
	to   atomic.Pointer[net.Addr] // nil: it refuses
	mu   sync.Mutex
	seen bytes.Buffer
}

func newWiretap(t *testing.T) *wiretap {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			to := w.to.Load()
			if to == nil {
				_ = in.Close()
				continue
			}
			out, err := new(net.Dialer).DialContext(t.Context(), "tcp", (*to).String())
			if err != nil {
				_ = in.Close()
				continue
			}
			copies := func(to, from net.Conn) {
				_, _ = io.Copy(io.MultiWriter(to, w), from)
				_, _ = to.Close(), from.Close()
			}
			all.Go(func() { copies(in, out) })
			all.Go(func() { copies(out, in) })
		}
	})
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = l.Close() })
	return w
}

func (w *wiretap) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Write(p)
}

// TestNodesProveThemselvesToEachOther: two nodes, each reached by the other through a proxy that
// records everything. Their requests arrive, and the proxy sees neither the secret nor a word of
// them. A stranger who knows the secret is refused at either. A node that starts again, with a new
// key, works with the other one at once.
func TestNodesProveThemselvesToEachOther(t *testing.T) {
	taps := []*wiretap{newWiretap(t), newWiretap(t)}
	logged := new(logLines)
	log := slog.New(slog.NewTextHandler(logged, nil))
	n := 0
	nodes, _ := members(t, 2, patient, func(o *Options) {
		o.Listen, o.Advertise, o.Log = "127.0.0.1:0", taps[n].Addr().String(), log
		n++
	})
	for i := range nodes {
		at := nodes[i].listener.Addr()
		taps[i].to.Store(&at)
	}
	poll(t, "two nodes divide the shards", func() bool { return settled(nodes[0].status(t), 2) })
	asks := func(nodes []member) {
		t.Helper()
		for _, m := range nodes { // a retry is an order to the node that owns the endpoint
			for range 4 {
				ep, err := m.CreateEndpoint(t.Context(), client.NewEndpoint{URL: "http://127.0.0.1:1/tapped-url", Description: "tapped-words"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := m.Publish(t.Context(), client.NewEvent{Type: "tapped-type", Data: []byte("{}")}); err != nil {
					t.Fatal(err)
				}
				if _, err := m.RetryAll(t.Context(), ep.ID, client.NewRetry{Reason: "tapped-reason"}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	asks(nodes)
	for i, w := range taps {
		w.mu.Lock()
		seen := w.seen.Bytes()
		if len(seen) < 1000 {
			t.Errorf("only %d bytes went through the proxy of node %d", len(seen), i)
		}
		secret, _, _ := strings.Cut(nodes[0].life.secret, "/")
		for _, clear := range []string{"tapped-", secret, "POST", "Bearer", nodes[0].node, nodes[1].node} {
			if bytes.Contains(seen, []byte(clear)) {
				t.Errorf("the proxy of node %d saw %q", i, clear)
			}
		}
		w.mu.Unlock()
	}

	stranger, err := peer.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	owner := nodes[0].life.store.(store.Ownership)
	attacker := peer.New(peer.Options{Secret: nodes[0].life.secret, Identity: stranger, Log: log,
		Nodes: func(ctx context.Context) ([]store.Node, error) { return owner.Nodes(ctx, time.Hour) }})
	for i, m := range nodes {
		err := attacker.CatchUp(t.Context(), "http://"+m.listener.Addr().String())
		if err == nil || !strings.Contains(err.Error(), "not that of the node there") { // the row has the proxy's address
			t.Errorf("at node %d: %v", i, err)
		}
		if err = attacker.CatchUp(t.Context(), "http://"+taps[i].Addr().String()); err == nil ||
			!strings.Contains(err.Error(), "refused this node's certificate") {
			t.Errorf("through the proxy of node %d: %v", i, err)
		}
		bare := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		if resp, err := bare.Get("https://" + m.listener.Addr().String() + "/livez"); err == nil {
			t.Errorf("a caller began TLS with a node that has no certificate for callers: %s", resp.Status)
		}
	}

	if err := nodes[1].stop(); err != nil {
		t.Fatal(err)
	}
	o := nodes[1].options
	o.Listen, o.Advertise = nodes[1].listener.Addr().String(), taps[1].Addr().String()
	again := start(t, o)
	back := member{again, again.client(t, testKey), nodes[1].proxy}
	poll(t, "the node that started again has its share", func() bool { return settled(nodes[0].status(t), 2) })
	before := logged.count("certificate")
	asks([]member{nodes[0], back})
	if n := logged.count("certificate") - before; n > 0 {
		t.Errorf("with a new key, %d lines of the log are about certificates", n)
	}
}
