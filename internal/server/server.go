// Package server assembles the running server: the store, an engine that delivers from it, a runner
// of replays, egress, which sends, and the API in front. It is the only package that imports all of
// these, and it holds no delivery logic.
//
// It owns the life of the whole:
//
// Open takes the address, opens the store, and creates or finds the admin key. After an error only
// the data remain.
//
// Run serves and delivers until its context ends or an error occurs after which it must not go on,
// such as a store that cannot sync. Then it drains: it accepts no new connections and starts no new
// attempts, attempts in flight get the drain timeout, their outcomes are recorded, and the store is
// closed. Run returns when every goroutine it started has returned. Only after an error of a store
// that cannot be trusted it returns at once, because the process has to end. A database that went
// back is opened again while the server runs (lives.go).
//
// It does not promise that draining succeeds. Attempts cut off by the drain timeout, or by a kill,
// are repeated after the next start.
package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/plain"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/nodes/peer"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/internal/tell/alarm"
)

func newServer(o Options) *Server {
	s := &Server{options: o, log: o.Log, inside: newInside(), backups: newBackups(&o), probes: newProbes(o.Log), gate: api.NewGate(o.Bounds.API),
		published: newPublished(), rejected: newRejected(), promises: newPromises(o.Bounds.Promises, o.Log, "")}
	s.changed.Store(&s.options)
	return s
}

// Open prepares a server. It listens first: if the address is in use, the data are not touched,
// because another server may use them.
func Open(ctx context.Context, o Options) (_ *Server, err error) {
	o.Listen = cmp.Or(o.Listen, DefaultListen)
	o.Store = cmp.Or(o.Store, DefaultStore)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	o.MaxEvent = cmp.Or(o.MaxEvent, DefaultMaxEvent)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	// Twice the largest data has room for its base64 and the envelope.
	output := &o.Bounds.Egress.Transform.Output
	*output = max(*output, bounds.Fill(transform.Bounds{}).Output, 2*int(max(o.MaxEvent, o.MaxBody)))
	s := newServer(o)
	if s.issuer, err = o.People.provider(o.Bounds.OIDC); err != nil {
		return nil, err
	}
	place, err := ParseStore(o.Store)
	if err != nil {
		return nil, err
	}
	if place.url != "" && o.Backups.Dir != "" {
		return nil, grapnel.Errorf(grapnel.CodeInvalid, "--backup-dir: %s", elsewhere)
	}
	var opened cleanup
	defer func() {
		if err != nil {
			opened.run()
		}
	}()
	if err := s.secure(place); err != nil {
		return nil, err
	}
	if s.listener, err = listenAll(ctx, &o); err != nil {
		return nil, err
	}
	opened.add(s.listener.Close)
	// The node's name is new at each start and says nothing about the machine: receivers see it.
	s.node = grapnel.NewID("node", time.Now(), rand.Reader)
	if s.identity, err = peer.NewIdentity(); err != nil {
		return nil, fmt.Errorf("drawing the key of this node failed: %w", err)
	}
	s.sender = egress.New(egress.Options{Bounds: o.Bounds.Egress, Allow: o.EgressAllow, Proxy: o.EgressProxy, HTTPSOnly: o.HTTPSOnly,
		Node: s.node})
	opened.add(func() error { s.sender.Close(); return nil })
	o.Traces.Attributes = append(slices.Clip(o.Traces.Attributes), trace.Text("service.instance.id", s.node))
	s.traces = trace.New(trace.Options{Settings: o.Traces, Bounds: o.Bounds.Trace, Log: o.Log})
	if err = s.watch(ctx, place); err != nil {
		return nil, err
	}
	if s.life, err = s.openStarting(ctx, place, &opened); err != nil {
		s.unopened(ctx, err)
		return nil, err
	}
	if s.key, err = s.life.ensureAdminKey(ctx, o.AdminKey, o.Name); err != nil {
		return nil, err
	}
	s.compareSessionKey(ctx)
	if s.key.Other != "" {
		s.log.Warn("admin.key has another key than GRAPNEL_ADMIN_KEY; a start without the variable takes it", "file", s.key.Other)
	}
	if o.Dev == (Dev{}) && s.life.store.Sealer() == nil {
		s.log.Warn("secrets are in clear in the database and its backups", "remedy", "--master-key")
	}
	if at, ok := s.listener.Addr().(*net.TCPAddr); o.PublicURL == nil && len(o.Proxies) == 0 && ok && !at.IP.IsLoopback() {
		s.log.Warn("public URL unknown; no portal links, and no signing in with an issuer, except on this machine", "remedy", "--public-url")
	}
	s.keepPromises()
	s.lives = newLives(s)
	s.http = api.Server(s.entrance(s.lives), o.Bounds.API)
	s.http.ConnContext = throughDoor
	// mostly broken connections of callers
	s.http.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)
	// The other half of the descriptors is for deliveries, the stores and the listener.
	s.callers = api.Limit(s.listener, s.http, min(bounds.Fill(o.Bounds.API).Connections, descriptors()/2))
	s.plain = plain.New(s.http, api.Plain, o.Bounds.Plain)
	if s.life.peers != nil || s.certificates != nil {
		s.plain.Handshake = s.handshake
	}
	return s, nil
}

// AdminKey is the location of the admin key.
func (s *Server) AdminKey() KeyNotice { return s.key }

// Run serves until ctx ends, then drains. It returns nil if ctx ended it. A server runs once.
func (s *Server) Run(ctx context.Context, accepting func()) error {
	delivering, stopDelivering := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivering()
	delivered, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(delivered)
		exporting, stopExporting := context.WithCancel(context.WithoutCancel(ctx))
		var exports sync.WaitGroup
		exports.Go(func() { s.traces.Run(exporting) })
		s.lives.keep(delivering, failed)
		stopExporting() // last, since the attempts that drained have spans too
		exports.Wait()
	}()
	s.promises.start()
	defer s.promises.stop(false)
	stopRefreshing := s.refresh(ctx)
	defer stopRefreshing()
	served := make(chan error, 1)
	go func() { served <- s.plain.Serve(s.callers) }()
	joining, cancel := context.WithTimeout(ctx, joinTime)
	s.life.engine.Shards().Join(joining) // or the first requests would be refused
	cancel()
	unguard := s.guard(ctx)
	defer unguard()
	s.log.Info("accepting requests", "url", s.URL(), "version", grapnel.Version)
	accepting()

	var broken error
	select {
	case <-ctx.Done():
	case broken = <-failed:
		// Draining is useless: the store accepts nothing more, so the outcomes are lost with this
		// process and the attempts repeated by the next one. Ending at once keeps the API from
		// answering with stale data.
		broken = errors.Join(broken, s.plain.Close())
		unguard()
		if !s.options.Silent {
			s.alarms.Last(ctx, alarm.Trouble{Rule: alarm.StoreBroken,
				Text: "A write to the store failed in a way that leaves its state unknown, so the process ends. The next start goes on with everything that was acknowledged."})
		}
		return broken
	case broken = <-served:
		broken = fmt.Errorf("accepting requests failed: %w", broken)
	}
	return errors.Join(broken, s.drain(ctx, stopDelivering, stopRefreshing, delivered))
}

// refresh keeps the certificates new until it is stopped.
func (s *Server) refresh(ctx context.Context) (stop func()) {
	refreshing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var certificates sync.WaitGroup
	if s.certificates != nil {
		certificates.Go(func() { s.certificates.run(refreshing) })
	}
	return func() { cancel(); certificates.Wait() }
}

// joinTime is the longest wait at the start for the first read of the nodes that share the
// database. It takes milliseconds.
const joinTime = 5 * time.Second

// drain stops all parts in order.
func (s *Server) drain(ctx context.Context, stopDelivering, stopRefreshing func(), delivered <-chan struct{}) error {
	s.stopping.Store(true)
	s.log.Info("server draining; attempts in flight finish", "timeout", s.options.DrainTimeout.String())
	late := time.NewTimer(s.options.DrainTimeout + recordingTime)
	defer late.Stop()
	stopDelivering()
	if err := s.stopServing(ctx); err != nil {
		s.log.Warn("requests cut off", "err", err)
	}
	select {
	case <-delivered:
	case <-late.C:
		return errors.New("outcomes could not be recorded before the end; their deliveries will be attempted again")
	}
	s.sender.Close()
	s.promises.stop(true)
	stopRefreshing() // the order of a certificate that it gives up is still noted in the store
	if err := s.lives.now.Load().store.Close(); err != nil {
		return fmt.Errorf("the store did not close cleanly: %w", err)
	}
	return nil
}

// recordingTime is the longest time for recording the outcomes of the last attempts when the disk
// is slow or full.
const recordingTime = 5 * time.Second

// stopServing takes no new requests and lets those being answered finish.
func (s *Server) stopServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.DrainTimeout)
	defer cancel()
	err := s.inside.shut(ctx)
	if failed := s.plain.Shutdown(ctx); failed != nil {
		return errors.Join(err, failed, s.plain.Close())
	}
	return err
}
