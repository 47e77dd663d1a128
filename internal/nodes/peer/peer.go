// Package peer is the protocol between nodes that share a store: hints about heads that another
// node has to deliver, operators' orders about endpoints that another node owns, and questions that
// only the owner, or the leading node, can answer.
//
// Nothing depends on a hint: a node that does not get it finds the same heads in the store a moment
// later. An order or a question that does not get through is answered with an error; asking again
// shows whether the order took effect.
//
// Connections are TLS in which each side compares the other's certificate with the rows of the
// nodes (identity.go): every program that can write a row is a node, and nothing needs to be
// configured. Requests carry a secret too, which keeps nodes apart that see different databases
// after a failover. The bodies are gob, between nodes of the same version or of two consecutive
// ones; a field that one of them does not have is left out.
package peer

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Path is where a node answers the others.
const Path = "/peer"

// Engine carries out other nodes' requests.
type Engine interface {
	// Hinted takes hints in.
	Hinted(heads []store.Head, queues []string)
	// Operate carries an order out if this node decides about its endpoint.
	Operate(ctx context.Context, o store.Order) error
	// OwnHealths is how endpoints are doing of which this node knows; zero for others.
	OwnHealths(ids []string) []grapnel.Health
	// OwnOpen lists the endpoints of this node whose circuit is open.
	OwnOpen() []string
	// OwnConsumers lists the consumers that have asked a queue at this node lately.
	OwnConsumers(queue string) []grapnel.Consumer
	// CatchUp returns once every change of the configuration made before the call has been read.
	CatchUp(ctx context.Context) error
	// Spend counts a challenge for consent if this node leads; back: it was not sent.
	Spend(tenant string, hosts []string, back bool) error
}

// asked is a request from one node to another: one of its parts.
type asked struct {
	Heads   []store.Head
	Queues  []string
	Order   *store.Order
	Healths []string
	Open    bool
	CatchUp bool
	Asking  string // a queue
	Spend   *spend
}

// spend is a challenge for consent. A node of a version that does not know it counts none.
type spend struct {
	Tenant string
	Hosts  []string
	Back   bool
}

// told is the answer.
type told struct {
	Error   *grapnel.Error
	Healths []grapnel.Health
	Open    []string
	Asking  []grapnel.Consumer
}

// Handler answers other nodes.
func Handler(e Engine, o Options) http.Handler {
	most := bounds.Fill(o.Bounds).Bytes
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.TLS == nil || r.TLS.NegotiatedProtocol != Protocol || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+o.Secret)) != 1 {
			w.WriteHeader(http.StatusNotFound) // a caller that is no node gets 404
			return
		}
		var q asked
		if err := gob.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&q); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var a told
		switch {
		case q.Order != nil:
			a.Error = carried(e.Operate(r.Context(), *q.Order))
		case q.Healths != nil:
			a.Healths = e.OwnHealths(q.Healths)
		case q.Open:
			a.Open = e.OwnOpen()
		case q.Asking != "":
			a.Asking = e.OwnConsumers(q.Asking)
		case q.Spend != nil:
			a.Error = carried(e.Spend(q.Spend.Tenant, q.Spend.Hosts, q.Spend.Back))
		case q.CatchUp:
			a.Error = carried(e.CatchUp(r.Context()))
		default:
			e.Hinted(q.Heads, q.Queues)
		}
		_ = gob.NewEncoder(w).Encode(&a)
	})
}

// carried is an error as it goes from one node to another.
func carried(err error) *grapnel.Error {
	var is *grapnel.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &is):
		return &grapnel.Error{Code: is.Code, Detail: is.Detail, Fields: is.Fields, RetryAfter: is.RetryAfter}
	}
	return grapnel.Errorf(grapnel.CodeUnavailable, "the endpoint's node could not carry out the request: retry")
}

// Options configure a Client and its Handler.
type Options struct {
	Bounds   Bounds // inside this package; zero: their defaults
	Secret   string
	Identity *Identity                                   // of this process; the Handler needs none
	Nodes    func(context.Context) ([]store.Node, error) // reads the rows of all nodes
	Log      *slog.Logger
}

// Client sends questions and hints to other nodes.
type Client struct {
	secret   string
	identity *Identity
	pins     *pins
	bounds   Bounds
	client   *http.Client
	log      *slog.Logger
	wake     chan struct{}

	mu      sync.Mutex
	waiting map[string]*asked // hints, by address
	sending map[string]bool   // addresses to which hints are on their way
}

// New makes a Client. It sends hints once it runs.
func New(o Options) *Client {
	r := &Client{
		secret: o.Secret, identity: o.Identity, bounds: bounds.Fill(o.Bounds), log: o.Log, wake: make(chan struct{}, 1),
		waiting: map[string]*asked{}, sending: map[string]bool{},
	}
	r.pins = &pins{nodes: o.Nodes, bounds: r.bounds, log: o.Log}
	// The scheme of a node's address says how callers reach it; nodes reach it by dial in any case.
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true,
		DialContext: r.dial, DialTLSContext: r.dial}}
	return r
}

// Server is how this node answers a connection that begins with Protocol.
func (r *Client) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, Certificates: []tls.Certificate{r.identity.certificate},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true, // each connection is checked
		VerifyConnection: func(shown tls.ConnectionState) error { return r.pins.check("", shown) },
	}
}

// dial connects to the node at an address. It sends nothing before the other side has proved that
// it is the node of a row with that address.
func (r *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, Certificates: []tls.Certificate{r.identity.certificate},
		InsecureSkipVerify: true, //nolint:gosec // no authority knows the certificate; VerifyConnection compares it
		VerifyConnection:   func(shown tls.ConnectionState) error { return r.pins.check(address, shown) },
	}}
	return dialer.DialContext(ctx, network, address)
}

// Run sends hints until ctx ends, one request at a time to each node: hints to a node that come
// meanwhile go together, and a node that does not answer delays no other's.
func (r *Client) Run(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		for address, hints := range r.waiting {
			if !r.sending[address] {
				delete(r.waiting, address)
				r.sending[address] = true
				sending.Go(func() { r.send(ctx, address, hints) })
			}
		}
		r.mu.Unlock()
	}
}

// send sends hints to one node. Those that came meanwhile go next.
func (r *Client) send(ctx context.Context, address string, hints *asked) {
	within, cancel := context.WithTimeout(ctx, r.bounds.Within)
	defer cancel()
	if _, err := r.ask(within, address, hints); err != nil && within.Err() == nil {
		r.log.Debug("sending hints failed", "node", address, "err", err)
	}
	r.mu.Lock()
	delete(r.sending, address)
	r.mu.Unlock()
	r.wakeRun()
}

// wakeRun has Run look at the hints that wait.
func (r *Client) wakeRun() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Hint queues heads that a node has to deliver, and queues that may have a due delivery. It never
// blocks.
func (r *Client) Hint(address string, heads []store.Head, queues []string) {
	r.mu.Lock()
	h := r.waiting[address]
	if h == nil {
		h = &asked{}
		r.waiting[address] = h
	}
	h.Heads = append(h.Heads, heads[:min(len(heads), r.bounds.Hints-len(h.Heads))]...)
	h.Queues = append(h.Queues, queues[:min(len(queues), r.bounds.Hints-len(h.Queues))]...)
	r.mu.Unlock()
	r.wakeRun()
}

// Order has a node carry an order out.
func (r *Client) Order(ctx context.Context, address string, o store.Order) error {
	_, err := r.ask(ctx, address, &asked{Order: &o})
	return err
}

// Healths asks a node how endpoints are doing.
func (r *Client) Healths(ctx context.Context, address string, ids []string) ([]grapnel.Health, error) {
	a, err := r.ask(ctx, address, &asked{Healths: ids})
	if err == nil && len(a.Healths) != len(ids) {
		err = errors.New("peer: unexpected answer of a node")
	}
	return a.Healths, err
}

// Open asks a node for its endpoints with an open circuit.
func (r *Client) Open(ctx context.Context, address string) ([]string, error) {
	a, err := r.ask(ctx, address, &asked{Open: true})
	return a.Open, err
}

// Consumers asks a node for the consumers that have asked a queue there.
func (r *Client) Consumers(ctx context.Context, address, queue string) ([]grapnel.Consumer, error) {
	a, err := r.ask(ctx, address, &asked{Asking: queue})
	return a.Asking, err
}

// CatchUp has a node read the latest configuration.
func (r *Client) CatchUp(ctx context.Context, address string) error {
	_, err := r.ask(ctx, address, &asked{CatchUp: true})
	return err
}

// Spend has a node count a challenge for consent.
func (r *Client) Spend(ctx context.Context, address, tenant string, hosts []string, back bool) error {
	_, err := r.ask(ctx, address, &asked{Spend: &spend{Tenant: tenant, Hosts: hosts, Back: back}})
	return err
}

// ask makes one request.
func (r *Client) ask(ctx context.Context, address string, q *asked) (a told, err error) {
	var body bytes.Buffer
	if err = gob.NewEncoder(&body).Encode(q); err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+Path, &body)
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer "+r.secret)
	resp, err := r.client.Do(req)
	// The other side's alert. With TLS 1.3 it comes after this side's handshake has ended.
	if op, is := errors.AsType[*net.OpError](err); is && op.Op == "remote error" {
		return a, fmt.Errorf("peer: the node refused this node's certificate; its log says why: %w", err)
	} else if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		return a, errors.New("peer: a node answered " + resp.Status)
	}
	if err = gob.NewDecoder(io.LimitReader(resp.Body, r.bounds.Bytes)).Decode(&a); err != nil {
		return a, err
	}
	if a.Error != nil {
		return a, a.Error
	}
	return a, nil
}
