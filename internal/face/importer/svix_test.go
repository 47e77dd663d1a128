package importer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/face/importer"
	"github.com/grapnelhq/grapnel/wire"
)

// object is one of Svix.
type object = map[string]any

// svixWorld is what the fake has.
type svixWorld struct {
	apps, types []object
	endpoints   map[string][]object // by application
	secrets     map[string]string   // by endpoint
	parts       map[string]object   // by endpoint and the part's name
}

func newSvix(t *testing.T, w *svixWorld) *there {
	t.Helper()
	return newThere(t, func(rw http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
		var out any
		switch {
		case r.URL.Path == "/api/v1/app":
			out = pageOf(r, w.apps, "id")
		case r.URL.Path == "/api/v1/event-type":
			out = pageOf(r, w.types, "name")
		case len(parts) == 3:
			out = pageOf(r, w.endpoints[parts[1]], "id")
		case len(parts) == 5 && parts[4] == "secret":
			out = object{"key": w.secrets[parts[3]]}
		case len(parts) == 5 && w.parts[parts[3]+" "+parts[4]] != nil:
			out = w.parts[parts[3]+" "+parts[4]]
		default:
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(rw).Encode(out)
	})
}

// pageOf is a page as Svix answers it: an iterator is the last id, also of the last page.
func pageOf(r *http.Request, all []object, id string) object {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from := 0
	if iterator := r.URL.Query().Get("iterator"); iterator != "" {
		from = 1 + slices.IndexFunc(all, func(o object) bool { return o[id] == iterator })
	}
	to := min(from+limit, len(all))
	page := object{"data": all[from:to], "done": to == len(all), "iterator": nil}
	if to > from {
		page["iterator"] = all[to-1][id]
	}
	return page
}

// usual has applications with and without a uid, and an endpoint with everything.
func usual() *svixWorld {
	w := &svixWorld{endpoints: map[string][]object{}, secrets: map[string]string{}, parts: map[string]object{}}
	w.apps = []object{
		{"id": "app_2aA", "uid": "acme", "name": "Acme", "metadata": object{"plan": "gold"}},
		{"id": "app_2bB", "name": "No uid"},
		{"id": "app_2cC", "uid": "dotted.uid", "name": "Dotted"},
	}
	w.types = []object{
		{"name": "invoice.paid", "description": "it is paid", "schemas": object{"1": object{"type": "object"}, "2": object{"type": "object", "title": "x"}}},
		{"name": "old", "description": "", "archived": true, "groupName": "g"},
	}
	w.endpoints["app_2aA"] = []object{
		{"id": "ep_1", "uid": "main", "url": "http://127.0.0.1:9/1?key=hidden", "description": "first", "eventTypes": []string{"invoice.paid", "old"},
			"channels": []string{"eu"}, "metadata": object{"team": "billing"}, "throttleRate": 5},
		{"id": "ep_2", "url": "http://127.0.0.1:9/2", "disabled": true},
		{"id": "ep_3", "url": "http://127.0.0.1:9/3"},
	}
	w.endpoints["app_2bB"] = []object{{"id": "ep_4", "url": "http://127.0.0.1:9/4"}}
	for n := 1; n <= 4; n++ {
		w.secrets["ep_"+strconv.Itoa(n)] = secret(n)
	}
	w.secrets["ep_2"] = strings.TrimPrefix(secret(2), "whsec_") // as Svix lets its callers write it
	w.parts["ep_1 headers"] = object{"headers": object{"X-Team": "{billing}"}, "sensitive": []string{"Authorization"}}
	return w
}

var usualIDs = []string{"app_2aA", "app_2bB", "app_2cC", "invoice.paid", "old", "ep_1", "ep_2", "ep_3", "ep_4"}

func all(action string) (lines []string) {
	for _, id := range usualIDs {
		lines = append(lines, action+" "+id)
	}
	return lines
}

func read(t *testing.T, f *there) *importer.Found {
	t.Helper()
	found, err := importer.Svix(t.Context(), f.remote())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSvixIsImportedOnce: every page is read, although each is refused with 429 first. Every object
// is created with its secret and the names by which the API of Svix finds it. A second run changes
// nothing.
func TestSvixIsImportedOnce(t *testing.T) {
	t.Parallel()
	h, f := newHere(t), newSvix(t, usual())
	plan := h.imports(read(t, f))
	h.wants(plan, all("create")...)
	e := h.endpoint("svix.id=ep_1")
	if e.Tenant != "acme" || e.URL != "http://127.0.0.1:9/1?key=hidden" || e.Labels["svix.uid"] != "main" || e.Labels["team"] != "billing" ||
		e.Format != grapnel.FormatRaw || e.Signing != grapnel.SigningSvix || e.RateLimit.PerSecond != 5 || e.Headers["X-Team"] != "{{billing}}" ||
		e.Filter != `event.metadata["svix.channels"].contains(",eu,")` || !slices.Equal(e.EventTypes, []string{"invoice.paid", "old"}) {
		t.Errorf("the endpoint is %+v", e.NewEndpoint)
	}
	for n := 1; n <= 4; n++ {
		if got := h.secretOf(h.endpoint(fmt.Sprintf("svix.id=ep_%d", n))); got != secret(n) {
			t.Errorf("endpoint %d has another secret", n)
		}
	}
	if e := h.endpoint("svix.id=ep_2"); e.Status != grapnel.EndpointDisabled {
		t.Errorf("a disabled endpoint is %s", e.Status)
	}
	for id, tenant := range map[string]string{"ep_4": "ten_2bB", "ep_1": "acme"} {
		if e := h.endpoint("svix.id=" + id); e.Tenant != tenant {
			t.Errorf("%s is one of %s, not %s", id, e.Tenant, tenant)
		}
	}
	if typ, err := h.EventType(t.Context(), "invoice.paid"); err != nil || len(typ.Versions) != 2 {
		t.Errorf("the event type: %v, %v", typ, err)
	}
	for _, path := range []string{"app/acme/endpoint/main", "app/app_2bB/endpoint/ep_4", "event-type/invoice.paid", "app/acme/endpoint/ep_1"} {
		if err := h.Do(t.Context(), http.MethodGet, "/api/v1/"+path, nil, nil, nil); err != nil {
			t.Errorf("the API of Svix does not find %s: %v", path, err)
		}
	}
	repeated := read(t, f) // as from a list that changes while it is read
	repeated.Wants = append(repeated.Wants, repeated.Wants...)
	h.wants(h.imports(repeated), all("same")...)
	lost := plan.Items[2].Lost[0] + plan.Items[5].Lost[0]
	if !strings.Contains(lost, "dotted.uid") || !strings.Contains(lost, "Authorization") {
		t.Errorf("not carried over: %s", lost)
	}
}

// TestAPageThatFailsChangesNothing: an import whose reading was interrupted has changed nothing. It
// says which page failed, and does not repeat an answer, which may have the token.
func TestAPageThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	h, f := newHere(t), newSvix(t, usual())
	f.fails = "iterator=ep_2"
	_, err := importer.Svix(t.Context(), f.remote())
	refused, is := errors.AsType[*importer.Refused](err)
	if !is || refused.Status != 500 || refused.Path != "/api/v1/app/app_2aA/endpoint" || strings.Contains(err.Error(), f.token) {
		t.Fatal(err)
	}
	f.fails = ""
	h.wants(h.imports(read(t, f)), all("create")...)
	f.token = "another"
	from := f.remote()
	from.Token = "wrong"
	_, err = importer.Svix(t.Context(), from)
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "wrong") {
		t.Error(err)
	}
}

// dying fails each request that changes something behind the n-th one. The server has done it.
type dying struct{ left int }

func (d *dying) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if r.Method != http.MethodGet {
		if d.left--; d.left < 0 {
			if err == nil {
				_ = answer.Body.Close()
			}
			return nil, errors.New("the connection broke")
		}
	}
	return answer, err
}

// TestAnInterruptedImportContinues: wherever the connection breaks, even if the answer of a request
// that was carried out is lost, the next run does the rest and nothing twice.
func TestAnInterruptedImportContinues(t *testing.T) {
	t.Parallel()
	h, f := newHere(t), newSvix(t, usual())
	found := read(t, f)
	for left := range 20 {
		o := h.options
		o.HTTP, o.Retries = &http.Client{Transport: &dying{left: left % 3}}, -1
		c, err := client.New(o)
		if err != nil {
			t.Fatal(err)
		}
		plan := h.plan(found, false)
		if plan.Count(importer.Create)+plan.Count(importer.Change) == 0 {
			h.wants(plan, all("same")...)
			var n int
			page, err := h.Endpoints(t.Context(), client.EndpointFilter{Limit: 500})
			if n = len(page.Data); err != nil || n != 4 {
				t.Errorf("%d endpoints, %v", n, err)
			}
			return
		}
		if err := importer.Apply(t.Context(), c, plan, func(int) {}); err == nil {
			continue
		}
	}
	t.Error("the import does not end")
}

// TestBothSidesCount: a change there is taken over, a change here stays, and only a person decides
// between two changes.
func TestBothSidesCount(t *testing.T) {
	t.Parallel()
	h, w := newHere(t), usual()
	f := newSvix(t, w)
	h.imports(read(t, f))
	ep := func(n int) string { return h.endpoint(fmt.Sprintf("svix.id=ep_%d", n)).ID }
	update := func(n int, changes map[string]any) {
		t.Helper()
		if _, err := h.UpdateEndpoint(t.Context(), ep(n), changes); err != nil {
			t.Fatal(err)
		}
	}
	update(1, map[string]any{"description": "ours", "headers": map[string]any{"Authorization": "Bearer set by a person"}})
	update(2, map[string]any{"description": "ours"})
	w.endpoints["app_2aA"][1]["description"] = "theirs"
	w.endpoints["app_2aA"][2]["url"] = "http://127.0.0.1:9/moved"
	w.apps[0]["name"] = "Acme Ltd"
	w.types[0]["schemas"].(object)["3"] = object{"type": "object", "title": "y"}
	w.endpoints["app_2bB"] = nil
	changed := func(line string, n int) []string {
		lines := all("same")
		lines[0], lines[3] = "change app_2aA name", "change invoice.paid schemas"
		lines[5] = "same ep_1: changed here since the last import, and stays: description"
		lines[6], lines[7] = line, "change ep_3 url"
		lines[8] = "same ep_4: the other system has it no longer"
		return lines[:n]
	}
	h.wants(h.plan(read(t, f), true), append(append(changed("", 5), "change ep_1 description", "change ep_2 description", "change ep_3 url"), changed("", 9)[8])...)
	h.wants(h.imports(read(t, f)), changed("keep ep_2 description: it was changed here and there", 9)...)
	if e := h.endpoint("svix.id=ep_2"); e.Description != "ours" {
		t.Errorf("a person's change became %q", e.Description)
	}
	if e := h.endpoint("svix.id=ep_3"); e.URL != "http://127.0.0.1:9/moved" {
		t.Errorf("the URL is %s", e.URL)
	}
	late := h.plan(read(t, f), true)
	update(2, map[string]any{"description": "ours, behind the plan"})
	if err := importer.Apply(t.Context(), h.Client, late, func(int) {}); err != nil || !strings.Contains(late.Items[6].Failure, "since the plan") {
		t.Errorf("%v, %q", err, late.Items[6].Failure)
	}
	if e := h.endpoint("svix.id=ep_2"); e.Description != "ours, behind the plan" {
		t.Errorf("a change behind the plan became %q", e.Description)
	}
	h.apply(h.plan(read(t, f), true))
	if e := h.endpoint("svix.id=ep_1"); e.Description != "first" || e.Headers["Authorization"] == "" {
		t.Errorf("overwritten, it is %+v", e.NewEndpoint)
	}
	lines := all("same")
	lines[8] += ": the other system has it no longer"
	h.wants(h.imports(read(t, f)), lines...)
}

// TestASecretThatWasReplaced: a new secret there is taken over, and the one before signs for a day
// as well; one that was replaced on both sides is kept.
func TestASecretThatWasReplaced(t *testing.T) {
	t.Parallel()
	h, w := newHere(t), usual()
	f := newSvix(t, w)
	h.imports(read(t, f))
	expect := func(line string) *importer.Plan {
		t.Helper()
		lines := all("same")
		lines[5] = line
		plan := h.plan(read(t, f), false)
		h.wants(plan, lines...)
		return plan
	}
	if _, err := h.UpdateEndpoint(t.Context(), h.endpoint("svix.id=ep_1").ID, map[string]any{"description": "ours"}); err != nil {
		t.Fatal(err)
	}
	for n := 11; n <= 12; n++ { // the second one too, although the secret here is no longer the first
		w.secrets["ep_1"] = secret(n)
		h.apply(expect("change ep_1 secret"))
		if e := h.endpoint("svix.id=ep_1"); h.secretOf(e) != secret(n) || len(e.Secrets) != n-9 || e.Description != "ours" {
			t.Errorf("%d secrets sign at %q", len(e.Secrets), e.Description)
		}
		expect("same ep_1")
	}
	if _, err := h.RotateSecret(t.Context(), h.endpoint("svix.id=ep_1").ID, 0); err != nil {
		t.Fatal(err)
	}
	expect("same ep_1")
	w.secrets["ep_1"] = secret(13)
	expect("keep ep_1 secret: it was changed here and there")
	h.apply(h.plan(read(t, f), true))
	if h.secretOf(h.endpoint("svix.id=ep_1")) != secret(13) {
		t.Error("the secret was not overwritten")
	}
	expect("same ep_1")
	w.secrets["ep_1"] = secret(12) // it still signs here, so it cannot be given again
	h.apply(h.plan(read(t, f), true))
	expect("same ep_1")
}

// TestNothingElseIsDelivered: an endpoint that would get other bodies, other signatures or each
// event twice is not created, and the reason is in the plan.
func TestNothingElseIsDelivered(t *testing.T) {
	t.Parallel()
	h, w := newHere(t), usual()
	f := newSvix(t, w)
	w.parts["ep_1 transformation"] = object{"enabled": true, "code": "function handler(webhook) {}"}
	w.secrets["ep_2"] = "whsec_c2hvcnQ="
	w.endpoints["app_2bB"][0]["eventTypes"] = []string{"with space"}
	if _, err := h.CreateEndpoint(t.Context(), wire.NewEndpoint{URL: "http://127.0.0.1:9/3", Tenant: "acme"}); err != nil {
		t.Fatal(err)
	}
	lines := all("create")
	lines[5] = "skip ep_1: transformation: it is JavaScript"
	lines[6] = "skip ep_2: secret: a secret (whsec_) has 24 to 64 bytes"
	lines[7] = "skip ep_3: ep_"
	lines[8] = "skip ep_4: event types: must be"
	plan := h.plan(read(t, f), false)
	h.wants(plan, lines...)
	// The remedy that the plan names for an endpoint with the same URL.
	if _, err := h.UpdateEndpoint(t.Context(), plan.Items[7].Here, map[string]any{"labels": map[string]any{"svix.id": "ep_3"}}); err != nil {
		t.Fatal(err)
	}
	lines[7] = "keep ep_3 format,signature_headers,secret: it was not imported"
	byHand := wire.NewEndpoint{URL: "http://127.0.0.1:9/1", Tenant: "acme", Labels: map[string]string{"svix.id": "ep_1"}, Transform: ".data"}
	if _, err := h.CreateEndpoint(t.Context(), byHand); err != nil {
		t.Fatal(err)
	}
	lines[5] = "same ep_1: created by hand, because of transformation"
	h.wants(h.plan(read(t, f), false), lines...)
	h.apply(h.plan(read(t, f), true))
	if h.secretOf(h.endpoint("svix.id=ep_3")) != secret(3) || h.endpoint("svix.id=ep_1").Transform != ".data" {
		t.Error("the endpoints have another secret, or another transform")
	}
	w.parts["ep_3 transformation"] = w.parts["ep_1 transformation"]
	if plan := h.plan(read(t, f), true); plan.Items[7].Action != importer.Keep {
		t.Errorf("an endpoint that was imported before its transformation: %+v", plan.Items[7])
	}
}

// TestAStrangerIsBounded: lists without an end, answers without an end, and redirects.
func TestAStrangerIsBounded(t *testing.T) {
	t.Parallel()
	n := 0
	endless := newThere(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		_ = json.NewEncoder(w).Encode(object{"data": []object{{"id": fmt.Sprint("app_", n)}}, "done": false, "iterator": fmt.Sprint(n)})
	})
	same := newThere(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(object{"data": []object{}, "done": false, "iterator": "x"})
	})
	large := newThere(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"data":[%s"x"]}`, strings.Repeat(`"x",`, 10_000))
	})
	moved := newThere(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, endless.URL, http.StatusFound) })
	garbage := newThere(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>"+endless.token) })
	for seed := range uint64(8) {
		b := bounds.Tiny[importer.Bounds](seed)
		for name, c := range map[string]struct {
			f    *there
			want string
		}{
			"endless": {endless, "more than"}, "same": {same, "does not end"}, "large": {large, "more than"}, "moved": {moved, "answered 302"},
			"garbage": {garbage, "is not of the form"},
		} {
			from := c.f.remote()
			from.Bounds = b
			_, err := importer.Svix(t.Context(), from)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.f.token) {
				t.Errorf("%s: %v", name, err)
			}
		}
		f := newSvix(t, usual())
		from := f.remote()
		from.Bounds = b
		if found, err := importer.Svix(t.Context(), from); err == nil {
			if len(found.Wants) != len(usualIDs) {
				t.Errorf("%d objects", len(found.Wants))
			}
		} else if grapnel.CodeOf(err) != grapnel.CodeTooLarge {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
