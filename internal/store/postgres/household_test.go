package postgres

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// household is a tenant with a row in every table.
type household struct {
	*testing.T
	*Store
	tenant          string
	endpoint, queue string
	source          string
	lease           grapnel.Lease
	failed          grapnel.Delivery // redelivered, and named by a replay
	waits           []store.Head
}

func (h *household) must(err error) {
	h.Helper()
	if err != nil {
		h.T.Fatal(err)
	}
}

func (h *household) ep(id string) grapnel.Endpoint {
	p, _ := policy.Preset("standard")
	return grapnel.Endpoint{ID: id, Tenant: h.tenant, URL: "https://example.com", PolicyName: "standard", Policy: p,
		Ordering: grapnel.OrderByKey,
		Status:   grapnel.EndpointEnabled, CreatedAt: at(0), UpdatedAt: at(0)}
}

func (h *household) event(id, key string, endpoints ...string) store.Incoming {
	in := incomingTo(id, key, endpoints...)
	in.Event.Tenant = h.tenant
	return in
}

func (h *household) known(id string, until int) *store.Known {
	return &store.Known{Source: h.source, By: []byte(id), Until: at(until)}
}

func (h *household) once(key string) *store.Once {
	return &store.Once{Key: "key_" + h.tenant + "/" + key, Now: at(1), Expires: at(100_000),
		Answer: func(any) store.Answer { return store.Answer{Status: 202, Body: []byte("made " + h.tenant)} }}
}

func (h *household) note() *grapnel.AuditEntry {
	return &grapnel.AuditEntry{At: at(7), Tenant: h.tenant, Actor: "key_" + h.tenant, Verb: grapnel.VerbNote, Endpoint: h.endpoint,
		Delivery: h.failed.PlainID(), Reason: "looked at"}
}

// writeDocument writes or deletes a document with the given revision.
func (h *household) writeDocument(id string, revision int64, deletes bool) error {
	_, err := h.PutDocuments(h.Context(), store.Everyone(), []store.DocumentWrite{{Delete: deletes,
		Document: store.Document{Tenant: h.tenant, Kind: "alert", ID: id, Revision: revision, At: at(11), Body: []byte("{}")}}}, store.With{})
	return err
}

func (h *household) append(in ...store.Incoming) store.Accepted {
	h.Helper()
	done, err := h.Append(h.Context(), store.Batch{Config: version(h.T, h.Store), Events: in})
	h.must(err)
	return done
}

func (h *household) record(c ...store.Change) []store.Changed {
	h.Helper()
	done, err := h.Record(h.Context(), c)
	h.must(err)
	return done
}

// settle creates a tenant in a store.
func settle(t *testing.T, s *Store, tenant string) *household {
	t.Helper()
	h := &household{T: t, Store: s, tenant: tenant, endpoint: "ep_" + tenant, queue: "que_" + tenant, source: "src_" + tenant}
	ctx, mine := t.Context(), store.Of(tenant)
	_, err := s.PutKey(ctx, mine, grapnel.Key{ID: "key_" + tenant, Tenant: tenant, Name: "k", CreatedAt: at(0)}, store.With{})
	h.must(err)
	_, err = s.PutPolicy(ctx, mine, grapnel.NamedPolicy{ID: "pol_" + tenant, Tenant: tenant, Name: "p", Policy: h.ep("").Policy,
		CreatedAt: at(0)}, store.With{})
	h.must(err)
	_, err = s.PutEventType(ctx, mine, grapnel.EventType{ID: "typ_" + tenant, Tenant: tenant, Name: "t", Check: grapnel.CheckRefuse,
		Versions: []grapnel.TypeVersion{{Schema: `{"type":"string"}`, CreatedAt: at(0)}}, CreatedAt: at(0)}, store.With{})
	h.must(err)
	_, err = s.PutSource(ctx, mine, grapnel.Source{ID: h.source, Tenant: tenant, Name: "s", CreatedAt: at(0)}, store.With{})
	h.must(err)
	_, err = s.PutEndpoint(ctx, mine, h.ep(h.endpoint), store.With{})
	h.must(err)
	queue := h.ep(h.queue)
	queue.URL, queue.Queue = "", &grapnel.Queue{Name: "q", Lease: time.Minute}
	_, err = s.PutEndpoint(ctx, mine, queue, store.With{})
	h.must(err)
	gone := h.ep("ep_gone_" + tenant)
	gone.DeletedAt = at(1)
	_, err = s.PutEndpoint(ctx, mine, gone, store.With{})
	h.must(err)

	in := h.event(tenant+"_1", "k", h.endpoint, h.queue)
	in.Known = h.known("a", 100_000)
	heads := h.append(in, h.event(tenant+"_2", "k", h.endpoint), h.event(tenant+"_3", "", h.endpoint, h.queue),
		h.event(tenant+"_4", "l", h.endpoint, h.endpoint+"x")).Heads
	first := heads[0]
	attempt := &grapnel.Attempt{Number: 1, StatusCode: 503, Class: policy.ClassStatus5xx, Duration: time.Millisecond, StartedAt: at(2)}
	h.record(store.Change{Delivery: first.Delivery, Status: grapnel.Pending, At: at(3), Due: at(4), Trigger: grapnel.TriggerSchedule,
		Attempt: attempt, EndpointWide: true,
		Standing: &store.Standing{Endpoint: h.endpoint, Number: 1, Standing: policy.Standing{Strikes: 1}}})
	last := *attempt
	last.Number = 2
	h.record(store.Change{Delivery: first.Delivery, Expect: 1, Status: grapnel.Failed, ReasonCode: grapnel.ReasonExhausted, At: at(5),
		Attempt: &last})
	failed, err := s.Delivery(ctx, mine, first.Delivery)
	h.must(err)
	h.failed = *failed
	_, err = s.Again(ctx, mine, store.Redelivery{Of: first.Delivery, Trigger: grapnel.TriggerManual, Ordered: true, At: at(6), Audit: h.note(),
		Once: h.once("again")})
	h.must(err)
	note := "looked at"
	h.must(s.Annotate(ctx, mine, store.Annotation{Delivery: first.Delivery, Note: &note, At: at(7)}))
	_, err = s.PutReplay(ctx, mine, grapnel.Replay{ID: "rpl_" + tenant, Tenant: tenant, Endpoint: h.endpoint, Status: grapnel.ReplayRunning,
		CreatedAt: at(8),
		Reason:    `"deliveries":[1]`, Selection: grapnel.Selection{Deliveries: []int64{first.Delivery, first.Delivery + 1}}}, store.With{})
	h.must(err)
	_, err = s.Advance(ctx, store.ReplayStep{Replay: "rpl_" + tenant, To: first.Delivery, At: at(9),
		Items: []store.Redelivery{{Of: first.Delivery, Ordered: true}}})
	h.must(err)
	claimed, err := s.Claim(ctx, store.Claim{Queue: h.queue, Now: at(10),
		Wants: []store.Want{{Token: "lse_" + tenant, Consumer: "c", For: time.Hour}}})
	h.must(err)
	h.lease = claimed.Leases[0]
	h.must(s.SetAside(ctx, grapnel.Aside{ID: "req_" + tenant, Tenant: tenant, Why: grapnel.AsideRefused, Body: []byte("?"),
		Intake: grapnel.Intake{Source: h.source, At: at(3)}}))
	h.must(h.writeDocument("doc_1", 0, false))
	h.waits, err = s.Heads(ctx, h.endpoint, 100)
	h.must(err)
	return h
}

// digests are digests of the tenant's rows, one per table.
func digests(t *testing.T, s *Store, tenant string) map[string]digest {
	t.Helper()
	all := make(map[string]digest)
	err := pgx.BeginTxFunc(t.Context(), s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		of, err := find(t.Context(), tx, tenant)
		for i := range movings {
			if err == nil {
				all[movings[i].table], err = digestRows(t.Context(), tx, movings[i].here(of))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, got, want any, what string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(digest{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
