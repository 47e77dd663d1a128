package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// TestOnlyNodesAreHeard: a caller that has the secret, and no row with its certificate, is refused.
// So is a caller that shows no certificate. Both sides name the reason.
func TestOnlyNodesAreHeard(t *testing.T) {
	n := &node{heads: make(chan []store.Head, 10), queues: make(chan []string, 10)}
	d, logged := new(table), new(bytes.Buffer)
	one := serve(t, d.joins(t, "s", logged), Handler(n, Options{Secret: "s"}))
	d.put(one)
	stranger := d.joins(t, "s", io.Discard)
	for range 3 {
		if err := stranger.Order(t.Context(), one.Address, store.Order{Verb: store.Skip}); err == nil ||
			!strings.Contains(err.Error(), "refused this node's certificate") {
			t.Errorf("a stranger is told: %v", err)
		}
	}
	if text := logged.String(); strings.Count(text, "no node's row has its certificate") != 1 ||
		!strings.Contains(text, stranger.identity.Fingerprint) {
		t.Errorf("logged: %s", text)
	}
	bare := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{Protocol}}}}
	if resp, err := bare.Post("https://"+host(one.Address)+Path, "", nil); err == nil {
		t.Errorf("without a certificate: %s", resp.Status)
	}
	if n.order.Verb != "" || len(n.heads) != 0 {
		t.Error("a stranger was heard")
	}
	// A connection that is not one between nodes gets 404, with the secret too.
	open := httptest.NewTLSServer(Handler(n, Options{Secret: "s"}))
	defer open.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, open.URL+Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer s")
	if resp, err := open.Client().Do(req); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Error(resp, err)
	}
}

// TestAnImpostorLearnsNothing: at the address of a node another one answers, with a certificate of
// its own or that of a node elsewhere. No request reaches it.
func TestAnImpostorLearnsNothing(t *testing.T) {
	d := new(table)
	client, impostor := d.joins(t, "s", io.Discard), d.joins(t, "s", io.Discard)
	heard := false
	at := serve(t, impostor, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard = true }))
	me := store.Node{ID: "me", Fingerprint: client.identity.Fingerprint}
	for name, rows := range map[string][]store.Node{
		"no row":         {me},
		"another key":    {me, {ID: "one", Address: at.Address, Fingerprint: drawn(t).Fingerprint}},
		"of a node else": {me, {ID: "one", Address: "http://10.1.1.1:1", Fingerprint: at.Fingerprint}},
		"no fingerprint": {me, {ID: "one", Address: at.Address}},
	} {
		d.put(rows...)
		err := client.Order(t.Context(), at.Address, store.Order{Verb: store.Skip})
		if err == nil || !strings.Contains(err.Error(), "not that of the node there") || heard {
			t.Errorf("%s: %v, heard: %v", name, err, heard)
		}
	}
	d.err = errors.New("the database is away")
	if err := client.CatchUp(t.Context(), at.Address); err == nil || !strings.Contains(err.Error(), "the database is away") || heard {
		t.Error(err, heard)
	}
}

// TestANewKeyIsReadFromItsRow: a node that starts again has another key at the same address, and
// the first request to it, and from it, succeeds. The key from before is a stranger's as soon as
// the rows are read again.
func TestANewKeyIsReadFromItsRow(t *testing.T) {
	n := &node{}
	d := new(table)
	client, before := d.joins(t, "s", io.Discard), d.joins(t, "s", io.Discard)
	me := serve(t, client, Handler(n, Options{Secret: "s"}))
	one := serve(t, before, Handler(n, Options{Secret: "s"}))
	for range 3 {
		d.put(me, one)
		if err := client.CatchUp(t.Context(), one.Address); err != nil {
			t.Fatal(err)
		}
		again := d.joins(t, "s", io.Discard)
		one = serve(t, again, Handler(n, Options{Secret: "s"}))
		d.put(me, one)
		if err := errors.Join(client.CatchUp(t.Context(), one.Address), again.CatchUp(t.Context(), me.Address)); err != nil {
			t.Fatalf("with a new key: %v", err)
		}
	}
	client.pins.bounds.Stale = time.Nanosecond
	before.client.CloseIdleConnections()
	if err := before.CatchUp(t.Context(), me.Address); err == nil {
		t.Error("a node whose row was deleted is heard")
	}
}

// TestStrangersShareAFewReads: however many strangers come at once, the rows are read once in
// Bounds.Reread, and a node that started meanwhile is not kept out.
func TestStrangersShareAFewReads(t *testing.T) {
	d := new(table)
	r := d.joins(t, "s", io.Discard)
	r.pins.bounds.Reread = 100 * time.Millisecond
	one := serve(t, r, Handler(&node{}, Options{Secret: "s"}))
	d.put(one)
	began := time.Now()
	var coming sync.WaitGroup
	for range 20 {
		stranger := new(table).joins(t, "s", io.Discard)
		stranger.pins.nodes = func(ctx context.Context) ([]store.Node, error) { return []store.Node{one}, nil }
		coming.Go(func() { _ = stranger.CatchUp(t.Context(), one.Address) })
	}
	late := d.joins(t, "s", io.Discard)
	d.put(one, store.Node{ID: "late", Fingerprint: late.identity.Fingerprint})
	if err := late.CatchUp(t.Context(), one.Address); err != nil {
		t.Error(err)
	}
	coming.Wait()
	// one for each Reread, and those of late's own pins
	if most := int(time.Since(began)/r.pins.bounds.Reread) + 3; d.reads > most {
		t.Errorf("%d reads, want at most %d", d.reads, most)
	}
}
