package engine

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

func storedIssues(t *testing.T, from store.Documents) (all []*issue.Issue) {
	t.Helper()
	docs, err := from.DocumentList(t.Context(), store.Everyone(), store.DocumentQuery{Kind: issue.Kind, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		i, err := issue.Decode(doc.Body, doc.Revision)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	return all
}

// Attempts become an issue: it opens with the first failures, answers that differ in numbers are of
// one issue, another status is another one. Successes resolve it, and a failure opens it again.
// What fails while the engine drains is stored as well.
func TestAttemptsBecomeIssues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.New())
		defer b.net.Close()
		defer b.halt()
		refuse := func(n int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(422)
			_, _ = w.Write([]byte(`{"error":"invoice 4` + string(rune('0'+n%10)) + ` is refused"}`))
		}
		there := &receiver{then: refuse}
		b.endpoint("ep", there, func(ep *grapnel.Endpoint) {
			ep.PolicyName, ep.Policy = "", parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s"]},"max_attempts":1,"breaker":false}`)
		})
		b.publish("k", 10)
		time.Sleep(time.Minute)
		all := storedIssues(t, b.store)
		if len(all) != 1 {
			t.Fatalf("%d issues", len(all))
		}
		i := all[0]
		deliveries, keys, roughly := i.Affected()
		if i.State != issue.Open || i.Endpoint != "ep" || i.Class != policy.ClassStatus4xx || i.Status != 422 || i.Answer != `{"error":"invoice # is refused"}` ||
			i.Delta.Count != 10 || deliveries != 10 || keys != 1 || roughly || len(i.Examples) != 5 {
			t.Fatalf("%+v", i)
		}
		ids := map[string]bool{}
		for _, d := range b.deliveries("ep") {
			ids[b.store.IDs().Of(&d)] = true
		}
		for _, e := range i.Examples {
			if !ids[e.Delivery] {
				t.Errorf("no delivery %s", e.Delivery)
			}
		}
		there.answer(nil)
		b.publish("k", 19)
		time.Sleep(time.Minute)
		if i := storedIssues(t, b.store)[0]; i.State != issue.Open {
			t.Errorf("resolved after 19 successes: %+v", i)
		}
		b.publish("k", 1)
		time.Sleep(time.Minute)
		if i := storedIssues(t, b.store)[0]; i.State != issue.Resolved || i.ChangedBy != grapnel.ActorItself {
			t.Errorf("not resolved: %+v", i)
		}
		there.answer(refuse)
		b.publish("k", 1)
		time.Sleep(time.Minute)
		if i := storedIssues(t, b.store)[0]; i.State != issue.Open || i.Regressions != 1 || i.Delta.Count != 11 {
			t.Errorf("not opened again: %+v", i)
		}
		there.answer(status(500))
		b.publish("k", 1)
		synctest.Wait()
		b.halt()
		if all := storedIssues(t, b.store); len(all) != 2 {
			t.Errorf("%d issues after the engine stopped", len(all))
		}
	})
}
