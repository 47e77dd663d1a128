// Package embed runs Grapnel inside a Go program: the program publishes events by a function call,
// in a transaction of its own if it likes, and serves the API, the dashboard and the portal below a
// path of its own server.
//
//	g, err := embed.Open(ctx, embed.Options{Store: "sqlite:/var/lib/shop/grapnel.db",
//		PublicURL: "https://shop.example/webhooks"})
//	…
//	defer g.Close()
//	http.Handle("/webhooks/", g.Handler())
//	id, err := g.Publish(ctx, embed.Event{Type: "order.paid", Key: order, Data: data})
//
// The store is that of a server: to move out later, stop the program, start "grapnel serve --store"
// with the same store, and call it with package client.
//
// Guarantees:
//
//   - An event is stored durably before Publish returns.
//   - PublishTx is part of the caller's transaction: if it commits, the event is delivered, also when
//     the process ends before anything of it has left; if it is rolled back, the event never existed.
//   - Close starts no attempts any more, lets those in flight end, and records their outcomes.
//   - Grapnel touches no signals, flags, default loggers or default metrics of the program.
//
// One process at a time uses an SQLite store. Any number of processes, embedded or servers, share one
// in PostgreSQL.
package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/server"
)

// Grapnel runs until Close.
type Grapnel struct {
	server *server.Server
	client *client.Client
	prefix string
	tx     func(ctx context.Context, tx Execer, e *Event) error // nil: there is no outbox
	stop   context.CancelFunc
	done   chan struct{}
	err    error // of Run, once done is closed
}

// Open opens the store and begins to deliver. After an error nothing runs.
func Open(ctx context.Context, o Options) (_ *Grapnel, err error) {
	so := server.Options{Store: o.Store, AdminKey: o.Key, SessionKey: o.SessionKey, EgressAllow: o.EgressAllow, Retention: o.Retention,
		DrainTimeout: o.DrainTimeout, Log: o.Log, Listen: server.Nowhere}
	if place, err := server.ParseStore(cmp.Or(o.Store, server.DefaultStore)); err != nil {
		return nil, err
	} else if place.Shared() {
		so.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	}
	g := &Grapnel{done: make(chan struct{})}
	if o.PublicURL != "" {
		if so.PublicURL, err = url.Parse(o.PublicURL); err != nil || so.PublicURL.Host == "" {
			return nil, grapnel.Errorf(grapnel.CodeInvalid, "PublicURL: %q is not a URL such as https://shop.example/webhooks", o.PublicURL)
		}
		g.prefix = strings.TrimRight(so.PublicURL.Path, "/")
	}
	if o.Outbox != "" {
		if g.tx, err = prepare(ctx, o.Outbox, &so); err != nil {
			return nil, err
		}
	}
	if g.server, err = server.Open(ctx, so); err != nil {
		return nil, err
	}
	accepting := make(chan struct{})
	var running context.Context
	running, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(g.done)
		g.err = g.server.Run(running, func() { close(accepting) })
	}()
	select {
	case <-accepting:
	case <-g.done:
		return nil, g.Close()
	}
	if err := g.connect(ctx, o); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// connect makes the client of the API in this process, and the source of the outbox.
func (g *Grapnel) connect(ctx context.Context, o Options) (err error) {
	key := o.Key
	if key == "" {
		path := g.server.AdminKey().Path
		if path == "" {
			return grapnel.Errorf(grapnel.CodeInvalid, "Key: the admin key of this store is not in a file beside it; give it")
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("the admin key cannot be read: %w", err)
		}
		key = strings.TrimSpace(string(text))
	}
	g.client, err = client.New(client.Options{Server: "http://localhost", Key: key, UserAgent: "grapnel-embed/" + grapnel.Version,
		HTTP: &http.Client{Transport: client.Local{Handler: g.server.Handler()}}})
	if err != nil || o.Outbox == "" || g.server.Relays(o.Outbox) { // a change would wait for the lease of a process that was killed
		return err
	}
	return ensureSource(ctx, g.client, o.Outbox)
}

// Publish stores an event durably and returns its id. The same id with the same content again
// changes nothing.
func (g *Grapnel) Publish(ctx context.Context, e Event) (id string, err error) {
	done, err := g.client.Publish(ctx, e)
	if err != nil {
		return "", err
	}
	return done.ID, nil
}

// PublishTx publishes an event in a transaction of the database that Options.Outbox names, with any
// driver of database/sql, or of pgx by PgxTx. It calls nothing but that database. The server adds
// the event to its store within half a second of the commit.
func (g *Grapnel) PublishTx(ctx context.Context, tx Execer, e Event) error {
	if g.tx == nil {
		return ErrNoOutbox
	}
	return g.tx(ctx, tx, &e)
}

// Handler answers the API, the dashboard and the portal below the path of Options.PublicURL. It is
// for a server with its own limits of headers, connections and time: see http.Server.
func (g *Grapnel) Handler() http.Handler {
	h := g.server.Handler()
	if g.prefix == "" {
		return h
	}
	return http.StripPrefix(g.prefix, h)
}

// Client calls the API in this process with the admin key: endpoints, policies, replays and all
// else that a server has.
func (g *Grapnel) Client() *client.Client { return g.client }

// Done is closed when nothing is delivered any more: after Close, or after an error of the store
// after which nothing may be written. Close returns that error.
func (g *Grapnel) Done() <-chan struct{} { return g.done }

// Close drains: it lets attempts in flight end, records their outcomes and closes the store. It may
// be called again.
func (g *Grapnel) Close() error {
	g.stop()
	<-g.done
	return g.err
}

// prepare creates the outbox in the program's database, and returns how events are put into it.
func prepare(ctx context.Context, dsn string, so *server.Options) (func(context.Context, Execer, *Event) error, error) {
	file, err := relay.Prepare(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("Outbox: %w", err)
	}
	if file != "" {
		so.OutboxFiles = []string{file}
	}
	return publisher(relay.KindOf(dsn)), nil
}
