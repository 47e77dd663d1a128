package postgres

import (
	"fmt"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestTextsThatPostgresRefuses records outcomes with NUL and invalid UTF-8 in every text. None of
// them may make the database refuse a page.
func TestTextsThatPostgresRefuses(t *testing.T) {
	t.Parallel()
	s := open(t, blank(t), Options{CallersClock: true})
	defer func() { _ = s.Close() }()
	putEndpoint(t, s, "ep_1")
	var in []store.Incoming
	for i := range 5 {
		in = append(in, incomingTo(fmt.Sprint("e", i), "", "ep_1"))
	}
	done, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: in})
	if err != nil {
		t.Fatal(err)
	}
	const bad, legible = "a\x00b\xffc", "a\uFFFDb\uFFFDc"
	var changes []store.Change
	for i, h := range done.Heads[:4] {
		c := store.Change{Delivery: h.Delivery, Status: grapnel.Failed, At: at(5), Due: at(9), Reason: bad, ReasonCode: bad, Trigger: bad,
			Attempt: &grapnel.Attempt{Number: 1, StatusCode: 400, Class: bad, Error: bad, ResponseHeaders: map[string]string{bad: bad},
				ResponseBody: []byte(bad)}}
		switch i {
		case 1:
			c.Status = grapnel.Pending
		case 2:
			c.Audit = &grapnel.AuditEntry{At: at(5), Tenant: "acme", Actor: bad, Verb: bad, Endpoint: bad, Delivery: bad, Reason: bad}
			c.Standing = &store.Standing{Endpoint: bad, Number: 1}
		case 3:
			told := incomingTo("evt_told", bad, "ep_1")
			told.Event.Type, told.Event.ContentType, told.Targets[0].Drop = bad, bad, bad
			c.Operational = &store.Batch{Config: version(t, s), Events: []store.Incoming{told}}
		}
		changes = append(changes, c)
	}
	is, err := s.Record(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range is {
		if d, err := s.Delivery(t.Context(), store.Everyone(), changes[i].Delivery); err != nil || !c.Applied || d.Reason != legible ||
			len(d.Attempts) != 1 {
			t.Errorf("change %d: %+v; %+v, %v", i, c, d, err)
		}
	}
	if e, ds, err := s.Event(t.Context(), store.Everyone(), "acme", "evt_told"); err != nil || e.Key != legible || len(ds) != 1 ||
		ds[0].Reason != legible {
		t.Errorf("what was told: %+v, %+v, %v", e, ds, err)
	}
	if list, err := s.AuditList(t.Context(), store.Everyone(), store.AuditQuery{Tenant: "acme", Limit: 9}); err != nil ||
		list[0].Reason != legible {
		t.Errorf("the audit: %+v, %v", list, err)
	}
	n, err := s.End(t.Context(), "ep_1", store.Ending{Status: grapnel.Discarded, Reason: bad, ReasonCode: bad, At: at(9)}, 100)
	if err != nil || n != 2 {
		t.Errorf("ended %d, %v", n, err)
	}
	// An invalid name is refused, together with its request only.
	_, err = s.Append(t.Context(), store.Batch{Config: version(t, s), Events: []store.Incoming{incomingTo("x", bad, "ep_1")}})
	if grapnel.CodeOf(err) != grapnel.CodeInvalid {
		t.Errorf("a key that no row can have: %v", err)
	}
}
