package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/alert"
	"github.com/grapnelhq/grapnel/internal/alerting"
	"github.com/grapnelhq/grapnel/internal/api"
	"github.com/grapnelhq/grapnel/internal/backoff"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/cells"
	"github.com/grapnelhq/grapnel/internal/channels"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/engine"
	"github.com/grapnelhq/grapnel/internal/ingress"
	"github.com/grapnelhq/grapnel/internal/minutes"
	"github.com/grapnelhq/grapnel/internal/pass"
	"github.com/grapnelhq/grapnel/internal/peer"
	"github.com/grapnelhq/grapnel/internal/promise"
	"github.com/grapnelhq/grapnel/internal/queue"
	"github.com/grapnelhq/grapnel/internal/relay"
	"github.com/grapnelhq/grapnel/internal/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/web"
)

// CellOptions are the name and the store of a cell besides the first.
type CellOptions struct {
	Name  string
	Store string
}

// cell is one store and the parts that run on it.
type cell struct {
	name  string
	place Place
	store keeper
	// by which nodes on the same database authenticate each other; empty: no other node uses the
	// store
	secret  string
	engine  *engine.Engine
	queues  *queue.Broker
	ingress *ingress.Receiver
	replays *replay.Runner
	relays  *relay.Runner
	alerts  *alerting.Keeper
	minutes *minutes.Keeper
	peers   *peer.Client // nil: no other node uses the store
	numbers []prometheus.Collector
	backlog *backlog
	seen    *postgres.History // of the database, as seen by this cell and by those it replaced
	closed  atomic.Bool       // its database went back: the cell answers no requests any more
	alive   context.Context   // the lifetime of its requests
	end     context.CancelFunc
}

func newCell(name string, place Place, seen *postgres.History) *cell {
	c := &cell{name: name, place: place, seen: seen}
	c.alive, c.end = context.WithCancel(context.Background())
	return c
}

// cellName matches valid names of cells: a name is part of an address, a header and a label.
var cellName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// plan returns the cells to open, before anything is touched.
func plan(o Options) ([]*cell, error) {
	all := make([]*cell, 0, 1+len(o.Cells))
	for _, is := range append([]CellOptions{{grapnel.DefaultCell, o.Store}}, o.Cells...) {
		place, err := ParseStore(is.Store)
		if len(all) > 0 {
			switch same := slices.IndexFunc(all, func(c *cell) bool { return c.name == is.Name || err == nil && c.place == place }); {
			case !cellName.MatchString(is.Name):
				return nil, grapnel.Errorf(grapnel.CodeInvalid, "--cell: %q is not a name; use 1 to 32 of a-z, 0-9 and -", is.Name)
			case is.Name == grapnel.DefaultCell:
				return nil, grapnel.Errorf(grapnel.CodeInvalid, "--cell: %s is the cell of --store", grapnel.DefaultCell)
			case err != nil:
				return nil, grapnel.Errorf(
					grapnel.CodeInvalid,
					"--cell %s: after the = it takes sqlite:PATH or the URL of a PostgreSQL database",
					is.Name,
				)
			case same >= 0 && all[same].name == is.Name:
				return nil, grapnel.Errorf(grapnel.CodeInvalid, "--cell: the name %s is given twice", is.Name)
			case same >= 0:
				return nil, grapnel.Errorf(grapnel.CodeInvalid, "--cell: %s and %s are the same database", all[same].name, is.Name)
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, newCell(is.Name, place, new(postgres.History)))
	}
	return all, nil
}

// Number of attempts, and the pause between them, to open a database that is unreachable or slow: a
// database that starts together with the server takes seconds.
const (
	startTries = 5
	startPause = time.Second
)

// openCell opens a cell as soon as its database can be used. Steps to undo if the server does not
// start are added to opened.
func (s *Server) openCell(ctx context.Context, c *cell, opened *cleanup) (*cell, error) {
	for tries := 1; ; tries++ {
		var undo cleanup
		err := c.open(ctx, s, &undo)
		if err == nil {
			opened.add(func() error { undo.run(); return nil })
			return c, nil
		}
		undo.run()
		if grapnel.CodeOf(err) != grapnel.CodeUnavailable || tries == startTries || ctx.Err() != nil {
			return c, err
		}
		s.log.Warn("database not usable yet; retrying", "cell", c.name, "err", err)
		if !backoff.Wait(ctx.Done(), startPause) {
			return c, err
		}
		c = newCell(c.name, c.place, c.seen)
	}
}

// open opens the store and the parts that run on it. Steps to undo if the server does not start are
// added to opened.
func (c *cell) open(ctx context.Context, s *Server, opened *cleanup) (err error) {
	o := &s.options
	if c.store, c.numbers, err = openStore(ctx, c.place, c.seen, o); err != nil {
		return err
	}
	opened.add(c.store.Close)
	if s.session == nil { // now that the database can be used
		if err := s.readSessionKey(c.place); err != nil {
			return err
		}
	}
	cluster, err := c.join(ctx, s)
	if err != nil {
		return err
	}
	c.engine, err = engine.New(ctx, engine.Options{
		Bounds: o.Bounds.Engine,
		Store:  c.store,
		Sender: s.sender,
		Log:    o.Log,
		Core: core.Options{
			Bounds:  o.Bounds.Core,
			Slots:   o.MaxInFlight,
			PerHost: o.MaxPerHost,
		},
		DrainTimeout: o.DrainTimeout,
		MaxPending:   o.MaxPending,
		MaxEndpoints: o.MaxEndpoints,
		MaxTypes:     o.MaxTypes,
		Disk:         c.place.disk(),
		Keep:         engine.Retention{For: o.Retention, Rules: o.Rules},
		Cluster:      cluster,
		Traces:       s.traces,
		Ready:        func(id string) { c.queues.Ready(id) },
		Consumers:    func(id string) []grapnel.Consumer { return c.queues.Seen(id) },
		Replayed:     func(endpoint string) { c.replays.Ended(endpoint) },
		Promised:     s.promises.count,
		Silent:       o.Silent,
	})
	if err != nil {
		return fmt.Errorf("the engine cannot start: %w", err)
	}
	c.backlog = newBacklog(o.Bounds, c.store, c.engine.Held, func() map[string]string { return c.queues.Labels() },
		c.place.size(c.store), time.Now, o.Log)
	c.queues = queue.New(queue.Options{Bounds: o.Bounds.Queue, Engine: c.engine, Store: c.store, Traces: s.traces, Log: o.Log,
		Elsewhere: c.engine.Consumers})
	c.ingress = ingress.New(
		ingress.Options{
			Bounds:  o.Bounds.Ingress,
			Engine:  c.engine,
			Store:   c.store,
			Problem: api.Refuse(o.PublicURL, o.Proxies),
			Refused: s.rejected.count,
			Origin:  api.Origin(o.PublicURL, o.Proxies),
			MaxBody: o.MaxBody,
			Log:     o.Log,

			Promised: s.promises.of(promise.Receive),
		},
	)
	c.replays = replay.New(replay.Options{Bounds: o.Bounds.Replay, Engine: c.engine, Store: c.store, Log: o.Log})
	c.relays = relay.New(relay.Options{Bounds: o.Bounds.Relay, Engine: c.engine, Store: c.store, MaxEvent: o.MaxEvent, Log: o.Log})
	c.minutes = minutes.New(minutes.Options{Bounds: o.Bounds.Minutes, Store: c.store, Log: o.Log, Came: c.came})
	is := alerting.Options{
		Bounds:     o.Bounds.Alerting,
		Engine:     c.engine,
		Store:      c.store,
		Log:        o.Log,
		Unverified: func(source string) int { return c.ingress.Refusals(source).Unverified },
		PublicURL:  o.PublicURL,
		Sealer:     pass.NewSealer(s.session.secret, nil, rand.Reader),
	}
	if s.home(c) == c {
		is.Disk, is.Cells = c.place.space(c.store, o.DatabaseSpace), s.otherCells
		is.Certificate = ownCertificate(o.PublicURL, nil)
		is.Burns = func() []alert.Burn { return burns(s.promises.latest()) }
	} else {
		is.Home = func() alerting.Store { return s.lives.now.Load().cells[0].store }
	}
	c.alerts = alerting.New(is)
	return nil
}

// otherCells are the cells besides home, as they are now: home evaluates the operator's rules of
// all.
func (s *Server) otherCells() (all []alerting.Cell) {
	for _, c := range s.lives.now.Load().cells[1:] {
		all = append(all, alerting.Cell{Name: c.name, Engine: c.engine, Store: c.store, Disk: c.place.space(c.store, s.options.DatabaseSpace)})
	}
	return all
}

// home is the first cell; c if that is the first one, which may be being opened.
func (s *Server) home(c *cell) *cell {
	if s.cells[0].engine == nil || s.cells[0].name == c.name {
		return c
	}
	return s.cells[0]
}

// run delivers until ctx ends, and returns when all work in progress is finished.
func (c *cell) run(ctx context.Context, silent bool) {
	var moving sync.WaitGroup
	moving.Go(func() { c.engine.Run(ctx) })
	moving.Go(func() { c.queues.Run(ctx) })
	moving.Go(func() { c.replays.Run(ctx) })
	moving.Go(func() { c.relays.Run(ctx) })
	moving.Go(func() { c.ingress.Run(ctx) })
	if !silent {
		moving.Go(func() { c.alerts.Run(ctx) })
		moving.Go(func() { c.minutes.Run(ctx) })
	}
	if c.peers != nil {
		moving.Go(func() { c.peers.Run(ctx) })
	}
	moving.Wait()
}

// came is when an endpoint's tenant came from another cell; zero: it did not.
func (c *cell) came(endpoint string) time.Time {
	ep, _ := c.engine.Endpoint(store.Everyone(), endpoint)
	if t, _ := c.engine.Tenancy(ep.Tenant); t.State == grapnel.TenancyArrived || t.State == grapnel.TenancyHere {
		return t.Since
	}
	return time.Time{}
}

// face is the handler of a cell's API.
func (c *cell) face(s *Server, metrics http.Handler, passes *pass.Sealer) http.Handler {
	o := &s.options
	return api.New(api.Options{
		Bounds: o.Bounds.API, Transform: o.Bounds.Egress.Transform,
		Engine: c.engineFor(s.cells[0]), History: c.store, Idempotency: c.store,
		MaxEvent: o.MaxEvent, HTTPSOnly: o.HTTPSOnly, PublicURL: o.PublicURL, Proxies: o.Proxies, Log: o.Log,
		CheckURL: func(url string) error {
			return egress.CheckURL(url, egress.URLRules{Allow: o.EgressAllow, HTTPSOnly: o.HTTPSOnly, Own: o.PublicURL})
		},
		CheckChannel: func(t *channels.Target) error {
			return egress.CheckChannel(t, egress.URLRules{Allow: o.EgressAllow, HTTPSOnly: o.HTTPSOnly, Own: o.PublicURL})
		},
		CheckHeaders: egress.CheckHeaders,
		Queues:       c.counter(s),
		Ingest:       c.ingress,
		Outboxes:     c.relays,
		Replays:      c.replays,
		Alerts:       c.alerts,
		Minutes:      c.minutes,
		Keep:         store.Keep{For: o.Retention, Rules: o.Rules},
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
		Documents:   s.cells[0].store,
		Promises:    s.promises.latest,
		Told:        s.promises.changed,
		Status:      s.statusPage(),
		Metrics:     metrics,
		MetricsOpen: o.MetricsOpen,
		Gate:        s.gate,
		Ready:       s.ready,
		Cluster:     c.cluster(s),
		Settings:    o.Settings,
		Cell:        c.name,
		Away:        func(tenant string) error { return s.directory.Away(c.name, tenant) },
		Tenants:     s.directory,
		Passes:      passes,
		Others:      c.others(s),
		Elsewhere:   c.elsewhere(s),
	})
}

// elsewhere finds the answer that another cell has stored for a key without a tenant. Such answers
// do not move with a tenant. They are sought as long as this cell has a tenant that came within the
// time for which answers are stored.
func (c *cell) elsewhere(s *Server) func(context.Context, string, time.Time) (*store.Answer, error) {
	kept := bounds.Fill(s.options.Bounds.API).AnswerKept
	return func(ctx context.Context, key string, now time.Time) (given *store.Answer, err error) {
		came := func(t grapnel.Tenancy) bool { return t.State == grapnel.TenancyHere && now.Sub(t.Since) < kept }
		if !slices.ContainsFunc(c.engine.Tenancies(), came) {
			return nil, nil
		}
		for _, other := range s.cells {
			if other != c && given == nil && err == nil {
				given, err = other.store.Recall(ctx, key, now)
			}
		}
		return given, err
	}
}

// others are the cells that home's overview adds to its own numbers. Other cells are asked by name.
func (c *cell) others(s *Server) (all []api.Cell) {
	if c != s.cells[0] {
		return nil
	}
	for _, other := range s.cells[1:] {
		all = append(all, api.Cell{Engine: other.engine, History: other.store,
			Away: func(tenant string) error { return s.directory.Away(other.name, tenant) }})
	}
	return all
}

// front is the handler of all requests. With one cell it is that cell's API.
func (s *Server) front(metrics http.Handler) http.Handler {
	known, faces := make([]cells.Cell, len(s.cells)), make([]http.Handler, len(s.cells))
	for i, c := range s.cells {
		known[i] = cells.Cell{Name: c.name, Engine: c.engine, Store: c.store}
	}
	s.directory = cells.New(cells.Options{Bounds: s.options.Bounds.Cells, Cells: known, Log: s.log})
	home := s.cells[0].engine
	passes := pass.NewSealer(s.session.secret, func() string { return home.Series("") }, rand.Reader)
	for i, c := range s.cells {
		faces[i] = c.guarded(s, c.face(s, metrics, passes))
	}
	if len(faces) == 1 {
		return s.besides(s.dashboard(faces[0], passes))
	}
	return s.besides(s.dashboard(
		s.directory.Route(cells.Routing{Faces: faces, Token: api.Bearer, Pass: tenantsOf(passes),
			MaxBody: api.LargestBody(s.options.MaxEvent, s.options.Bounds.API)}), passes))
}

// tenantsOf finds the tenant of a pass that has not ended. The tenant's cell checks whether it was
// revoked.
func tenantsOf(passes *pass.Sealer) func(string) (string, bool) {
	return func(token string) (string, bool) {
		p, valid := passes.Open(token, time.Now())
		if !valid {
			return "", false
		}
		return p.Tenant, true
	}
}

// dashboard puts the pages in front of the API. Nodes with one session key share sessions.
func (s *Server) dashboard(face http.Handler, passes *pass.Sealer) http.Handler {
	if s.options.NoDashboard {
		return face
	}
	return web.New(web.Options{
		Bounds:   s.options.Bounds.Web,
		API:      face,
		Origin:   api.Origin(s.options.PublicURL, s.options.Proxies),
		Known:    api.Known(s.options.PublicURL, s.options.Proxies),
		Passes:   passes,
		Secret:   s.session.secret,
		Stopping: s.stopping.Load,
		Log:      s.log,
		People:   s.options.People.web(s.issuer),
		Dev:      s.options.Dev,
	})
}
