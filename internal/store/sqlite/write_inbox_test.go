package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// TestWhatIsCorruptIsNotShown changes bytes of stored requests.
func TestWhatIsCorruptIsNotShown(t *testing.T) {
	s, _ := openNew(t)
	in := someIntakeOf("src_1")
	e := &grapnel.Event{ID: "evt_1", Tenant: "acme", Type: "a.b", Source: "src_1", Intake: in, Data: []byte("{}")}
	if _, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e}}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"asd_1", "asd_2", "asd_3"} {
		a := grapnel.Aside{ID: id, Tenant: "acme", Why: grapnel.AsideUnverified, ContentType: "text/plain", Body: []byte("body"), Intake: *in}
		if err := s.SetAside(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	spoil := func(sql string) {
		t.Helper()
		if err := s.write(t.Context(), &change{do: func(t *tx) error { return t.conn.Exec(sql) }}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(limit int) (ids []string) {
		t.Helper()
		all, err := s.AsideList(t.Context(), store.Everyone(), store.AsideQuery{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			ids = append(ids, a.ID)
		}
		return ids
	}
	spoil("UPDATE aside SET body = 'bodY' WHERE id = 'asd_1'; UPDATE aside SET intake = zeroblob(100) WHERE id = 'asd_2'")
	for id, want := range map[string]bool{"asd_1": false, "asd_2": false, "asd_3": true} {
		if _, err := s.Aside(t.Context(), store.Everyone(), id); (err == nil) != want || !want && !errors.Is(err, codec.ErrMangled) {
			t.Errorf("request %s: %v", id, err)
		}
	}
	for _, limit := range []int{2, 10} { // a list shorter than its limit would be the end for its reader
		if diff := cmp.Diff([]string{"asd_3", "asd_1"}, list(limit)); diff != "" {
			t.Errorf("list of %d (-want +got):\n%s", limit, diff)
		}
	}
	if _, _, err := s.Event(t.Context(), store.Everyone(), "", "evt_1"); err != nil {
		t.Fatal(err)
	}
	spoil("UPDATE kind SET source = 'src_2'")
	if events, err := s.Events(t.Context(), []int64{1}); err != nil || events[0] != nil {
		t.Errorf("an event of another source: %+v, %v", events[0], err)
	}
	spoil("UPDATE kind SET source = 'src_1'; UPDATE event SET intake = substr(intake, 1, length(intake) - 1) || 'x'")
	if _, _, err := s.Event(t.Context(), store.Everyone(), "", "evt_1"); !errors.Is(err, codec.ErrMangled) {
		t.Errorf("an event with another intake: %v", err)
	}
	if events, err := s.Events(t.Context(), []int64{1}); err != nil || events[0] == nil {
		t.Errorf("the event without its intake: %v", err)
	}
}

func someIntakeOf(source string) *grapnel.Intake {
	return &grapnel.Intake{Source: source, Method: "POST", Path: "/in/" + source, Headers: []grapnel.Header{{Name: "X", Value: "y"}}}
}

// TestUnlearnedBytesAreGone sets requests of all sizes aside, stores Known records, and deletes
// some. No file contains their bodies, headers or event ids afterwards.
func TestUnlearnedBytesAreGone(t *testing.T) {
	n := 600
	if slow() {
		n = 150
	}
	s, path := openNew(t)
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range n {
		at := base.Add(time.Duration(i) * time.Second)
		body := []byte(secret(i) + strings.Repeat(" ", []int{0, 50, 900, 30000}[i%4]))
		in := grapnel.Intake{Source: "src_1", At: at, Headers: []grapnel.Header{{Name: "X", Value: secret(i)}}}
		why := []grapnel.AsideReason{grapnel.AsideUnverified, grapnel.AsideConflict}[i%2]
		a := grapnel.Aside{ID: fmt.Sprintf("asd_%06d", i), Tenant: "acme", Why: why, Body: body, Intake: in}
		if err := s.SetAside(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		// The event's own bytes stay; only its id is in the Known record as well.
		e := &grapnel.Event{ID: "evt_" + secret(n+i), Tenant: "acme", Type: "a.b", AcceptedAt: at}
		k := &store.Known{Source: "src_1", By: []byte(secret(i)), Until: at}
		if _, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Known: k}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Purge(t.Context(), store.Keep{Now: base.Add(1000 * time.Hour)}, 10*n); err != nil {
		t.Fatal(err)
	}
	for part := 1; part <= 4; part++ {
		gone := n * part / 4
		now := base.Add(time.Duration(gone) * time.Second)
		for limit, removed := 70, 70; removed >= limit; {
			var err error
			if removed, err = s.Unlearn(t.Context(), now, now, limit); err != nil {
				t.Fatal(err)
			}
		}
		all := files(t, path)
		there := secretsIn(all[""])
		for i := range n {
			if there[i] != (i >= gone) || there[n+i] != (i >= gone) {
				t.Fatalf("of %d that are forgotten, request %d is found: %v, event %d: %v", gone, i, there[i], i, there[n+i])
			}
		}
		if len(all["-wal"]) > 0 {
			t.Errorf("the log has %d bytes", len(all["-wal"]))
		}
	}
	if text := strings.Join(integrity(t, path), "; "); text != "ok" {
		t.Errorf("the database is damaged: %s", text)
	}
	if removed, err := s.Unlearn(t.Context(), base, base, 10); removed != 0 || err != nil {
		t.Errorf("removed %d of nothing: %v", removed, err)
	}
	before := s.Stats().Operations
	if _, err := s.Unlearn(t.Context(), base, base, 10); err != nil || s.Stats().Operations != before {
		t.Errorf("forgetting nothing made %d operations: %v", s.Stats().Operations-before, err)
	}
}

// TestListsOfASourceLookAtItsBlocksAlone puts events of a source far apart, and between them enough
// kinds that a block would be read whole.
func TestListsOfASourceLookAtItsBlocksAlone(t *testing.T) {
	s, _ := openNew(t)
	add := func(id, source, kind string) {
		t.Helper()
		e := &grapnel.Event{ID: id, Tenant: "acme", Type: kind, Source: source, Key: "k"}
		if _, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e}}}); err != nil {
			t.Fatal(err)
		}
	}
	skip := func(blocks int64) {
		t.Helper()
		if err := s.write(t.Context(), &change{do: func(t *tx) error { t.events.gave(int(blocks << rows.BlockBits)); return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for i := range s.bounds.Wanted + 20 {
		add(fmt.Sprint("evt_", i), "src_1", fmt.Sprint("a.t", i))
		want = append(want, fmt.Sprint("evt_", i))
		if i%20 == 19 {
			skip(1 << 20)
			add(fmt.Sprint("other_", i), []string{"", "src_2"}[i/20%2], "a.b")
			skip(1 << 20)
		}
	}
	slices.Reverse(want)
	for _, q := range []store.EventQuery{{Source: "src_1"}, {Source: "src_1", Key: "k"}, {Source: "src_1", Type: "a.*"}} {
		var got []string
		q.Limit = 7
		for {
			page, err := s.EventList(t.Context(), store.Of("acme"), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				got = append(got, e.ID)
			}
			q.Before = page[len(page)-1].Seq
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", q, diff)
		}
	}
}

func TestSecretsOfSourcesAreKeptAndNotShown(t *testing.T) {
	src := grapnel.Source{ID: "src_1", Verify: grapnel.Verify{Secrets: []grapnel.Secret{{Text: "whsec_x"}}}}
	body, err := codec.EncodeSource(src)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(body, []byte("whsec_x")) {
		t.Errorf("the secret is not kept: %s", body)
	}
	if text := fmt.Sprintf("%+v", src); strings.Contains(text, "whsec_x") {
		t.Errorf("a source shows its secret: %s", text)
	}
}
