package server

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// payloads are texts of every kind that the database has of events, requests and answers, by kind.
func payloads() map[string]string {
	return map[string]string{
		"data":               "canary-of-data",
		"metadata":           "canary-of-metadata",
		"captured body":      "canary-of-a-captured-body",
		"captured path":      "canary-of-a-captured-path",
		"request set aside":  "canary-of-a-request-set-aside",
		"answer of a retry":  "canary-of-an-answer-before-a-retry",
		"answer":             "canary-of-an-answer",
		"header of answer":   "canary-of-a-header-of-an-answer",
		"transform's quote":  "canary-of-a-quote",
		"consumer's reason":  "canary-of-a-consumer",
		"consumer's verdict": "canary-of-a-verdict",
	}
}

// planted names what plantPayloads has stored.
type planted struct {
	event, received, aside, delivery string
}

// plantPayloads stores each of the payloads, and checks that the API shows them.
func plantPayloads(t *testing.T, s running, tenant string) (is planted) {
	t.Helper()
	of, c := payloads(), s.client(t, testKey)
	var asked atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, of["answer of a retry"])
			return
		}
		w.Header().Set("X-Answer", of["header of answer"])
		_, _ = io.WriteString(w, of["answer"])
	}))
	t.Cleanup(receiver.Close)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: tenant, URL: receiver.URL, EventTypes: []string{"order"},
		Policy: json.RawMessage(`{"schedule":{"mode":"since_previous","delays":["0s","10ms","1h"]}}`)})
	must(err)
	quoting, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: tenant, URL: receiver.URL, EventTypes: []string{"order"},
		Transform: `error(.data.quoted)`})
	must(err)
	queue, err := c.CreateQueue(t.Context(), client.NewQueue{Tenant: tenant, Name: "work", EventTypes: []string{"order"}})
	must(err)
	src, err := c.CreateSource(t.Context(), client.NewSource{Tenant: tenant, Name: "hub", OnUnverified: grapnel.Quarantine,
		Verify: client.NewVerify{Scheme: "github", Secret: "of the source"}})
	must(err)
	p, err := c.Publish(t.Context(), client.NewEvent{Tenant: tenant, Type: "order", Metadata: map[string]string{"note": of["metadata"]},
		Data: json.RawMessage(`{"id": "` + of["data"] + `", "quoted": "` + of["transform's quote"] + `"}`)})
	must(err)
	is.event = p.ID
	provider := s.hub(t, src, "of the source")
	provider.url += "?from=" + of["captured path"]
	is.received = provider.send("1", `{"title": "`+of["captured body"]+`"}`).ID
	provider.secret = "another"
	is.aside = provider.send("2", `{"title": "`+of["request set aside"]+`"}`).ID
	var leased []client.Message
	poll(t, "the queue has the event", func() bool {
		leased, err = c.Next(t.Context(), queue.ID, client.Take{Consumer: "worker"})
		must(err)
		return len(leased) == 1
	})
	must(c.Nack(t.Context(), leased[0].Lease, of["consumer's reason"], 0))
	poll(t, "the event comes again", func() bool {
		leased, err = c.Next(t.Context(), queue.ID, client.Take{Consumer: "worker"})
		must(err)
		return len(leased) == 1
	})
	must(c.Reject(t.Context(), leased[0].Lease, of["consumer's verdict"]))
	for endpoint, status := range map[string]grapnel.Status{ep.ID: grapnel.Delivered, quoting.ID: grapnel.Failed} {
		poll(t, "the delivery has ended", func() bool {
			page, err := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: endpoint})
			must(err)
			if endpoint == ep.ID && len(page.Data) == 1 {
				is.delivery = page.Data[0].ID
			}
			return len(page.Data) == 1 && page.Data[0].Status == status
		})
	}
	return is
}

// showsPayloads checks that the API and a page show every payload of plantPayloads.
func showsPayloads(t *testing.T, s running, tenant string, is planted) {
	t.Helper()
	c := s.client(t, testKey)
	var shown bytes.Buffer
	show := func(v any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&shown).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	show(c.EventOf(t.Context(), tenant, is.event))
	show(c.Delivery(t.Context(), is.delivery))
	show(c.InboxRequestOf(t.Context(), tenant, is.received))
	show(c.InboxRequestOf(t.Context(), tenant, is.aside))
	page, err := c.Deliveries(t.Context(), client.DeliveryFilter{Tenant: tenant, Text: payloads()["data"]})
	show(page, err)
	if len(page.Data) != 3 {
		t.Errorf("a search finds %d deliveries", len(page.Data))
	}
	for i := range page.Data {
		show(c.Delivery(t.Context(), page.Data[i].ID))
	}
	for kind, text := range payloads() {
		if !strings.Contains(shown.String(), text) {
			t.Errorf("the API shows no %s", kind)
		}
	}
}

// TestNoFileHasAPayloadInClear: while the server runs, after it has stopped, and in a backup. With
// a master key but without SealPayloads the same search finds every payload. When the setting
// changes, stored payloads stay as they were stored, and are shown.
func TestNoFileHasAPayloadInClear(t *testing.T) {
	all := slices.Sorted(maps.Keys(payloads()))
	master, _ := masterFile(t, "a")
	for _, seals := range []bool{false, true} {
		dir := t.TempDir()
		o := options(dir)
		o.AdminKey, o.MasterKey, o.SealPayloads = testKey, master, seals
		o.Bounds.SQLite.Apart, o.Bounds.SQLite.LeastApart = 1, 2 // the file of data has data
		look := func(when string, want ...string) {
			t.Helper()
			if got, files := seen(t, dir, payloads()); !slices.Equal(got, want) || files < 4 {
				t.Errorf("%s, sealed %v: in %d files these are in clear: %q; want %q", when, seals, files, got, want)
			}
		}
		clear := all
		if seals {
			clear = nil
		}
		s := start(t, o)
		is := plantPayloads(t, s, "acme")
		showsPayloads(t, s, "acme", is)
		look("running", clear...)
		if _, err := Backup(t.Context(), o.Store, filepath.Join(dir, "backup.db")); err != nil {
			t.Fatal(err)
		}
		look("with a backup", clear...)
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		look("stopped", clear...)
		o.SealPayloads = !seals
		s = start(t, o)
		showsPayloads(t, s, "acme", is)
		look("after a start with the other setting", clear...)
		if seals {
			late := plantPayloads(t, s, "late")
			showsPayloads(t, s, "late", late)
			look("without the setting", all...)
		}
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestErasedPayloads: without a tenant's data key its events, requests and attempts are shown, as
// erased; a publish with the id of one is refused, and the tenant goes on with a new data key.
func TestErasedPayloads(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.SealPayloads = testKey, true
	o.MasterKey, _ = masterFile(t, "a")
	s := start(t, o)
	is := plantPayloads(t, s, "acme")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite3.Open(strings.TrimPrefix(o.Store, "sqlite:"), sqlite3.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"data_key", "endpoint", "source", "document", "policy", "event_type"} {
		if err := conn.Exec("DELETE FROM " + table + " WHERE tenant = 'acme'"); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	c := s.client(t, testKey)
	e, err := c.EventOf(t.Context(), "acme", is.event)
	if err != nil || !e.Erased || e.Data != nil || len(e.Deliveries) != 3 || e.Type != "order" {
		t.Errorf("the event: %+v, %v", e, err)
	}
	list, err := c.Events(t.Context(), client.EventFilter{Tenant: "acme"})
	if err != nil || len(list.Data) == 0 || !list.Data[0].Erased {
		t.Errorf("the list of events: %+v, %v", list, err)
	}
	d, err := c.Delivery(t.Context(), is.delivery)
	if err != nil || len(d.Attempts) != 2 || !d.Attempts[0].Erased || d.Attempts[0].StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the delivery: %+v, %v", d, err)
	}
	for _, id := range []string{is.received, is.aside} {
		if r, err := c.InboxRequestOf(t.Context(), "acme", id); err != nil || !r.Erased || r.SourceID == "" || r.Content() != nil {
			t.Errorf("the request: %+v, %v", r, err)
		}
	}
	inbox, err := c.Inbox(t.Context(), client.InboxFilter{Tenant: "acme"})
	if err != nil || len(inbox.Data) != 2 {
		t.Errorf("the inbox: %+v, %v", inbox, err)
	}
	if _, err := c.Publish(t.Context(), client.NewEvent{ID: is.event, Tenant: "acme", Type: "order", Data: []byte(`{}`)}); err == nil {
		t.Error("an erased event was published again")
	}
	if p, err := c.Publish(t.Context(), client.NewEvent{Tenant: "acme", Type: "order", Data: []byte(`{"a": 1}`)}); err != nil {
		t.Error(err)
	} else if e, err := c.EventOf(t.Context(), "acme", p.ID); err != nil || string(e.Data) != `{"a":1}` {
		t.Errorf("a new event: %+v, %v", e, err)
	}
	if e, err := c.EventOf(t.Context(), "acme", is.event); err != nil || !e.Erased {
		t.Errorf("with a new data key: %+v, %v", e, err)
	}
	b := newBrowser(t, s.URL())
	b.signIn(testKey)
	for path, says := range map[string]string{"/events/" + is.event: "Erased", "/events": "erased", "/deliveries/" + is.delivery: "Erased",
		"/inbox/" + is.aside: "Erased", "/inbox": is.aside, "/dead-letters": "erased"} {
		if status, _, page := b.ask("GET", path, nil); status != http.StatusOK || strings.Contains(page, "canary") || !strings.Contains(page, says) {
			t.Errorf("%s: %d, without %q: %.200s", path, status, says, page)
		}
	}
}
