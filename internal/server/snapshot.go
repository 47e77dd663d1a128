package server

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
	"github.com/grapnelhq/grapnel/wire"
)

// The snapshot of the promises: the report, and the status page that is served from memory.

// statusPage is the handler of the status page; nil: there is none.
func (s *Server) statusPage() http.Handler {
	if s.promises.pages == nil {
		return nil
	}
	return s.promises.pages
}

// latest is the report of the last round.
func (p *promises) latest() promise.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report
}

// changed has the page made anew soon.
func (p *promises) changed() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// restore serves the page of the process before this one until the store has answered.
func (p *promises) restore() {
	if p.pages == nil || p.dir == "" {
		return
	}
	page, found, err := statuspage.Read(p.dir)
	switch {
	case found:
		p.pages.Update(page)
	case err != nil:
		p.log.Warn("reading the last status page failed; it is made anew", "err", err)
	}
}

func (p *promises) readIncidents(ctx context.Context) (all []wire.Incident, _ error) {
	for q := (store.DocumentQuery{Kind: incidentKind, Backwards: true, Limit: p.bounds.Page}); ; {
		found, err := p.docs().DocumentList(ctx, store.Everyone(), q)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			q.After = d.ID
			var in wire.Incident
			if err := json.Unmarshal(d.Body, &in); err == nil && d.Tenant == "" {
				all = append(all, in)
			}
		}
		if len(found) < q.Limit {
			return all, nil
		}
	}
}

// judge makes the report and the status page from the counts in memory.
func (p *promises) judge(now time.Time) {
	settled := hourOf(now) - 1
	p.mu.Lock()
	for hour, h := range p.others {
		p.history.Set(time.Unix(hour*3600, 0).UTC(), h)
	}
	for hour, own := range p.own {
		sum := p.others[hour]
		sum.Plus(&own.is)
		p.history.Set(own.at, sum)
		if hour < settled && !own.dirty {
			delete(p.own, hour)
		}
	}
	maps.DeleteFunc(p.others, func(hour int64, _ promise.Hour) bool { return hour < settled && p.own[hour] == nil })
	p.mu.Unlock()
	p.history.Forget(now)
	report := promise.Make(p.history, now)
	p.mu.Lock()
	p.report = report
	p.mu.Unlock()
	if p.pages == nil || p.loaded.IsZero() { // the page of before says more
		return
	}
	p.pages.Update(statuspage.New(report, p.incidents))
	if p.dir == "" {
		return
	}
	files, err := p.pages.Now()
	if err == nil {
		err = files.Write(p.dir)
	}
	if err != nil {
		p.log.Debug("writing the files of the status page failed", "err", err)
	}
}

// The kinds of documents.
const (
	sliKind      = "sli"
	incidentKind = wire.IncidentKind
)

// hourOf numbers hours. A number is found without making a name; each attempt is counted two or
// three times.
func hourOf(at time.Time) int64 { return at.Unix() / 3600 }
