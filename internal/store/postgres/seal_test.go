package postgres

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

type write struct {
	name string
	do   func(h *household) error
	want error // nil: the call succeeds but writes nothing
}

// writes are all calls that write rows of a tenant. Each states the error for a sealed tenant; for
// any other tenant each call is valid.
var writes = []write{
	{"Append", func(h *household) error {
		_, err := h.Append(h.Context(), store.Batch{Config: version(h.T, h.Store), Events: []store.Incoming{h.event("new_"+h.tenant, "k",
			h.endpoint)}})
		return err
	}, store.ErrSealed},
	{"Record", func(h *household) error {
		for _, c := range []store.Change{deliver(h.waits[0]), deliver(h.waits[0]), {Delivery: 1 << 60,
			Standing: &store.Standing{Endpoint: h.endpoint, Number: 2}}} {
			c.Standing = &store.Standing{Endpoint: h.endpoint, Number: 2}
			if done := h.record(c)[0]; done.Fenced {
				return store.ErrFenced
			}
		}
		return nil
	}, store.ErrFenced},
	{"Record of what is over", func(h *household) error {
		if h.record(store.Change{Delivery: h.failed.Seq, Expect: 1, Status: grapnel.Delivered})[0].Fenced {
			return store.ErrFenced
		}
		return nil
	}, store.ErrFenced},
	{"Record of what is not there", func(h *household) error {
		if h.record(store.Change{Delivery: 1 << 60, Standing: &store.Standing{Endpoint: h.endpoint, Number: 9}})[0].Fenced {
			return store.ErrFenced
		}
		return nil
	}, store.ErrFenced},
	{"Hasten", func(h *household) error {
		h.T.Helper()
		late := h.waits[1]
		if done := h.record(store.Change{Delivery: late.Delivery, Status: grapnel.Pending, At: at(20), Due: at(900),
			EndpointWide: true}); done[0].Fenced {
			return store.ErrFenced
		}
		_, err := h.Store.Hasten(h.Context(), h.endpoint, store.Hastening{Before: at(500), At: at(30)}, 100)
		return err
	}, store.ErrFenced},
	{"End", func(h *household) error {
		_, err := h.End(h.Context(), h.endpoint, store.Ending{Status: grapnel.Skipped, At: at(40), UpTo: h.waits[1].Delivery}, 1)
		return err
	}, store.ErrFenced},
	{"Again", func(h *household) error {
		_, err := h.Again(h.Context(), store.Everyone(), store.Redelivery{Of: h.failed.Seq, At: at(41), Audit: h.note()})
		return err
	}, store.ErrSealed},
	{"Annotate", func(h *household) error {
		return h.Annotate(h.Context(), store.Everyone(), store.Annotation{Delivery: h.failed.Seq, Discard: "known", At: at(42)})
	}, store.ErrSealed},
	{"Claim", func(h *household) error {
		_, err := h.Claim(h.Context(), store.Claim{Queue: h.queue, Now: at(50), Wants: []store.Want{{Token: "lse_2" + h.tenant,
			For: time.Minute}}})
		return err
	}, store.ErrSealed},
	{"Extend", func(h *household) error {
		_, err := h.Extend(h.Context(), h.lease.Token, at(51), time.Hour)
		return err
	}, store.ErrSealed},
	{"Advance", func(h *household) error {
		r, err := h.Replay(h.Context(), store.Everyone(), "rpl_"+h.tenant)
		h.must(err)
		_, err = h.Advance(h.Context(), store.ReplayStep{Replay: r.ID, From: r.Cursor, To: r.Cursor + 1, At: at(52)})
		return err
	}, store.ErrSealed},
	{"PutReplay", func(h *household) error {
		r, err := h.Replay(h.Context(), store.Everyone(), "rpl_"+h.tenant)
		h.must(err)
		r.Status = grapnel.ReplayPaused
		_, err = h.PutReplay(h.Context(), store.Everyone(), r, store.With{Audit: h.note()})
		return err
	}, store.ErrSealed},
	{"PutReplay of a new one", func(h *household) error {
		_, err := h.PutReplay(h.Context(), store.Everyone(), grapnel.Replay{ID: "rpl_2" + h.tenant, Tenant: h.tenant,
			Endpoint: h.endpoint, Status: grapnel.ReplayRunning}, store.With{})
		return err
	}, store.ErrSealed},
	{"PutEndpoint", func(h *household) error {
		ep := h.ep(h.endpoint)
		ep.Revision, ep.Description = 1, "another"
		_, err := h.PutEndpoint(h.Context(), store.Everyone(), ep, store.With{Audit: h.note()})
		return err
	}, store.ErrSealed},
	{"PutEndpoint with news", func(h *household) error {
		ep := h.ep("ep_2" + h.tenant)
		ep.Tenant = "nobody"
		_, err := h.PutEndpoint(h.Context(), store.Everyone(), ep, store.With{Tell: &store.Batch{Config: version(h.T, h.Store),
			Events: []store.Incoming{h.event("told_"+h.tenant, "", h.endpoint)}}})
		return err
	}, store.ErrSealed},
	{"RemoveEndpoint", func(h *household) error { return h.RemoveEndpoint(h.Context(), "ep_gone_"+h.tenant) }, store.ErrSealed},
	{"PutSource", func(h *household) error {
		_, err := h.PutSource(h.Context(), store.Everyone(), grapnel.Source{ID: h.source + "2", Tenant: h.tenant, Name: "s2"}, store.With{})
		return err
	}, store.ErrSealed},
	{"DeleteSource", func(h *household) error {
		_, err := h.DeleteSource(h.Context(), store.Everyone(), h.source, store.With{Audit: h.note()})
		return err
	}, store.ErrSealed},
	{"PutPolicy", func(h *household) error {
		_, err := h.PutPolicy(h.Context(), store.Everyone(), grapnel.NamedPolicy{ID: "pol_2" + h.tenant, Tenant: h.tenant, Name: "p2",
			Policy: h.ep("").Policy}, store.With{})
		return err
	}, store.ErrSealed},
	{"DeletePolicy", func(h *household) error {
		return h.DeletePolicy(h.Context(), store.Everyone(), "pol_"+h.tenant, store.With{})
	}, store.ErrSealed},
	{"PutEventType", func(h *household) error {
		_, err := h.PutEventType(h.Context(), store.Everyone(), grapnel.EventType{ID: "typ_2" + h.tenant, Tenant: h.tenant,
			Name: "t2"}, store.With{})
		return err
	}, store.ErrSealed},
	{"DeleteEventType", func(h *household) error {
		return h.DeleteEventType(h.Context(), store.Everyone(), "typ_"+h.tenant, store.With{})
	}, store.ErrSealed},
	{"PutKey", func(h *household) error {
		_, err := h.PutKey(h.Context(), store.Everyone(), grapnel.Key{ID: "key_2" + h.tenant, Tenant: h.tenant}, store.With{Once: h.once("key")})
		return err
	}, store.ErrSealed},
	{"DeleteKey", func(h *household) error {
		return h.DeleteKey(h.Context(), store.Everyone(), "key_"+h.tenant, store.With{})
	}, store.ErrSealed},
	{"Note", func(h *household) error {
		e := *h.note()
		e.Reason = "another"
		return h.Note(h.Context(), e)
	}, store.ErrSealed},
	{"SetAside", func(h *household) error {
		return h.SetAside(h.Context(), grapnel.Aside{ID: "req_2" + h.tenant, Tenant: h.tenant, Why: grapnel.AsideRefused})
	}, store.ErrSealed},
	{"ChangeAside", func(h *household) error {
		return h.ChangeAside(h.Context(), grapnel.Aside{ID: "req_" + h.tenant, Tenant: h.tenant, Why: grapnel.AsideConflict}, false)
	}, store.ErrSealed},
	{"ChangeAside that deletes", func(h *household) error {
		return h.ChangeAside(h.Context(), grapnel.Aside{ID: "req_" + h.tenant, Tenant: h.tenant}, true)
	}, store.ErrSealed},
	{"Purge", func(h *household) error {
		_, err := h.Purge(h.Context(), store.Keep{Now: at(10_000), Rules: []store.KeepRule{{Tenant: h.tenant}, {For: 1 << 60}}}, 1000)
		return err
	}, nil},
	{"Clear", func(h *household) error {
		h.must(h.Note(h.Context(), grapnel.AuditEntry{At: at(9), Tenant: "somebody", Reason: h.tenant})) // the newest stays
		_, err := h.Clear(h.Context(), store.Clearing{Audit: at(8), Replays: at(10_000)}, 1000)
		return err
	}, nil},
	{"PutDocuments of a new one", func(h *household) error { return h.writeDocument("doc_2", 0, false) }, store.ErrSealed},
	{"PutDocuments", func(h *household) error { return h.writeDocument("doc_1", 1, false) }, store.ErrSealed},
	{"PutDocuments that deletes", func(h *household) error { return h.writeDocument("doc_1", 1, true) }, store.ErrSealed},
	{"PutDocuments of another tenant with news", func(h *household) error {
		_, err := h.PutDocuments(h.Context(), store.Everyone(), nil, store.With{Tell: &store.Batch{Config: version(h.T, h.Store),
			Events: []store.Incoming{h.event("noticed_"+h.tenant, "", h.endpoint)}}})
		return err
	}, store.ErrSealed},
	{"ClearDocuments", func(h *household) error {
		_, err := h.ClearDocuments(h.Context(), "alert", at(10_000), 1000)
		return err
	}, nil},
	{"Unlearn", func(h *household) error {
		_, err := h.Unlearn(h.Context(), at(0), at(10_000), 1000)
		return err
	}, nil},
}

// reads are the calls that write no tenant's rows, or only remove expired ones.
var reads = strings.Fields(`Aside AsideList AuditList Backlogs Candidates Changes Close Config Counts Delivery DeliveryList DeliverySearch Document DocumentList Event EventList Events HasType Head Heads IDs
	Imbalance Lease LeaseList QueueCounts Recall Remember Replay ReplayItems ReplayList Standings StuckLanes Totals Version Waiting Forget`)

func TestEveryWriteIsTried(t *testing.T) {
	t.Parallel()
	all := reflect.TypeFor[store.Store]()
	for i := range all.NumMethod() {
		name := all.Method(i).Name
		if !slices.Contains(reads, name) && !slices.ContainsFunc(writes, func(w write) bool {
			first, _, _ := strings.Cut(w.name,
				" ")
			return first == name
		}) {
			t.Errorf("nobody tries what %s does with who is sealed", name)
		}
	}
}

// TestSealed makes every writing call for a sealed tenant and for another one.
func TestSealed(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	acme := settle(t, s, "acme")
	_, err := s.PutTenancy(t.Context(), grapnel.Tenancy{Tenant: "acme", State: grapnel.TenancySealed, Move: "mov_1", Other: "b",
		Since: at(0)}, grapnel.TenancyHere, nil)
	acme.must(err)
	before := digests(t, s, "acme")
	for table, d := range before {
		if d.rows == 0 {
			t.Errorf("there is nothing in %s, so nothing is shown", table)
		}
	}
	for _, w := range writes {
		if err := w.do(acme); !errors.Is(err, w.want) {
			t.Errorf("%s of who is sealed: %v, want %v", w.name, err, w.want)
		}
		same(t, digests(t, s, "acme"), before, "after "+w.name)
	}

	// The same calls succeed for a tenant that is not sealed.
	for _, w := range writes {
		bolt := settle(t, s, "b"+digitsOf(w.name))
		before := digests(t, s, bolt.tenant)
		if err := w.do(bolt); err != nil {
			t.Errorf("%s of who is not sealed: %v", w.name, err)
		}
		if same := digests(t, s, bolt.tenant); w.name != "Record of what is over" && sameDigests(same, before) {
			t.Errorf("%s did nothing", w.name)
		}
	}
	same(t, digests(t, s, "acme"), before, "after all")
	mixed := []store.Incoming{settle(t, s, "zoe").event("z", "", "ep_zoe"), acme.event("y", "", acme.endpoint)}
	if _, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: mixed}); !errors.Is(err, store.ErrSealed) {
		t.Errorf("a batch of two: %v", err)
	}
	balanced(t, s)
}

func sameDigests(a, b map[string]digest) bool {
	for table := range a {
		if a[table] != b[table] {
			return false
		}
	}
	return true
}

// digitsOf makes a valid tenant name from a text.
func digitsOf(text string) (name string) {
	for _, r := range text {
		if r != ' ' {
			name += string(r)
		}
	}
	return name
}
