package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
)

// keptHours is how long counts are stored: the window, and what days of it reach back.
const keptHours = promise.Window + 48*time.Hour

// keepPromises completes the sampler once the store is open.
func (s *Server) keepPromises() {
	p := s.promises
	p.node = s.node
	now := func() *life { return s.lives.now.Load() }
	p.docs = func() store.Documents { return now().store }
	p.unable = func() error { return now().unable() }
	p.balances = func() (all, unequal int64) { return now().engine.Metrics().Balances() }
	if s.options.NoStatusPage {
		return
	}
	home := ""
	if s.options.PublicURL != nil {
		home = s.options.PublicURL.JoinPath("status").String()
	}
	p.pages = statuspage.NewPages(s.ready, api.Plainly, home)
	if place := s.life.place; place.url == "" {
		p.dir = filepath.Join(place.dir(), "status")
	}
}

func newPromises(b PromiseBounds, log *slog.Logger, node string) *promises {
	return &promises{bounds: bounds.Fill(b), log: log, now: time.Now, node: node, judged: newJudged(), kick: make(chan struct{}, 1),
		own: map[int64]*ownHour{}, history: promise.NewHistory(), others: map[int64]promise.Hour{}}
}

// hourLayout is the form of hourName.
const hourLayout = "2006-01-02T15"

// hourName is the first part of a document's id; ids sort by time.
func hourName(at time.Time) string { return at.UTC().Format(hourLayout) }

// count counts one event now.
func (p *promises) count(i promise.Indicator, good bool, took time.Duration) {
	p.judged.count(i, good)
	now := p.now().UTC()
	hour := hourOf(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.own[hour]
	if h == nil {
		h = &ownHour{at: now.Truncate(time.Hour)}
		p.own[hour] = h
	}
	h.is.Add(now, i, good, took)
	h.dirty = true
}

// of makes a function that counts one indicator.
func (p *promises) of(i promise.Indicator) func(bool, time.Duration) {
	return func(good bool, took time.Duration) { p.count(i, good, took) }
}

// start begins to sample. stop ends it.
func (p *promises) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.stopped = cancel, make(chan struct{})
	p.restore()
	go func() {
		defer close(p.stopped)
		p.run(ctx)
	}()
}

// stop ends sampling, and stores the last counts if write says so.
func (p *promises) stop(write bool) {
	if p.cancel == nil {
		return
	}
	p.cancel()
	<-p.stopped
	p.cancel = nil
	if write {
		ctx, cancel := context.WithTimeout(context.Background(), p.bounds.Write)
		defer cancel()
		p.note(p.write(ctx))
	}
}

func (p *promises) run(ctx context.Context) {
	tick := time.NewTicker(p.bounds.Every)
	defer tick.Stop()
	for {
		p.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.sample()
		case <-p.kick:
		}
	}
}

// sample counts what no request shows: whether events are accepted, and the balance.
func (p *promises) sample() {
	p.count(promise.Ready, p.unable() == nil, -1)
	all, unequal := p.balances()
	for n := p.looked[1]; n < unequal; n++ {
		p.count(promise.Loss, false, -1)
	}
	for n := p.looked[0] - p.looked[1]; n < all-unequal; n++ {
		p.count(promise.Loss, true, -1)
	}
	p.looked = [2]int64{all, unequal}
}

// round stores the counts, reads those of the other nodes and the incidents, and makes the report.
// Whatever the store answers, there is a report.
func (p *promises) round(ctx context.Context) {
	calls, cancel := context.WithTimeout(ctx, p.bounds.Write)
	defer cancel()
	now := p.now().UTC()
	err := p.write(calls)
	if err == nil {
		err = p.read(calls, now)
	}
	if ctx.Err() == nil {
		p.note(err)
	}
	p.judge(now)
}

// note logs when the store begins to fail, and when it works again.
func (p *promises) note(err error) {
	switch {
	case err != nil && !p.failing:
		p.log.Warn("storing the counts of promises failed; they stay in memory until it works", "err", err)
	case err == nil && p.failing:
		p.log.Info("counts of promises stored again")
	}
	p.failing = err != nil
}

// write stores this node's counts that are not stored as they are.
func (p *promises) write(ctx context.Context) error {
	p.mu.Lock()
	var due []ownHour
	for _, h := range p.own {
		if h.dirty {
			due = append(due, *h)
			h.tried = true
		}
	}
	p.mu.Unlock()
	slices.SortFunc(due, func(a, b ownHour) int { return a.at.Compare(b.at) })
	for i := range due {
		h := &due[i]
		body, err := json.Marshal(h.is)
		if err != nil {
			return err
		}
		id := hourName(h.at) + "/" + p.node
		done, err := p.docs().PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{{Document: store.Document{Kind: sliKind, ID: id,
			Revision: h.revision, At: p.now(), Body: body}}}, store.With{})
		// An earlier write was stored, and its answer lost; or the database went back to a time before
		// it, and may have no document.
		if grapnel.CodeOf(err) == grapnel.CodeConflict {
			is, failed := p.docs().Document(ctx, store.Everyone(), "", sliKind, id)
			if failed != nil && grapnel.CodeOf(failed) != grapnel.CodeNotFound {
				return failed
			}
			var before promise.Hour
			if failed == nil && !h.tried { // the hour was forgotten while the clock was ahead
				if err := json.Unmarshal(is.Body, &before); err != nil {
					return err
				}
			}
			p.stored(h, is.Revision, &before)
			continue
		}
		if err != nil {
			return err
		}
		p.stored(h, done.Revision, nil)
	}
	return nil
}

// stored remembers the revision of an hour's document. The hour is clean unless something was
// counted meanwhile, or the document has other counts, of which the hour lacks before.
func (p *promises) stored(h *ownHour, revision int64, before *promise.Hour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.own[hourOf(h.at)]
	own.revision, own.dirty = revision, before != nil || own.is != h.is
	if before != nil {
		own.is.Plus(before)
	}
}

// read reads the incidents, and the documents of the hours that may have changed since it did not
// fail last; at first, and after the clock was set back, those of the whole window. This node's own
// are read only of hours that it has forgotten.
func (p *promises) read(ctx context.Context, now time.Time) error {
	from := now.Add(-keptHours)
	if last := p.loaded.Add(-time.Hour); last.After(from) && !p.loaded.After(now) {
		from = last
	}
	sums := map[int64]promise.Hour{}
	for after := hourName(from); ; {
		found, err := p.docs().DocumentList(ctx, store.Everyone(), store.DocumentQuery{Kind: sliKind, After: after, Limit: p.bounds.Page})
		if err != nil {
			return err
		}
		for _, d := range found {
			after = d.ID
			name, node, ok := strings.Cut(d.ID, "/")
			if !ok || d.Tenant != "" {
				continue
			}
			var h promise.Hour
			at, err := time.Parse(hourLayout, name)
			if node == p.node && p.has(at, now) {
				continue
			}
			if err = errors.Join(err, json.Unmarshal(d.Body, &h)); err != nil {
				p.log.Warn("counts of promises cannot be read; left out", "document", d.ID, "err", err)
				continue
			}
			sum := sums[hourOf(at)]
			sum.Plus(&h)
			sums[hourOf(at)] = sum
		}
		if len(found) < p.bounds.Page {
			break
		}
	}
	maps.Copy(p.others, sums)
	p.loaded = now.Round(0) // so that comparisons see a clock that was set
	incidents, err := p.readIncidents(ctx)
	if err != nil {
		return err
	}
	p.incidents = incidents
	return p.clear(ctx, now)
}

// has says whether this node has its counts of an hour, or will have them once it counts again.
func (p *promises) has(at, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own[hourOf(at)] != nil || hourOf(at) >= hourOf(now)-1
}

// clear deletes counts that no window reaches any more, once an hour.
func (p *promises) clear(ctx context.Context, now time.Time) error {
	if now.Sub(p.cleared) < time.Hour {
		return nil
	}
	for {
		n, err := p.docs().ClearDocuments(ctx, sliKind, now.Add(-keptHours-time.Hour), p.bounds.Page)
		if err != nil {
			return err
		}
		if n < p.bounds.Page {
			p.cleared = now
			return nil
		}
	}
}
