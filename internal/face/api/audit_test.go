package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/chain"
	"github.com/grapnelhq/grapnel/internal/store"
)

// exported returns an export of the audit, and the report of its check.
func (w *world) exported(target string, after *chain.Hash) (text []byte, is chain.Report) {
	w.t.Helper()
	r := w.ask(admin, "GET", target, "")
	if r.StatusCode != 200 {
		w.t.Fatalf("%s: answered %d %s", target, r.StatusCode, r.body)
	}
	c := chain.NewChecker(after, chain.Bounds{})
	_, _ = c.Write(r.body)
	return r.body, c.End(nil)
}

// noted stores an entry.
func (w *world) noted(e grapnel.AuditEntry) {
	w.t.Helper()
	if err := w.engine.Note(w.t.Context(), e); err != nil {
		w.t.Fatal(err)
	}
}

// TestAuditIsExportedAsAChain: two exports are equal; one that continues another gives, behind it,
// what one of all gives; and the lines are the entries of the list.
func TestAuditIsExportedAsAChain(t *testing.T) {
	w := newWorld(t)
	w.options.Bounds.ExportPage = 2
	w.handler = New(w.options)
	if text, is := w.exported("/v1/audit/export", &chain.Hash{}); len(text) != 0 || !is.Verified {
		t.Fatalf("no entries: %q %+v", text, is)
	}
	act := func(n int) {
		for range n {
			w.noted(grapnel.AuditEntry{At: w.clock, Tenant: "acme", Actor: "key_<admin>", Verb: grapnel.VerbNote, Endpoint: "ep_1", Reason: "\"it\" & more"})
			w.clock = w.clock.Add(1e6)
		}
	}
	act(3)
	january, is := w.exported("/v1/audit/export", &chain.Hash{})
	if !is.Verified || is.Lines != 3 || is.First != 1 || is.Last != 3 {
		t.Fatalf("three entries: %+v", is)
	}
	head, err := chain.Parse(is.Head)
	if err != nil {
		t.Fatal(err)
	}
	onwards := "/v1/audit/export?after=3&prev=" + is.Head
	if text, is := w.exported(onwards, &head); len(text) != 0 || !is.Verified {
		t.Errorf("nothing follows: %q %+v", text, is)
	}
	act(4)
	february, is := w.exported(onwards, &head)
	if !is.Verified || is.Lines != 4 || is.First != 4 {
		t.Errorf("four more: %+v", is)
	}
	all, is := w.exported("/v1/audit/export", &chain.Hash{})
	again, _ := w.exported("/v1/audit/export", &chain.Hash{})
	if !is.Verified || !bytes.Equal(all, append(january, february...)) || !bytes.Equal(all, again) {
		t.Errorf("in one part:\n%s\nin two:\n%s%s", all, january, february)
	}
	var listed struct{ Data []json.RawMessage }
	if err := json.Unmarshal(w.ask(admin, "GET", "/v1/audit", "").body, &listed); err != nil {
		t.Fatal(err)
	}
	for i, line := range bytes.Split(bytes.TrimSuffix(all, []byte("\n")), []byte("\n")) {
		entry := listed.Data[len(listed.Data)-1-i]
		if !bytes.HasPrefix(line, append(bytes.TrimSuffix(entry, []byte("}")), `,"prev":"`...)) {
			t.Errorf("line %d is %s, the list has %s", i+1, line, entry)
		}
	}
	if r := w.ask(admin, "HEAD", "/v1/audit/export", ""); r.StatusCode != 200 || len(r.body) != 0 {
		t.Errorf("HEAD: answered %d and %d bytes", r.StatusCode, len(r.body))
	}
	if r := w.ask(acmeAdmin, "GET", "/v1/audit/export", ""); r.StatusCode != 403 {
		t.Errorf("a key of a tenant: answered %d", r.StatusCode)
	}
	if r := w.ask(admin, "GET", "/v1/audit/export?after=8&prev="+is.Head, ""); r.StatusCode != 422 || !strings.Contains(string(r.body), "higher than 7") {
		t.Errorf("after an entry of another database: answered %d %s", r.StatusCode, r.body)
	}
}

// countingAudit counts the reads about one thing.
type countingAudit struct {
	History
	reads map[string]int
}

func (a *countingAudit) AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error) {
	if q.Endpoint != "" {
		a.reads[q.Endpoint]++
	}
	return a.History.AuditList(ctx, scope, q)
}

// TestTheAuditNamesDeletedThings: each entry about a deleted thing has the name that the thing had,
// for those who saw it, by one read for each thing; reasons are the actor's own words.
func TestTheAuditNamesDeletedThings(t *testing.T) {
	a := &countingAudit{reads: map[string]int{}}
	w := newWorld(t, func(o *Options) { a.History, o.History, o.Bounds.NameScan = o.History, a, 5 })
	const hostile, own = "\"Ware\\house\": x\x1f\n\"", `"it": moved, "why"`
	quoted, _ := json.Marshal(hostile)
	names := map[string]string{}
	for _, thing := range []struct{ path, body, name string }{
		{"/v1/endpoints", `{"url":"https://a.example/hook?token=t"}`, "a.example/hook"},
		{"/v1/endpoints", `{"url":"https://a.example","description":` + string(quoted) + `}`, hostile},
		{"/v1/queues", `{"name":"orders"}`, "orders"}, {"/v1/channels", `{"url":"` + slackURL + `"}`, "Slack"},
		{"/v1/contacts", `{"mail":"ops@example.com"}`, "Mail"},
		{"/v1/sources", `{"name":"shop: 1","verify":{"scheme":"stripe","secret":"whsec_the_first"}}`, "shop: 1"},
		{"/v1/keys", `{"name":"ci: 1","scopes":["read"]}`, "ci: 1"},
	} {
		id := w.as(acmeAdmin, 201, "POST", thing.path, thing.body)["id"].(string)
		names[id] = thing.name
		reason := "?reason=" + url.QueryEscape(own)
		if thing.path == "/v1/keys" {
			reason = ""
		}
		w.as(acmeAdmin, 204, "DELETE", thing.path+"/"+id+reason, "")
	}
	is := func(key string, want func(id string) string) (entries int) {
		t.Helper()
		clear(a.reads)
		for _, one := range w.as(key, 200, "GET", "/v1/audit", "")["data"].([]any) {
			e := one.(map[string]any)
			id, _ := e["endpoint_id"].(string)
			if _, ours := names[id]; !ours {
				continue
			}
			entries++
			if got, _ := e["name"].(string); got != want(id) {
				t.Errorf("%s sees %q as %q", key, names[id], got)
			}
			if e["verb"] == "delete" && !strings.HasPrefix(id, "key_") && e["reason"] != own {
				t.Errorf("%s: the reason is %q", names[id], e["reason"])
			}
		}
		for id, n := range a.reads {
			if n > 1 {
				t.Errorf("%q: %d reads", names[id], n)
			}
		}
		return entries
	}
	if n := is(acmeAdmin, func(id string) string { return names[id] }); n != 2*len(names) || len(a.reads) != 0 {
		t.Errorf("%d entries, not %d; reads %v of things whose deletion is on the page", n, 2*len(names), a.reads)
	}
	is(w.pass(portalScopes), func(id string) string {
		if strings.HasPrefix(id, "ep_") || strings.HasPrefix(id, "que_") {
			return names[id]
		}
		return "" // a source
	})
	if text, _ := w.exported("/v1/audit/export", &chain.Hash{}); !bytes.Contains(text, []byte(`"name":"orders"`)) {
		t.Errorf("the export has no name for the deleted queue: %s", text)
	}
	w.key("key_globex", "grp_test_admin_of_globex", "globex", grapnel.ScopeAdmin)
	if n := is("grp_test_admin_of_globex", nil); n != 0 {
		t.Errorf("another tenant sees %d entries", n)
	}
	for id := range names { // newer entries, on a page of their own
		w.noted(grapnel.AuditEntry{At: w.clock, Tenant: "acme", Actor: "key_acme", Verb: grapnel.VerbNote, Endpoint: id})
	}
	page := func(name string) (got []string) {
		clear(a.reads)
		for _, one := range w.as(acmeAdmin, 200, "GET", fmt.Sprint("/v1/audit?limit=", len(names)), "")["data"].([]any) {
			e := one.(map[string]any)
			if got, _ := e["name"].(string); got != names[e["endpoint_id"].(string)] && !strings.HasPrefix(e["endpoint_id"].(string), "key_") {
				t.Errorf("a page %s: %q is %q", name, names[e["endpoint_id"].(string)], got)
			}
		}
		return slices.Collect(maps.Keys(a.reads))
	}
	if got := page("without deletions"); len(got) != len(names)-1 {
		t.Errorf("%d reads for %d things", len(got), len(names)-1)
	}
	if got := w.names(acmeAdmin, "/v1/audit?search=note", "name"); !slices.Contains(got, "Slack") || !slices.Contains(got, hostile) {
		t.Errorf("a search shows %q", got)
	}
	for key, sees := range map[string]bool{w.pass(portalScopes): false, acmeAdmin: true} { // one entry on each page
		if got := w.names(key, "/v1/audit?limit=1", "name"); slices.Contains(got, "shop: 1") != sees || !slices.Contains(got, hostile) {
			t.Errorf("%s sees %q", key, got)
		}
	}
	old := grapnel.AuditEntry{Tenant: "acme", Actor: "key_acme", Verb: grapnel.VerbDelete, Endpoint: "ep_old", Reason: `"so": they said`}
	w.noted(old)
	got := w.as(acmeAdmin, 200, "GET", "/v1/audit?endpoint=ep_old", "")["data"].([]any)[0].(map[string]any)
	if got["name"] != nil || got["reason"] != old.Reason {
		t.Errorf("an entry from before is %v", got)
	}
	for id, name := range names {
		if name != "orders" {
			continue
		}
		for i := range w.options.Bounds.NameScan {
			w.noted(grapnel.AuditEntry{At: w.clock, Tenant: "acme", Actor: "key_acme", Verb: grapnel.VerbNote, Endpoint: id, Reason: fmt.Sprint(i)})
		}
		got := w.as(acmeAdmin, 200, "GET", "/v1/audit?limit=1&endpoint="+id, "")["data"].([]any)[0].(map[string]any)
		if got["name"] != nil {
			t.Errorf("a name behind %d entries is found: %v", w.options.Bounds.NameScan, got)
		}
	}
}
