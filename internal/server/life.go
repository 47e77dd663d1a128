package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/face/web"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/send/consent"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/send/erase"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/internal/tell/contacts"
	"github.com/grapnelhq/grapnel/internal/tell/lastuse"
	"github.com/grapnelhq/grapnel/internal/tell/minutes"
	"github.com/grapnelhq/grapnel/wire"
)

func newLife(place Place, seen *postgres.History) *life {
	l := &life{place: place, seen: seen}
	l.alive, l.end = context.WithCancel(context.Background())
	return l
}

// Number of attempts, and the pause between them, to open a database that is unreachable or slow: a
// database that starts together with the server takes seconds.
const (
	startTries = 5
	startPause = time.Second
)

// openStarting opens a life as soon as its database can be used. Steps to undo if the server does
// not start are added to opened.
func (s *Server) openStarting(ctx context.Context, place Place, opened *cleanup) (*life, error) {
	seen := new(postgres.History)
	for tries := 1; ; tries++ {
		var undo cleanup
		l := newLife(place, seen)
		err := l.open(ctx, s, &undo)
		if err == nil {
			opened.add(func() error { undo.run(); return nil })
			return l, nil
		}
		undo.run()
		if grapnel.CodeOf(err) != grapnel.CodeUnavailable || tries == startTries || ctx.Err() != nil {
			return nil, err
		}
		s.log.Warn("database not usable yet; retrying", "err", err)
		if !backoff.Wait(ctx.Done(), startPause) {
			return nil, err
		}
	}
}

// open opens the store and the parts that run on it. Steps to undo if the server does not start are
// added to opened.
func (l *life) open(ctx context.Context, s *Server, opened *cleanup) (err error) {
	o := s.changed.Load()
	if l.store, l.numbers, err = openStore(ctx, l.place, l.seen, o); err != nil {
		return err
	}
	opened.add(l.store.Close)
	if db, is := l.store.(*sqlite.Store); is && o.Backups.Dir != "" {
		l.backups = s.backups
		l.backups.copy, l.backups.size = db.Backup, l.place.fileSize
	}
	if s.session == nil { // now that the database can be used
		if err := s.readSessionKey(l.place); err != nil {
			return err
		}
	}
	cluster, err := l.join(ctx, s)
	if err != nil {
		return err
	}
	l.engine, err = engine.New(ctx, engine.Options{
		Bounds: o.Bounds.Engine,
		Store:  l.store,
		Sender: s.sender,
		Log:    o.Log,
		Core: core.Options{
			Bounds:  o.Bounds.Core,
			Slots:   o.MaxInFlight,
			PerHost: o.MaxPerHost,
		},
		DrainTimeout: o.DrainTimeout,
		Limits:       o.limits(),
		Disk:         l.place.disk(),
		Keep:         engine.Retention{For: o.Retention, Rules: o.Rules},
		Cluster:      cluster,
		Traces:       s.traces,
		Ready:        func(id string) { l.queues.Ready(id) },
		Consumers:    func(id string) []grapnel.Consumer { return l.queues.Seen(id) },
		ForgetKey:    l.store.Sealer().Recheck,
		Replayed:     func(endpoint string) { l.replays.Ended(endpoint) },
		Delivered:    func(tenant, eventType string, event int64) { l.erasures.Delivered(tenant, eventType, event) },
		ContactLink:  func(to *grapnel.Endpoint, message *grapnel.Event) string { return l.contacts.Link(to, message) },
		Promised:     s.promises.count,
		Silent:       o.Silent,
	})
	if err != nil {
		return fmt.Errorf("the engine cannot start: %w", err)
	}
	l.backlog = newBacklog(o.Bounds, l.store, l.engine.Held, func() map[string]string { return l.queues.Labels() },
		l.place.size(l.store), time.Now, o.Log)
	l.queues = queue.New(queue.Options{Bounds: o.Bounds.Queue, Engine: l.engine, Store: l.store, Traces: s.traces, Log: o.Log,
		Elsewhere: l.engine.Consumers})
	l.ingress = ingress.New(
		ingress.Options{
			Bounds:  o.Bounds.Ingress,
			Engine:  l.engine,
			Store:   l.store,
			Problem: api.Refuse(o.PublicURL, s.proxies),
			Refused: s.rejected.count,
			Origin:  api.Origin(o.PublicURL, s.proxies),
			MaxBody: o.MaxBody,
			Log:     o.Log,

			Promised: s.promises.of(promise.Receive),
		},
	)
	l.replays = replay.New(replay.Options{Bounds: o.Bounds.Replay, Engine: l.engine, Store: l.store, Log: o.Log})
	l.erasures = erase.New(erase.Options{Bounds: o.Bounds.Erase, Engine: l.engine, Store: l.store, Log: o.Log, Backups: l.backups.names})
	l.relays = relay.New(relay.Options{Bounds: o.Bounds.Relay, Engine: l.engine, Store: l.store, MaxEvent: o.MaxEvent, Log: o.Log,
		Files: o.OutboxFiles,
		Consume: func(ctx context.Context, src *grapnel.Source, most int, bytes int64) (brokers.Consumer, error) {
			return egress.Consume(ctx, s.sender, src, l.engine.Terms(src.Tenant).Proxy.Text, most, bytes)
		}})
	l.minutes = minutes.New(minutes.Options{Bounds: o.Bounds.Minutes, Store: l.store, Log: o.Log, Firsts: l.engine.CountFirsts})
	l.used = lastuse.New(lastuse.Options{Bounds: o.Bounds.LastUse, Store: l.store, Exists: l.engine.HasKey, Log: o.Log})
	l.alerts = alerting.New(alerting.Options{
		Bounds:     o.Bounds.Alerting,
		Engine:     l.engine,
		Store:      l.store,
		Log:        o.Log,
		Unverified: func(source string) int { return l.ingress.Refusals(source).Unverified },
		PublicURL:  o.PublicURL,
		Sealer:     pass.NewSealer(s.session.secret, nil, rand.Reader),

		Disk:        l.place.space(l.store, o.DatabaseSpace),
		Certificate: ownCertificate(o.PublicURL, nil),
		Backups:     s.backups.state,
		Burns:       func() []alert.Burn { return burns(s.promises.latest()) },
	})
	l.contacts = contacts.New(contacts.Options{Bounds: o.Bounds.Contacts, Engine: l.engine, Store: l.store, Sealer: l.passes(s), Log: o.Log,
		PublicURL: o.PublicURL})
	l.consents = consent.New(consent.Options{Bounds: o.Bounds.Consent, Engine: l.engine, Sender: s.sender, Random: rand.Reader, Log: o.Log,
		Leader: l.leader(bounds.Fill(o.Bounds.Ownership).AskWithin)})
	return nil
}

// passes makes and reads passes.
func (l *life) passes(s *Server) *pass.Sealer {
	return pass.NewSealer(s.session.secret, func() string { return l.engine.Access(grapnel.SeriesID("")).Series }, rand.Reader)
}

// run delivers until ctx ends, and returns when all work in progress is finished.
func (l *life) run(ctx context.Context, silent bool) {
	var moving sync.WaitGroup
	moving.Go(func() { l.engine.Run(ctx) })
	moving.Go(func() { l.queues.Run(ctx) })
	moving.Go(func() { l.replays.Run(ctx) })
	moving.Go(func() { l.erasures.Run(ctx) })
	moving.Go(func() { l.relays.Run(ctx) })
	moving.Go(func() { l.ingress.Run(ctx) })
	moving.Go(func() { l.used.Run(ctx) })
	moving.Go(func() { l.consents.Run(ctx) })
	if !silent {
		moving.Go(func() { l.alerts.Run(ctx) })
		moving.Go(func() { l.contacts.Run(ctx) })
		moving.Go(func() { l.minutes.Run(ctx) })
	}
	if l.backups != nil {
		moving.Go(func() { l.backups.run(ctx) })
	}
	if l.peers != nil {
		moving.Go(func() { l.peers.Run(ctx) })
	}
	moving.Wait()
}

// face is the handler of the API.
func (l *life) face(s *Server, metrics http.Handler, passes *pass.Sealer) http.Handler {
	o := &s.options
	return api.New(api.Options{
		Bounds: o.Bounds.API, Transform: o.Bounds.Egress.Transform,
		Engine: l.engine, History: l.store, Idempotency: l.store,
		MaxEvent: o.MaxEvent, MaxAhead: o.MaxAhead, HTTPSOnly: o.HTTPSOnly, PublicURL: o.PublicURL, Proxies: s.proxies, Log: o.Log,
		CheckURL: func(url string) error {
			return egress.CheckURL(url, s.urlRules())
		},
		CheckChannel: func(t *channels.Target) error {
			return egress.CheckChannel(t, s.urlRules())
		},
		CheckTarget: func(t *grapnel.Target) (brokers.Place, []*brokers.Fault) {
			return egress.CheckTarget(t, s.urlRules())
		},
		CheckBroker: func(t *grapnel.Target) (brokers.Place, []*brokers.Fault) {
			return egress.CheckBroker(t, s.urlRules())
		},
		CheckHeaders: egress.CheckHeaders,
		Queues:       l.queues,
		Ingest:       l.ingress,
		Outboxes:     l.relays,
		Replays:      l.replays,
		Alerts:       l.alerts,
		Contacts:     l.contacts,
		Consents:     l.consents,
		Minutes:      l.minutes,
		Used:         l.used,
		Keep:         s.keep,
		Published: func(good bool, took time.Duration, refused string) {
			if o.Silent {
				return
			}
			s.published.observe(good, took)
			s.promises.count(promise.Accept, good, took)
			s.rejected.count(refused)
		},
		Served:      s.promises.of(promise.Serve),
		Turned:      func() { s.promises.count(promise.Receive, false, -1) },
		Documents:   l.store,
		Erasures:    l.erasures,
		Promises:    s.promises.latest,
		Told:        s.promises.changed,
		Status:      s.statusPage(),
		Metrics:     metrics,
		MetricsOpen: o.MetricsOpen,
		Reveals:     o.SvixAPI,
		Gate:        s.gate,
		Ready:       s.ready,
		Cluster:     l.cluster(s),
		Settings:    func() []wire.Setting { return s.changed.Load().Settings },
		Name:        o.Name,
		Passes:      passes,
		MasterKey:   l.store.Sealer(),
	})
}

// dashboard puts the pages in front of the API, or the reference alone. Nodes with one session key
// share sessions.
func (s *Server) dashboard(face http.Handler, passes *pass.Sealer) http.Handler {
	pages := web.New
	if s.options.NoDashboard {
		pages = web.Reference
	}
	return pages(web.Options{
		Bounds:   s.options.Bounds.Web,
		API:      face,
		Origin:   api.Origin(s.options.PublicURL, s.proxies),
		Known:    api.Known(s.options.PublicURL, s.proxies),
		Passes:   passes,
		Secret:   s.session.secret,
		Stopping: s.stopping.Load,
		Log:      s.log,
		People:   s.options.People.web(s.issuer),
		Dev:      s.options.Dev,
	})
}

func (c *cleanup) add(undo func() error) { *c = append(*c, undo) }

func (c *cleanup) run() {
	for _, undo := range slices.Backward(*c) {
		_ = undo() // the error that led here is the one to tell
	}
}
