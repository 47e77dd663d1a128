// Package alerting runs the rules of package alert: it gathers facts from the engine and the store,
// and commits each transition of an alert together with the event that carries its message. The
// messages are deliveries like any other, so a channel that is down gets them once it is up.
//
// One goroutine (Run) evaluates, on the node that does the work of one node for all. If two nodes
// do it for a moment, the revision of the tenant's messages lets only one of them commit.
//
// What holds here:
//
//   - A transition and its message are one transaction: both are durable or neither.
//   - What a round has read and not committed is read again by the next round. Memory is lost at a
//     restart; it holds only since when values are bad or good.
//   - A round is bounded: facts that need a read for each object are read in turns.
//
// It does not promise to see a condition that begins and ends between two rounds.
package alerting

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// New returns a Keeper. Nothing is evaluated before Run.
func New(o Options) *Keeper {
	k := &Keeper{o: o, bounds: bounds.Fill(o.Bounds), now: o.Now, log: o.Log}
	if k.now == nil {
		k.now = time.Now
	}
	return k
}

// Run evaluates until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for failures := 0; backoff.Wait(ctx.Done(), k.bounds.Every); {
		if err := k.Evaluate(ctx); err == nil {
			failures = 0
		} else if failures++; backoff.Tells(failures) && ctx.Err() == nil {
			k.log.Warn("evaluating alert rules failed; retrying", "failures", failures, "err", err)
		}
	}
}

// Evaluate makes one round: it reads the facts and commits the transitions that follow from them.
func (k *Keeper) Evaluate(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.o.Engine.Leads() {
		k.memory, k.facts = nil, nil // they are of before another node evaluated
		return nil
	}
	now := k.moment()
	if k.memory == nil {
		if err := k.restore(ctx, now); err != nil {
			return err
		}
	}
	// The messages are read before the alerts. A node that changes alerts afterwards changes the
	// revision of the messages too, and this round's commit fails.
	messages, err := k.list(ctx, alert.KindMessages)
	if err != nil {
		return err
	}
	open, revisions, err := k.open(ctx)
	if err != nil {
		return err
	}
	settings, err := k.settings(ctx)
	if err != nil {
		return err
	}
	facts := k.facts.gather(ctx, now, settings)
	changes := k.memory.Step(alert.Round{Now: now, Samples: facts.Samples(), Unread: facts.Unread, Open: open, Settings: settings})
	return k.commit(ctx, now, messages, revisions, changes)
}

// moment is now, as stores have times.
func (k *Keeper) moment() time.Time { return k.now().Round(0).UTC().Truncate(time.Microsecond) }

// restore begins with what the last round before has left in the store.
func (k *Keeper) restore(ctx context.Context, now time.Time) error {
	memory := alert.NewMemory(k.bounds.Rules)
	// Alerts that were resolved lately may not fire again too early. Ids are in the order of the
	// firings, so the search ends at the first that fired too long ago to matter.
	q := store.DocumentQuery{Kind: alert.KindResolved, Backwards: true, Limit: k.bounds.Page}
	for {
		page, err := k.o.Store.DocumentList(ctx, store.Everyone(), q)
		if err != nil {
			return err
		}
		for i := range page {
			a, err := alert.Decode(page[i].Body)
			if err != nil {
				return err
			}
			if now.Sub(a.Since) >= k.bounds.Rules.Again {
				page = nil
				break
			}
			memory.Remember(a)
		}
		if len(page) < k.bounds.Page {
			break
		}
		q.After = page[len(page)-1].ID
	}
	k.memory, k.facts = memory, newGathering(k)
	return nil
}

// list reads all documents of a kind, page after page.
func (k *Keeper) list(ctx context.Context, kind string) (all []store.Document, err error) {
	for q := (store.DocumentQuery{Kind: kind, Limit: k.bounds.Page}); ; {
		page, err := k.o.Store.DocumentList(ctx, store.Everyone(), q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			return all, nil
		}
		q.After = page[len(page)-1].ID
	}
}

// open reads the open alerts, and the revisions of their documents.
func (k *Keeper) open(ctx context.Context) ([]*alert.Alert, map[string]int64, error) {
	list, err := k.list(ctx, alert.KindOpen)
	if err != nil {
		return nil, nil, err
	}
	open, revisions := make([]*alert.Alert, len(list)), make(map[string]int64, len(list))
	for i := range list {
		if open[i], err = alert.Decode(list[i].Body); err != nil {
			return nil, nil, err
		}
		revisions[list[i].ID] = list[i].Revision
	}
	return open, revisions, nil
}

// settings reads the changes of rules.
func (k *Keeper) settings(ctx context.Context) (alert.Settings, error) {
	list, err := k.list(ctx, alert.KindRule)
	if err != nil {
		return nil, err
	}
	all := alert.Settings{}
	for i := range list {
		s, err := alert.DecodeSetting(list[i].Body)
		if err != nil {
			return nil, err
		}
		if all[list[i].Tenant] == nil {
			all[list[i].Tenant] = map[string]alert.Setting{}
		}
		rule, _, _ := strings.Cut(list[i].ID, "@")
		all[list[i].Tenant][rule] = s
	}
	return all, nil
}

// commit stores the transitions, one tenant after the other. A tenant whose transitions cannot be
// stored does not keep the others from theirs.
func (k *Keeper) commit(ctx context.Context, now time.Time, messages []store.Document, revisions map[string]int64,
	changes []alert.Change) error {
	parts, operators := map[string]*part{}, &mailbag{}
	of := func(tenant string) *part {
		if parts[tenant] == nil {
			boxes := operators
			if tenant != "" {
				boxes = &mailbag{tenant: tenant}
			}
			parts[tenant] = &part{keeper: k, tenant: tenant, now: now, boxes: boxes, operators: operators, revisions: revisions}
		}
		return parts[tenant]
	}
	for i := range messages {
		boxes, err := alert.DecodeBoxes(messages[i].Body)
		if err != nil {
			return err
		}
		p := of(messages[i].Tenant)
		p.boxes.doc, p.due = messages[i], boxes.Due(now)
	}
	for i := range changes {
		p := of(changes[i].Alert.Tenant)
		p.changes = append(p.changes, changes[i])
	}
	var failed error
	for _, tenant := range slices.Sorted(maps.Keys(parts)) {
		if p := parts[tenant]; p.due || len(p.changes) > 0 {
			if err := p.commit(ctx); err != nil && !harmless(err) {
				failed = cmp.Or(failed, err)
			}
		}
	}
	return failed
}

// harmless says whether a failed commit needs no mention: another node was quicker, the tenant is
// being deleted, or the store is unavailable, which others report. The next round starts over.
func harmless(err error) bool {
	switch grapnel.CodeOf(err) {
	case grapnel.CodeConflict, grapnel.CodeUnavailable, grapnel.CodeTenantEnds:
		return true
	}
	return false
}
