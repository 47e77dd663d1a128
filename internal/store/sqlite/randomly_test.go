package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// randomly makes operations of all kinds that the journal holds, some that it does not, and some
// that fail in the middle of their transaction.
type randomly struct {
	*rand.Rand
	t      *testing.T
	s      *Store
	config int64
	now    time.Time
	ids    int
	heads  []store.Head
	leases []grapnel.Lease
}

var errPoison = errors.New("poison")

// poisoned is an entry that fails in the middle of its transaction.
type poisoned struct{ appending }

func (o *poisoned) apply(t *tx) error {
	if err := o.appending.apply(t); err != nil {
		return err
	}
	return errPoison
}

func (r *randomly) event() store.Incoming {
	r.ids++
	id := r.ids
	if r.IntN(10) == 0 {
		id = 1 + r.IntN(r.ids) // a duplicate or a conflict
	}
	in := store.Incoming{Event: &grapnel.Event{ID: fmt.Sprint("evt_", id), Tenant: []string{"acme", "other"}[r.IntN(2)],
		Type: fmt.Sprint("t.", r.IntN(4)), Data: []byte(strings.Repeat("x", r.IntN(3000))),
		AcceptedAt: r.now, OccurredAt: r.now.Add(-time.Second)}}
	if r.IntN(2) == 0 {
		in.Event.Key = fmt.Sprint("k", r.IntN(3))
		in.Event.Metadata = map[string]string{"a": "b"}
	}
	if r.IntN(4) == 0 {
		in.Known = &store.Known{Source: "src", By: []byte{byte(r.IntN(40))}, Until: r.now.Add(time.Hour)}
		in.Event.Source = "src"
	}
	for range r.IntN(3) {
		in.Targets = append(in.Targets, store.Target{Endpoint: []string{"ep_a", "ep_b", "q_a"}[r.IntN(3)], Ordered: r.IntN(2) == 0,
			Trigger: grapnel.TriggerSchedule, Delay: time.Duration(r.IntN(2)) * time.Second, Drop: []string{"", "", "", "full"}[r.IntN(4)]})
	}
	return in
}

func (r *randomly) batch() store.Batch {
	b := store.Batch{Config: r.config}
	if r.IntN(20) == 0 {
		b.Config-- // refused
	}
	for range 1 + r.IntN(3) {
		b.Events = append(b.Events, r.event())
	}
	if r.IntN(5) == 0 {
		b.Once = &store.Once{Key: fmt.Sprint("once", r.IntN(20)), Expires: r.now.Add(time.Hour), Now: r.now, Answer: func(done any) store.Answer {
			return store.Answer{Status: 202, Body: fmt.Appendf(nil, "%d events", len(done.(store.Accepted).Events))}
		}}
	}
	return b
}

func (r *randomly) change(h store.Head) store.Change {
	c := store.Change{Delivery: h.Delivery, Identity: h.Identity(), Expect: store.AnyAttempts, At: r.now, Status: grapnel.Delivered,
		Attempt: &grapnel.Attempt{Number: h.Attempts + 1, StatusCode: 200, StartedAt: r.now, Duration: time.Millisecond}}
	switch r.IntN(4) {
	case 0:
		c.Status, c.ReasonCode, c.Reason, c.NextDelay = grapnel.Failed, grapnel.ReasonExhausted, "no", time.Second
		c.Audit = &grapnel.AuditEntry{At: r.now, Tenant: "acme", Actor: "me", Verb: grapnel.VerbChange, Delivery: fmt.Sprint(h.Delivery)}
	case 1:
		c.Status, c.Due, c.Trigger, c.EndpointWide = grapnel.Pending, r.now.Add(time.Second), grapnel.TriggerSchedule, r.IntN(2) == 0
		c.Standing = &store.Standing{Endpoint: h.Endpoint, Number: int64(r.ids)}
		tell := store.Batch{Config: r.config, Events: []store.Incoming{r.event()}}
		c.Operational = &tell
	}
	return c
}

// step makes one call, or a few at once that share a transaction.
func (r *randomly) step(ctx context.Context) {
	r.t.Helper()
	r.now = r.now.Add(time.Duration(r.IntN(int(2 * time.Second))))
	switch n := r.IntN(14); {
	case n < 5:
		if r.IntN(8) == 0 {
			b := r.batch()
			frozen, err := r.s.batch(ctx, &b)
			if err == nil {
				err = r.s.write(ctx, &poisoned{appending{batch: frozen}})
			}
			if err == nil {
				r.t.Error("poison had no effect")
			}
			return
		}
		done, err := r.s.Append(ctx, r.batch())
		if err != nil && !errors.Is(err, store.ErrStale) {
			r.t.Fatal(err)
		}
		r.heads = append(r.heads, done.Heads...)
	case n < 9 && len(r.heads) > 0:
		i := r.IntN(len(r.heads))
		done, err := r.s.Record(ctx, []store.Change{r.change(r.heads[i])})
		if err != nil {
			r.t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			r.heads = append(r.heads[:i], r.heads[i+1:]...)
		}
		if next := done[0].Next; next != nil {
			r.heads = append(r.heads, *next)
		}
	case n == 9:
		done, err := r.s.Claim(ctx, store.Claim{Queue: "q_a", Now: r.now, Wants: []store.Want{
			{Token: fmt.Sprint("tok", r.ids, "_", r.Uint64()), Consumer: "c", For: time.Second}}})
		if err != nil {
			r.t.Fatal(err)
		}
		r.leases = append(r.leases, done.Leases...)
	case n == 10 && len(r.leases) > 0:
		_, err := r.s.Extend(ctx, r.leases[r.IntN(len(r.leases))].Token, r.now, time.Minute)
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeConflict {
			r.t.Fatal(err)
		}
	case n == 11:
		h := store.MakingDue{Before: r.now.Add(-time.Duration(r.IntN(3)) * time.Second), At: r.now.Add(-time.Duration(r.IntN(5)) * time.Second)}
		if _, err := r.s.MakeDue(ctx, []string{"ep_a", "ep_b", "q_a", "none"}[r.IntN(4)], h, 1+r.IntN(3)); err != nil {
			r.t.Fatal(err)
		}
	case n == 12:
		id := fmt.Sprint("doc", r.IntN(4))
		there, err := r.s.Document(ctx, store.Everyone(), "acme", "kind", id)
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
			r.t.Fatal(err)
		}
		w := store.DocumentWrite{Delete: there.Revision > 0 && r.IntN(4) == 0}
		w.Document = store.Document{Tenant: "acme", Kind: "kind", ID: id, Revision: there.Revision, At: r.now,
			Body: []byte(strings.Repeat("y", r.IntN(300)))}
		with := store.With{}
		if r.IntN(3) == 0 {
			with.Audit = &grapnel.AuditEntry{At: r.now, Tenant: "acme", Actor: "me", Verb: grapnel.VerbChange, Reason: id}
		}
		if _, err := r.s.PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{w}, with); err != nil {
			r.t.Fatal(err)
		}
	case n == 13 && r.IntN(10) == 0: // by a transaction of SQLite
		if _, err := r.s.End(ctx, "ep_b", store.Ending{Status: grapnel.Skipped, At: r.now}, 2); err != nil {
			r.t.Fatal(err)
		}
	}
}
