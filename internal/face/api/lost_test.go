package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writing are the methods of the store that commit what a request asks for.
var writing = []string{"Append", "Record", "Again", "Advance", "End", "PutEndpoint", "PutSource", "DeleteSource",
	"PutPolicy", "DeletePolicy", "PutEventType", "DeleteEventType", "PutKey", "DeleteKey", "PutAccess", "DeleteAccess", "PutReplay", "Annotate", "Note", "Clear", "Extend", "SetAside",
	"PutDocuments"}

// TestLostAnswers: when the answer to a commit is lost the caller hears 503, that it may have been
// done, and when to come again. It is done once, however often the same request comes.
func TestLostAnswers(t *testing.T) {
	for _, rt := range routes() {
		if rt.method == "GET" || rt.bare != nil || rt.open != nil ||
			slices.Contains([]string{"simulate-policy", "preview-event", "open-portal", "backtest-alert-rule", "sign-out"}, rt.name) ||
			strings.Contains(rt.path, "/tenants/") {
			continue // they commit nothing, or not in this store, or nothing for keys
		}
		t.Run(rt.name, func(t *testing.T) {
			w, names := prepared(t)
			target := fill(rt.path, things(names, &rt))
			if rt.name == "delete-policy" {
				target = names.Replace("/v1/policies/FREE") // nothing uses it
			}
			if rt.name == "retry-deliveries" {
				target = names.Replace("/v1/deliveries/retry?endpoint=EP") // one order: a repetition goes on with those that follow a lost one
			}
			send := func() reply {
				var once []string
				if rt.method == "POST" {
					once = []string{"Idempotency-Key", "once"}
				}
				return w.ask(admin, rt.method, target, bodies()[rt.name], once...)
			}
			lost := ""
			w.engine.loses(func(method string) bool {
				if lost != "" || !slices.Contains(writing, method) {
					return false
				}
				lost = method
				return true
			})
			first := send()
			w.engine.loses(nil)
			w.engine.forget()
			switch {
			case lost == "" && (strings.HasPrefix(rt.name, "resume-") || rt.name == "settle-leases"):
				return // it is so already, or there is no such lease
			case lost == "":
				t.Fatalf("nothing was committed: answered %d %s", first.StatusCode, first.body)
			case lost == "Record" && first.StatusCode == 204 && strings.HasSuffix(rt.name, "-lease"):
				return // the caller that settles leases has repeated it
			}
			p := first.object(t)
			if detail, _ := p["detail"].(string); first.StatusCode != 503 || p["code"] != "unavailable" || first.Header.Get("Retry-After") != "1" ||
				!strings.Contains(detail, "may have been done") || strings.Contains(string(first.body), "/secret") {
				t.Errorf("%s: answered %d %s", lost, first.StatusCode, first.body)
			}
			before := w.dump()
			again := send()
			if again.StatusCode >= 500 {
				t.Errorf("%s: then answered %d %s", lost, again.StatusCode, again.body)
			}
			if d := cmp.Diff(before, w.dump()); rt.method == "POST" && d != "" {
				t.Errorf("%s: it was done twice: %s", lost, d)
			}
		})
	}
}
