package erase

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// furnish gives a tenant one of everything that is configured, a document and an audit entry.
func (w *world) furnish(tenant string) {
	w.Helper()
	everyone := store.Everyone()
	ok := func(_ store.Put, err error) { w.Helper(); w.must(err) }
	b, id := w.engine.Book, func(kind string) string { return kind + "_" + tenant }
	ok(b.PutKey(w.Context(), everyone, grapnel.Key{ID: id("key"), Tenant: tenant, Hash: [32]byte{tenant[0]}}, store.With{}))
	ok(b.PutSource(w.Context(), everyone, grapnel.Source{ID: id("src"), Tenant: tenant, Name: "s"}, store.With{}))
	ok(b.PutPolicy(w.Context(), everyone, grapnel.NamedPolicy{ID: id("pol"), Tenant: tenant, Name: "p"}, store.With{}))
	ok(b.PutEventType(w.Context(), everyone, grapnel.EventType{ID: id("typ"), Tenant: tenant, Name: "user.changed"}, store.With{}))
	ok(b.PutAccess(w.Context(), everyone, grapnel.TermsRecord(tenant, grapnel.Terms{MaxPending: 7}), store.With{}))
	ok(b.PutAccess(w.Context(), everyone, grapnel.SeriesRecord(tenant, "series"), store.With{}))
	usage := store.Document{Tenant: tenant, Kind: "usage", ID: tenant, At: start, Body: []byte("{}")}
	audit := &grapnel.AuditEntry{At: start, Tenant: tenant, Actor: "key_1", Verb: grapnel.VerbChange}
	ok(w.store.PutDocuments(w.Context(), everyone, []store.DocumentWrite{{Document: usage}}, store.With{Audit: audit}))
}

// holds says what the store has of a tenant.
func (w *world) holds(tenant string) string {
	w.Helper()
	conf, err := w.store.Config(w.Context())
	w.must(err)
	var all []string
	note := func(of, what string) {
		if of == tenant {
			all = append(all, what)
		}
	}
	for i := range conf.Endpoints {
		note(conf.Endpoints[i].Tenant, "endpoint")
	}
	for i := range conf.Sources {
		note(conf.Sources[i].Tenant, "source")
	}
	for i := range conf.Policies {
		note(conf.Policies[i].Tenant, "policy")
	}
	for i := range conf.Types {
		note(conf.Types[i].Tenant, "type")
	}
	for i := range conf.Keys {
		note(conf.Keys[i].Tenant, "key")
	}
	for i := range conf.Access {
		note(conf.Access[i].Tenant, "access")
		if end := conf.Access[i].End; end != nil {
			note(end.Tenant, "end")
		}
	}
	events, err := w.store.EventList(w.Context(), store.Of(tenant), store.EventQuery{Tenant: tenant, Limit: 100})
	w.must(err)
	audit, err := w.store.AuditList(w.Context(), store.Of(tenant), store.AuditQuery{Tenant: tenant, Limit: 100})
	w.must(err)
	documents, err := w.store.DocumentList(w.Context(), store.Of(tenant), store.DocumentQuery{Kind: "usage", Limit: 100})
	w.must(err)
	return fmt.Sprint(all, " ", len(events), " events, ", len(audit), " entries, ", len(documents), " documents")
}

const nothing = "[] 0 events, 0 entries, 0 documents"

func (w *world) endTenant(tenant string) *Job {
	w.Helper()
	j, _, err := w.runner.Tenant(w.Context(), tenant, grapnel.By{Actor: "key_1", Reason: "ticket 12"}, nil)
	w.must(err)
	return j
}

// TestTenantEnds: nothing of the tenant is left but the job and two entries of the audit, which are
// the operator's. Another tenant has everything. A tenant of the same name begins with nothing.
func TestTenantEnds(t *testing.T) {
	w := newWorld(t, 7)
	w.furnish("acme")
	w.furnish("bolt")
	before := w.holds("bolt")
	w.runner.o.Backups = func() []string { return []string{"daily.db"} }
	j := w.endTenant("acme")
	if again := w.endTenant("acme"); again.ID != j.ID {
		t.Errorf("ordered again: %s, not %s", again.ID, j.ID)
	}
	if shown, err := w.runner.Get(t.Context(), j.ID); err != nil || shown.By != ByTenant || shown.State != Running || shown.Reason != "ticket 12" {
		t.Errorf("before it begins: %+v, %v", shown, err)
	}
	if err := w.engine.Accepts("acme"); grapnel.CodeOf(err) != grapnel.CodeTenantEnds {
		t.Errorf("while it ends: %v", err)
	}
	done := w.finish(j.ID)
	if got := w.holds("acme"); got != nothing {
		t.Errorf("left: %s", got)
	}
	if got := w.holds("bolt"); got != before {
		t.Errorf("the other tenant has %s, not %s", got, before)
	}
	if done.Counts["events"] != 7 || done.Counts["deliveries"] != 7 || done.Counts["objects"] != 7 || done.Counts["rows"] == 0 ||
		done.FinishedAt.Sub(start) < w.runner.bounds.Quiet || len(done.Remains) != 1 ||
		!strings.HasPrefix(done.Remains[0], "backup daily.db: if it is sealed") {
		t.Errorf("%+v", done)
	}
	audit, err := w.store.AuditList(t.Context(), store.Everyone(), store.AuditQuery{Endpoint: j.ID, Limit: 10})
	if err != nil || len(audit) != 2 || audit[1].Actor != "key_1" || audit[1].Reason != "tenant acme: ticket 12" ||
		!strings.HasPrefix(audit[0].Reason, "tenant acme: everything is erased: ") {
		t.Errorf("audit %+v, %v", audit, err)
	}
	if _, _, err := w.runner.Tenant(t.Context(), "acme", grapnel.By{}, nil); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		t.Errorf("ordered when it has ended: %v", err)
	}
	w.furnish("acme")
	if got := w.holds("acme"); got != "[source policy type key access access] 0 events, 1 entries, 1 documents" {
		t.Errorf("begun anew: %s", got)
	}
}

// TestTenantEndsAfterOtherErasures: a job that erases events of the tenant is done before the
// tenant's rows are deleted, and rows that are stored late are deleted too.
func TestTenantEndsAfterOtherErasures(t *testing.T) {
	w := newWorld(t, 4)
	other, _, err := w.runner.Events(t.Context(), "acme", Selection{Key: "user-1"}, grapnel.By{Actor: "key_1"}, nil)
	w.must(err)
	j := w.endTenant("acme")
	late := false
	for range 1000 {
		_, _ = w.runner.turn(t.Context())
		is, err := w.runner.Get(t.Context(), j.ID)
		w.must(err)
		before, err := w.runner.Get(t.Context(), other.ID)
		w.must(err)
		if is.Part != Objects && before.State != Done {
			t.Fatal("the rows are being deleted while another job of the tenant runs")
		}
		if is.Part == Quiet && !late { // a node that had not known of the order
			late = true
			w.must(w.store.SetAside(t.Context(), grapnel.Aside{ID: "req_1", Tenant: "acme", Why: grapnel.AsideUnverified,
				Intake: grapnel.Intake{At: start}}))
		}
		if is.State == Done {
			break
		}
		w.later += time.Second
	}
	if asides, err := w.store.AsideList(t.Context(), store.Of("acme"), store.AsideQuery{Limit: 1}); !late || err != nil || len(asides) > 0 {
		t.Errorf("late %v, left %v, %v", late, asides, err)
	}
}

// TestTenantEndsThroughFaults: calls fail, with or without their effect, and the process is
// replaced at random moments. At the end nothing is left of the tenant, and the other one has
// everything.
func TestTenantEndsThroughFaults(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, 9)
		w.furnish("acme")
		w.furnish("bolt")
		before := w.holds("bolt")
		random, lost, faults := rand.New(rand.NewPCG(8, seed)), errors.New("lost"), 0
		w.engine.fail = func() error {
			if random.IntN(4) == 0 {
				return lost
			}
			return nil
		}
		w.faulty.Injure = func(string) memory.Fault {
			if faults < 80 && random.IntN(4) == 0 {
				faults++
				return memory.Fault{Err: lost, Applied: random.IntN(2) == 0}
			}
			return memory.Fault{}
		}
		var j *Job
		for j == nil { // the caller repeats it
			j, _, _ = w.runner.Tenant(t.Context(), "acme", grapnel.By{Actor: "key_1", Reason: "x"}, nil)
		}
		for range 60 {
			if random.IntN(3) == 0 {
				w.restart()
			}
			_, _ = w.runner.turn(t.Context())
			w.later += time.Second
		}
		w.faulty.Injure, w.engine.fail = nil, func() error { return nil }
		w.finish(j.ID)
		if got := w.holds("acme"); got != nothing || faults == 0 {
			t.Errorf("seed %d: left %s after %d faults", seed, got, faults)
		}
		if got := w.holds("bolt"); got != before {
			t.Errorf("seed %d: the other tenant has %s, not %s", seed, got, before)
		}
		if off, err := w.store.Imbalance(t.Context()); off != 0 || err != nil {
			t.Errorf("seed %d: imbalance %d, %v", seed, off, err)
		}
	}
}
