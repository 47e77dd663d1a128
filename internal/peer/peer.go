// Package peer is how nodes that share a store talk to each other: hints about what was accepted here and is another's to deliver, orders
// of people about endpoints that another decides about, and questions that only their owner can answer.
//
// Nothing depends on a hint: who does not get it finds the same in the store a moment later. An order or a question that does not get
// through is answered with an error, and has changed nothing that the caller would not find out by asking again.
//
// Whoever can read the store is a node: the secret that requests carry is kept there. The bodies are gob, of nodes of the same version or
// of two that follow each other; a field that one of them does not know is left out.
package peer

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/gob"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Path is where a node answers the others.
const Path = "/peer"

// Engine is what a node does for another.
type Engine interface {
	// Hinted takes hints in.
	Hinted(heads []store.Head, queues []string)
	// Operate carries an order out if this node decides about its endpoint.
	Operate(ctx context.Context, o core.Operated) error
	// OwnHealths is how endpoints are doing of which this node knows; zero for others.
	OwnHealths(ids []string) []grapnel.Health
	// OwnOpen lists the endpoints of this node whose breaker is open.
	OwnOpen() []string
	// CatchUp returns once changes of the configuration that were made before it was called are taken in.
	CatchUp(ctx context.Context) error
	// OwnQuiet says whether this node knows that a tenant is not open any more, and has nothing of it under way.
	OwnQuiet(ctx context.Context, tenant string) (bool, error)
}

// asked is a request from one node to another: one of its parts.
type asked struct {
	Heads   []store.Head
	Queues  []string
	Order   *core.Operated
	Healths []string
	Open    bool
	CatchUp bool
	Quiet   string // a tenant
}

// told is the answer.
type told struct {
	Error   *grapnel.Error
	Healths []grapnel.Health
	Open    []string
	Quiet   bool
}

// Handler answers other nodes.
func Handler(e Engine, o Options) http.Handler {
	most := bounds.Fill(o.Bounds).Bytes
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+o.Secret)) != 1 {
			w.WriteHeader(http.StatusNotFound) // to others there is nothing here
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
		case q.CatchUp:
			a.Error = carried(e.CatchUp(r.Context()))
		case q.Quiet != "":
			var err error
			a.Quiet, err = e.OwnQuiet(r.Context(), q.Quiet)
			a.Error = carried(err)
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
	return grapnel.Errorf(grapnel.CodeUnavailable, "the node that has the endpoint could not do it now")
}

// Options are what a room of peers, and the handler of one, is made of.
type Options struct {
	Bounds Bounds // inside this room; zero: their defaults
	Secret string
	Log    *slog.Logger
}

// Room asks and tells other nodes.
type Room struct {
	secret string
	bounds Bounds
	client *http.Client
	log    *slog.Logger
	wake   chan struct{}

	mu      sync.Mutex
	waiting map[string]*asked // hints, by address
}

// New makes a room. Hints go out once it runs.
func New(o Options) *Room {
	return &Room{
		secret: o.Secret, bounds: bounds.Fill(o.Bounds), log: o.Log, wake: make(chan struct{}, 1), waiting: map[string]*asked{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true}},
	}
}

// Run sends hints until ctx ends. One round sends to all nodes at once, and the next begins when it is over: what comes meanwhile goes
// together.
func (r *Room) Run(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		round := r.waiting
		r.waiting = map[string]*asked{}
		r.mu.Unlock()
		var sending sync.WaitGroup
		for address, hints := range round {
			sending.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, r.bounds.Within)
				defer cancel()
				if _, err := r.ask(ctx, address, hints); err != nil && ctx.Err() == nil {
					r.log.Debug("a hint did not get through", "node", address, "error", err)
				}
			})
		}
		sending.Wait()
	}
}

// Hint tells a node of heads that are its to deliver, and of queues that may have something due. It does not wait.
func (r *Room) Hint(address string, heads []store.Head, queues []string) {
	r.mu.Lock()
	h := r.waiting[address]
	if h == nil {
		h = &asked{}
		r.waiting[address] = h
	}
	h.Heads = append(h.Heads, heads[:min(len(heads), r.bounds.Hints-len(h.Heads))]...)
	h.Queues = append(h.Queues, queues[:min(len(queues), r.bounds.Hints-len(h.Queues))]...)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Order has a node carry an order out.
func (r *Room) Order(ctx context.Context, address string, o core.Operated) error {
	_, err := r.ask(ctx, address, &asked{Order: &o})
	return err
}

// Healths asks a node how endpoints are doing.
func (r *Room) Healths(ctx context.Context, address string, ids []string) ([]grapnel.Health, error) {
	a, err := r.ask(ctx, address, &asked{Healths: ids})
	if err == nil && len(a.Healths) != len(ids) {
		err = errors.New("peer: a node has answered something else")
	}
	return a.Healths, err
}

// Open asks a node whose breakers are open.
func (r *Room) Open(ctx context.Context, address string) ([]string, error) {
	a, err := r.ask(ctx, address, &asked{Open: true})
	return a.Open, err
}

// CatchUp has a node take in what was changed of the configuration.
func (r *Room) CatchUp(ctx context.Context, address string) error {
	_, err := r.ask(ctx, address, &asked{CatchUp: true})
	return err
}

// Quiet asks a node whether nothing of a tenant is under way there. One that does not know the question has not heard of the answer.
func (r *Room) Quiet(ctx context.Context, address, tenant string) (bool, error) {
	a, err := r.ask(ctx, address, &asked{Quiet: tenant})
	return a.Quiet, err
}

// ask makes one request.
func (r *Room) ask(ctx context.Context, address string, q *asked) (a told, err error) {
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
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		return a, errors.New("peer: a node has answered " + resp.Status)
	}
	if err = gob.NewDecoder(io.LimitReader(resp.Body, r.bounds.Bytes)).Decode(&a); err != nil {
		return a, err
	}
	if a.Error != nil {
		return a, a.Error
	}
	return a, nil
}
