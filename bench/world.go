//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/policy"
)

var worldTenants = []string{"default", "other", "acme", "globex"}

// How many there are of what a person or a provider made.
const (
	worldSources  = 12
	worldKeys     = 60
	worldMessages = 200 // in each queue
	worldAudit    = 20_000
	worldAsides   = 6_000
	worldReplays  = 300
	worldItems    = 600 // deliveries of one replay
	worldDiscards = 3_000
	worldOpen     = 6 // endpoints whose circuit is open
	worldIssues   = 200
	worldAlerts   = 2_000 // that were resolved
	worldLines    = 256   // calls at once: the store puts calls of the same time into one transaction
)

// settle makes the settings.
func (w *world) settle(ctx context.Context, g *server) error {
	post := func(path string, in map[string]any) error { return g.send(ctx, http.MethodPost, path, in, nil) }
	types := append([]string{"rare.*"}, backlogTypes...)
	for i := range w.endpoints {
		status := "enabled"
		switch {
		case i%10 == 4:
			status = "paused"
		case i%40 == 7:
			status = "disabled"
		}
		if err := post("/v1/endpoints", map[string]any{"url": fmt.Sprintf("http://127.0.0.1:9/hooks/%d", i), "status": status,
			"tenant": worldTenants[i%len(worldTenants)], "description": fmt.Sprintf("receiver number %d", i), "event_types": types}); err != nil {
			return err
		}
	}
	for i := range worldSources {
		if err := post("/v1/sources", map[string]any{"name": fmt.Sprintf("source %d", i), "tenant": worldTenants[i%len(worldTenants)],
			"on_unverified": "quarantine", "verify": map[string]any{"scheme": "github", "secret": "a secret of no provider"}}); err != nil {
			return err
		}
	}
	for i := range worldSources {
		if err := errors.Join(post("/v1/queues", map[string]any{"name": fmt.Sprintf("queue-%d", i), "event_types": []string{"only.queues"},
			"tenant": worldTenants[i%len(worldTenants)]}),
			post("/v1/policies", map[string]any{"name": fmt.Sprintf("policy-%d", i), "tenant": worldTenants[i%len(worldTenants)]})); err != nil {
			return err
		}
	}
	for i := range worldKeys {
		if err := post("/v1/keys", map[string]any{"name": fmt.Sprintf("key %d", i), "scopes": []string{"read"}}); err != nil {
			return err
		}
	}
	return post("/v1/incidents", map[string]any{"title": "Deliveries were slow", "text": "A disk was slow; it was replaced."})
}

// openStore opens the store of a server that does not run.
func openStore(ctx context.Context, path string) (s *sqlite.Store, config store.Config, err error) {
	if s, err = sqlite.Open(ctx, path, sqlite.Options{Ballast: -1}); err != nil {
		return nil, config, err
	}
	if config, err = s.Config(ctx); err != nil {
		return nil, config, errors.Join(err, s.Close())
	}
	return s, config, nil
}

// fill writes the past.
func (w *world) fill(ctx context.Context, path string, out io.Writer) (err error) {
	s, config, err := openStore(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	now := time.Now().UTC().Truncate(time.Second)
	// One event in sixteen has two deliveries more, so there are 8 events to 9 deliveries.
	p := &backlog{n: w.n*8/9 + 1, seed: w.seed, waiting: min(w.n/500, 20_000), busy: 4, wide: 16,
		from: now.Add(-time.Duration(w.weeks) * 7 * 24 * time.Hour), to: now, sources: map[string]string{}}
	for i := range config.Endpoints {
		if ep := &config.Endpoints[i]; ep.Queue == nil {
			p.endpoints = append(p.endpoints, placedEndpoint{ep.ID, ep.Tenant})
		}
	}
	for i := range config.Sources {
		p.sources[config.Sources[i].Tenant] = config.Sources[i].ID
	}
	if err := p.write(ctx, config.Version, s, out); err != nil {
		return err
	}
	a := &around{backlog: p, s: s, config: config}
	return errors.Join(a.messages(ctx), a.audit(ctx), a.asides(ctx), a.replays(ctx), a.letters(ctx), a.alerts(ctx), a.issues(ctx))
}

// around is what surrounds a backlog.
type around struct {
	backlog *backlog
	s       *sqlite.Store
	config  store.Config
}

// messages puts some into each queue.
func (a *around) messages(ctx context.Context) error {
	batch := store.Batch{Config: a.config.Version}
	for i := range a.config.Endpoints {
		to := &a.config.Endpoints[i]
		for n := 0; to.Queue != nil && n < worldMessages; n++ {
			e := &grapnel.Event{ID: fmt.Sprintf("message-%d-%d", i, n), Tenant: to.Tenant, Type: "only.queues", ContentType: grapnel.JSONType,
				Key: fmt.Sprintf("key_%d", n%40), AcceptedAt: a.backlog.to, Data: fmt.Appendf(nil, `{"message":%d}`, n)}
			batch.Events = append(batch.Events, store.Incoming{Event: e, Targets: []store.Target{{Endpoint: to.ID, Ordered: true}}})
		}
	}
	_, err := a.s.Append(ctx, batch)
	return err
}

// each does something for each number up to n, on several lines at once.
func each(lines, n int, do func(i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, lines)
	for line := range lines {
		all.Go(func() {
			for errs[line] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[line] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// when is the time of the i-th of n things that happened in the backlog's time.
func (a *around) when(i, n int) time.Time {
	return a.backlog.from.Add(a.backlog.to.Sub(a.backlog.from) / time.Duration(n) * time.Duration(i))
}

func (a *around) audit(ctx context.Context) error {
	verbs := []grapnel.Verb{grapnel.VerbChange, grapnel.VerbPause, grapnel.VerbResume, grapnel.VerbRetry, grapnel.VerbNote}
	return each(worldLines, worldAudit, func(i int) error {
		ep := &a.backlog.endpoints[i%len(a.backlog.endpoints)]
		return a.s.Note(ctx, grapnel.AuditEntry{At: a.when(i, worldAudit), Tenant: ep.Tenant, Endpoint: ep.ID, Actor: a.config.Keys[0].ID,
			Verb: verbs[i%len(verbs)], Reason: fmt.Sprintf("ticket %d", i)})
	})
}

func (a *around) asides(ctx context.Context) error {
	why := []grapnel.AsideReason{grapnel.AsideUnverified, grapnel.AsideConflict, grapnel.AsideRefused}
	return each(worldLines, worldAsides, func(i int) error {
		src, at := &a.config.Sources[i%len(a.config.Sources)], a.when(i, worldAsides)
		in := grapnel.Intake{Source: src.ID, At: at, Method: http.MethodPost, Path: "/in/" + src.ID, Remote: "192.0.2.1:443",
			Headers: []grapnel.Header{{Name: "Content-Type", Value: grapnel.JSONType}, {Name: "X-Github-Event", Value: "push"}},
			Checks:  []grapnel.Check{{Passed: true, Text: "the header has the form"}, {Text: "the signature matches no secret"}}}
		return a.s.SetAside(ctx, grapnel.Aside{ID: grapnel.NewID(grapnel.AsidePrefix, at, rand.Reader), Tenant: src.Tenant, Why: why[i%len(why)],
			ContentType: grapnel.JSONType, Body: fmt.Appendf(nil, `{"push":%d}`, i), Intake: in})
	})
}

// replays makes replays that are over, and the deliveries of one of them.
func (a *around) replays(ctx context.Context) error {
	for i := range worldReplays {
		ep := &a.backlog.endpoints[i%len(a.backlog.endpoints)]
		at := a.when(i, worldReplays)
		r := grapnel.Replay{ID: grapnel.NewID(grapnel.ReplayPrefix, at, rand.Reader), Tenant: ep.Tenant, Endpoint: ep.ID, Rate: 20,
			Status: grapnel.ReplayRunning, CreatedAt: at, UpdatedAt: at, Actor: a.config.Keys[0].ID}
		put, err := a.s.PutReplay(ctx, store.Everyone(), r, store.With{})
		if err != nil {
			return err
		}
		if i == worldReplays-1 {
			if err := a.repeat(ctx, r.ID, ep.ID); err != nil {
				return err
			}
		}
		r.Revision, r.Status, r.FinishedAt = put.Revision, grapnel.ReplayCompleted, at.Add(time.Minute)
		if _, err := a.s.PutReplay(ctx, store.Everyone(), r, store.With{}); err != nil {
			return err
		}
	}
	return nil
}

// repeat delivers dead letters of an endpoint again.
func (a *around) repeat(ctx context.Context, id, endpoint string) error {
	found, _, err := a.s.Candidates(ctx, store.Everyone(), store.CandidateQuery{Endpoint: endpoint, OverBy: a.backlog.to, Limit: worldItems})
	if err != nil || len(found) == 0 {
		return err
	}
	step := store.ReplayStep{Replay: id, To: found[len(found)-1].Seq, At: a.backlog.to}
	for i := range found {
		step.Items = append(step.Items, store.Redelivery{Of: found[i].Seq})
	}
	made, err := a.s.Advance(ctx, step)
	if err != nil {
		return err
	}
	var changes []store.Change
	for i := range made {
		if made[i].Delivery != 0 {
			changes = append(changes, fates[len(fates)-1].change(made[i].Delivery, 0, a.backlog.to))
		}
	}
	_, err = a.s.Record(ctx, changes)
	return err
}

// letters discards the newest dead letters of the first endpoint, and opens circuits.
func (a *around) letters(ctx context.Context) error {
	found, err := a.s.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Endpoint: a.backlog.endpoints[0].ID,
		Status: []grapnel.Status{grapnel.Failed}, Limit: worldDiscards})
	if err != nil {
		return err
	}
	if err := each(worldLines, len(found), func(i int) error {
		return a.s.Annotate(ctx, store.Everyone(), store.Annotation{Delivery: found[i].Seq, Discard: "known", At: a.backlog.to})
	}); err != nil {
		return err
	}
	for i := range min(worldOpen, len(a.backlog.endpoints)) {
		ep := a.backlog.endpoints[i*10%len(a.backlog.endpoints)].ID
		// A change of no delivery: only the standing is stored.
		c := store.Change{Expect: store.AnyAttempts, At: a.backlog.to, Status: grapnel.Pending, Standing: &store.Standing{Endpoint: ep, Number: 1,
			Standing: policy.Standing{OpenedAt: a.backlog.to.Add(-time.Hour), Cause: "answered 503",
				ProbeAt: a.backlog.to.Add(24 * time.Hour), Probes: 9}}}
		if _, err := a.s.Record(ctx, []store.Change{c}); err != nil {
			return err
		}
	}
	return nil
}

// alerts stores alerts that were resolved.
func (a *around) alerts(ctx context.Context) error {
	return each(worldLines, worldAlerts, func(i int) error {
		ep, at := &a.backlog.endpoints[i%len(a.backlog.endpoints)], a.when(i, worldAlerts)
		one := alert.Alert{ID: fmt.Sprintf("alr_%026d", i), Rule: alert.EndpointFailing, Tenant: ep.Tenant, State: alert.Resolved,
			Severity: grapnel.SeverityPage, Title: fmt.Sprintf("Deliveries to receiver %d fail", i), Since: at, ResolvedAt: at.Add(time.Hour)}
		_, err := a.s.PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{{Document: store.Document{
			Tenant: one.Tenant, Kind: alert.KindResolved, ID: one.ID, At: one.ResolvedAt, Body: one.Encode()}}}, store.With{})
		return err
	})
}

// issues stores issues of several kinds at each of the first endpoints.
func (a *around) issues(ctx context.Context) error {
	tally := issue.NewTally(issue.Bounds{})
	for i := range worldIssues {
		ep := &a.backlog.endpoints[i/4%len(a.backlog.endpoints)]
		tally.Failed(&issue.Failure{At: a.backlog.to, Created: a.when(i, worldIssues), Key: fmt.Sprintf("key_%d", i),
			Group: issue.Group{Tenant: ep.Tenant, Endpoint: ep.ID, Class: policy.ClassStatus5xx, Status: 500 + i%4, Answer: "no"}})
	}
	return issue.NewKeeper(issue.Options{Documents: a.s, Tally: tally, Now: func() time.Time { return a.backlog.to },
		Log: slog.New(slog.DiscardHandler), Gone: func(string) bool { return false }, Leads: func() bool { return false }}).Flush(ctx)
}
