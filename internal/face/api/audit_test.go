package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/chain"
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
