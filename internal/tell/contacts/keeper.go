// Package contacts tells customers about their failing endpoints: by mail or in a chat, once for
// each stage, with a link that opens the portal. It needs a grapnel.Sender; without one nothing is
// told.
//
// What holds here:
//
//   - A stage and its message are one transaction: a message is sent once, whatever restarts or
//     changes nodes in between.
//   - A message is a delivery to a channel, so it is retried and recorded like an alert.
//   - A tenant gets at most as many messages a day as its budget has. A stage that the budget holds
//     back is told on the next day if it still is the worst one; the next message says how many were
//     held back.
//   - A stage that is reached while a tenant has no contact is told to the first that it gets.
//   - No link is stored: Link makes one for each attempt.
//
// One goroutine (Run) does it, on the node that does the work of one node for all. The revisions of
// documents let only one of two commit.
package contacts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// New returns a Keeper. Nothing is told before Run.
func New(o Options) *Keeper {
	k := &Keeper{o: o, bounds: bounds.Fill(o.Bounds), now: o.Now}
	if k.now == nil {
		k.now = time.Now
	}
	return k
}

// Run tells until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for failures := 0; backoff.Wait(ctx.Done(), k.bounds.Every); {
		if err := k.Round(ctx); err == nil {
			failures = 0
		} else if failures++; backoff.Tells(failures) && ctx.Err() == nil {
			k.o.Log.Warn("telling contacts failed; retrying", "failures", failures, "err", err)
		}
	}
}

// Round looks at the endpoints of every tenant that has contacts, or had, and commits the stages
// that they have reached. A tenant that fails keeps no other from its messages.
func (k *Keeper) Round(ctx context.Context) error {
	if !k.o.Engine.Leads() {
		return nil
	}
	// The documents are read before the endpoints: a node that commits meanwhile changes their
	// revisions, and this round's commit fails.
	docs, err := k.list(ctx, KindTrouble)
	if err != nil {
		return err
	}
	tenants := map[string]*tenant{}
	of := func(name string) *tenant {
		if tenants[name] == nil {
			tenants[name] = &tenant{keeper: k, name: name, now: k.moment(), sender: k.o.Engine.Sender(), docs: map[string]store.Document{}}
		}
		return tenants[name]
	}
	for i := range docs {
		of(docs[i].Tenant).docs[docs[i].ID] = docs[i]
	}
	k.o.Engine.EachEndpoint(store.Everyone(), func(ep *grapnel.Endpoint) bool {
		if c := ep.Channel; c != nil && c.Contact != nil && c.Contact.Confirmed() && ep.Status == grapnel.EndpointEnabled {
			if t := of(ep.Tenant); t.sender.URL.Text != "" {
				t.contacts = append(t.contacts, ep.ID)
			}
		}
		return true
	})
	// A second pass, and not one for each tenant: a pass looks at the endpoints of all of them.
	k.o.Engine.EachEndpoint(store.Everyone(), func(ep *grapnel.Endpoint) bool {
		if t := tenants[ep.Tenant]; t != nil && ep.Receives() && (len(t.contacts) > 0 || t.docs[ep.ID].ID != "") {
			t.endpoints = append(t.endpoints, ep)
		}
		return true
	})
	var failed error
	for _, name := range slices.Sorted(maps.Keys(tenants)) {
		if err := tenants[name].round(ctx); err != nil && !harmless(err) {
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

// moment is now, as stores have times.
func (k *Keeper) moment() time.Time { return k.now().Round(0).UTC().Truncate(time.Microsecond) }

// list reads all documents of a kind.
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

// harmless says whether a failed commit needs no mention: another node was quicker, the tenant is
// being deleted, or the store is unavailable, which others report. The next round starts over.
func harmless(err error) bool {
	switch grapnel.CodeOf(err) {
	case grapnel.CodeConflict, grapnel.CodeUnavailable, grapnel.CodeTenantEnds:
		return true
	}
	return false
}

// tenant is what one round does for one tenant.
type tenant struct {
	keeper    *Keeper
	name      string
	now       time.Time
	sender    grapnel.Sender
	contacts  []string // endpoints that get messages
	docs      map[string]store.Document
	endpoints []*grapnel.Endpoint      // to look at: those with a document, and, if there are contacts, the others
	backlogs  map[string]store.Backlog // by endpoint; nil: not read yet
}

// step is the change of one endpoint's trouble.
type step struct {
	endpoint *grapnel.Endpoint // nil: it was deleted
	doc      store.Document
	before   Trouble
	next     Trouble
	ended    bool
}

// round steps the tenant's endpoints, and those with a document that were deleted.
func (t *tenant) round(ctx context.Context) error {
	k := t.keeper
	ids, seen := make([]string, len(t.endpoints)), map[string]bool{}
	for i, ep := range t.endpoints {
		ids[i], seen[ep.ID] = ep.ID, true
	}
	var steps []step
	for i, health := range k.o.Engine.Healths(ids) {
		s := step{endpoint: t.endpoints[i], doc: t.docs[ids[i]]}
		if err := s.read(); err != nil {
			return err
		}
		look := Look{Now: t.now, Endpoint: s.endpoint, Health: health}
		if s.needsGood(&look) {
			totals, err := t.totals(ctx, ids[i], cmp.Or(s.before.Began, t.now))
			if err != nil {
				return err
			}
			look.Good = totals.Delivered
		}
		s.next, s.ended = s.before.Step(&look, &k.bounds)
		steps = append(steps, s)
	}
	for _, id := range slices.Sorted(maps.Keys(t.docs)) {
		if !seen[id] {
			steps = append(steps, step{doc: t.docs[id], ended: true})
		}
	}
	for i := range steps {
		if err := t.commit(ctx, &steps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) read() error {
	if s.doc.ID == "" {
		return nil
	}
	if err := json.Unmarshal(s.doc.Body, &s.before); err != nil {
		return fmt.Errorf("contacts: the stored trouble of %s cannot be read: %w", s.doc.ID, err)
	}
	return nil
}

// needsGood says whether the step depends on the number of successes.
func (s *step) needsGood(l *Look) bool {
	if l.Status == grapnel.EndpointDisabled {
		return s.before.Stage != Disabled && !l.byHand()
	}
	return s.before.Stage == Disabled && l.Health.FailingSince.IsZero()
}

// totals are those of an endpoint since the hour of a time.
func (t *tenant) totals(ctx context.Context, endpoint string, from time.Time) (sum grapnel.Totals, err error) {
	buckets, err := t.keeper.o.Store.Totals(ctx, store.Of(t.name), store.TotalsQuery{Tenant: t.name, Endpoint: endpoint,
		From: from.Truncate(time.Hour)})
	for i := range buckets {
		sum.Add(&buckets[i].Totals)
	}
	return sum, err
}

// commit stores the change of an endpoint's trouble, with its message if there is one.
func (t *tenant) commit(ctx context.Context, s *step) error {
	k := t.keeper
	doc := store.Document{Tenant: t.name, Kind: KindTrouble, ID: s.doc.ID, Revision: s.doc.Revision, At: t.now}
	if s.ended {
		if s.doc.ID == "" {
			return nil
		}
		_, err := t.put(ctx, nil, store.DocumentWrite{Document: doc, Delete: true})
		if err == nil {
			k.o.Log.Info("trouble of an endpoint ended without a message", "tenant", t.name, "endpoint", s.doc.ID, "stage", s.before.Stage,
				"told", s.before.Told)
		}
		return err
	}
	if s.next.Stage == "" {
		return nil
	}
	doc.ID = s.endpoint.ID
	var budget store.Document
	var message *grapnel.Event
	writes := []store.DocumentWrite{}
	if len(t.contacts) > 0 && s.next.owes() {
		var is Budget
		var err error
		if budget, is, err = k.budget(ctx, t.name); err != nil {
			return err
		}
		switch {
		case is.take(t.now, t.perDay()):
			if message, err = t.message(ctx, s, is.Held); err != nil {
				return err
			}
			is.Held, s.next.Told, s.next.Held = 0, s.next.Stage, ""
		case s.next.Held != s.next.Stage:
			is.Held++
			s.next.Held = s.next.Stage
			k.o.Log.Warn("message to contacts held back until tomorrow: the budget of the day is used up", "tenant", t.name,
				"endpoint", doc.ID, "stage", s.next.Stage)
		}
		budget.At, budget.Body = t.now, encode(is)
		writes = append(writes, store.DocumentWrite{Document: budget})
	}
	if s.next == s.before && s.doc.ID != "" {
		return nil
	}
	doc.Body = encode(s.next)
	if s.next.Told != Recovered {
		writes = append(writes, store.DocumentWrite{Document: doc})
	} else if s.doc.ID != "" {
		doc.Body = nil
		writes = append(writes, store.DocumentWrite{Document: doc, Delete: true})
	}
	_, err := t.put(ctx, message, writes...)
	if err == nil && message != nil {
		k.o.Log.Info("contacts told", "tenant", t.name, "endpoint", s.endpoint.ID, "stage", s.next.Stage, "contacts", len(t.contacts),
			"event", message.ID)
	}
	return err
}

// perDay is the number of messages on one day.
func (t *tenant) perDay() int { return cmp.Or(t.sender.PerDay, t.keeper.bounds.PerDay) }

// put commits documents, and a message to all contacts of the tenant if it is not nil.
func (t *tenant) put(ctx context.Context, message *grapnel.Event, writes ...store.DocumentWrite) (store.Put, error) {
	return t.keeper.o.Engine.PutDocuments(ctx, store.Everyone(), store.With{},
		func(targets func(*grapnel.Event, []string) []store.Target) ([]store.DocumentWrite, []store.Incoming) {
			if message == nil {
				return writes, nil
			}
			return writes, []store.Incoming{{Event: message, Targets: targets(message, t.contacts)}}
		})
}

// budget reads the budget of a tenant, and its document.
func (k *Keeper) budget(ctx context.Context, tenant string) (doc store.Document, is Budget, err error) {
	doc, err = k.o.Store.Document(ctx, store.Of(tenant), tenant, KindBudget, tenant)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return store.Document{Tenant: tenant, Kind: KindBudget, ID: tenant}, is, nil
	}
	if err == nil {
		err = json.Unmarshal(doc.Body, &is)
	}
	return doc, is, err
}

func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("contacts: cannot be encoded: " + err.Error()) // documents hold texts, numbers and times
	}
	return body
}

// message makes the event of a stage's message. Its id follows from the stage and the beginning of
// the episode, so a repeated commit creates no second one.
func (t *tenant) message(ctx context.Context, s *step, unsent int) (*grapnel.Event, error) {
	f, err := t.facts(ctx, s.endpoint.ID, s.next.Began)
	if err != nil {
		return nil, err
	}
	f.Unsent = unsent
	d := message(s.endpoint, &s.next, &f, &t.sender)
	return t.keeper.event(t.name, s.endpoint.ID, &d, t.now, fmt.Sprint(s.next.Began.UnixMicro())), nil
}

// event makes the event of a message. Those with one key stay in order at each contact.
func (k *Keeper) event(tenant, key string, d *Data, now time.Time, of string) *grapnel.Event {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{"contact", tenant, key, string(d.Stage), of}))
	return &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, now, bytes.NewReader(sum[:])), Tenant: tenant, Type: grapnel.EventAlertContact,
		Key: key, Data: encode(d), ContentType: grapnel.JSONType, OccurredAt: now, AcceptedAt: now}
}

// lastTries is the number of deliveries among which the last failed attempt is looked for.
const lastTries = 50

// facts reads what a message says of an endpoint.
func (t *tenant) facts(ctx context.Context, endpoint string, since time.Time) (f Facts, err error) {
	k := t.keeper
	if t.backlogs == nil {
		all, err := k.o.Store.Backlogs(ctx, store.Of(t.name), t.name, t.now, k.bounds.Heads)
		if err != nil {
			return f, err
		}
		t.backlogs = map[string]store.Backlog{}
		for i := range all {
			t.backlogs[all[i].Endpoint] = all[i]
		}
	}
	b := t.backlogs[endpoint]
	f.Waiting, f.Dead, f.More = b.Pending, b.Dead, b.DeadMore
	totals, err := t.totals(ctx, endpoint, since)
	if err != nil {
		return f, err
	}
	f.Failed = totals.FailedAttempts()
	newest, err := k.o.Store.DeliveryList(ctx, store.Of(t.name), store.DeliveryQuery{Endpoint: endpoint, Tenant: t.name, Limit: lastTries,
		Status: []grapnel.Status{grapnel.Pending, grapnel.Held, grapnel.Failed}})
	if err != nil {
		return f, err
	}
	for i := range newest {
		if last := newest[i].Last; last.Class != "" && last.Class != policy.ClassNone {
			f.Class, f.Status = last.Class, last.StatusCode
			return f, nil
		}
	}
	most := int64(0)
	by := totals.Classes.By()
	for _, class := range slices.Sorted(maps.Keys(by)) {
		if by[class] > most && class != policy.ClassNone {
			f.Class, most = class, by[class]
		}
	}
	return f, nil
}
