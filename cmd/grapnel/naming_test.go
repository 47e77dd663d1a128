package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// naming answers searches with some objects, and everything else with one.
func naming(t *testing.T, objects map[string]string) *fake {
	t.Helper()
	return newFake(t, func(r *http.Request) (int, string) {
		if word := r.URL.Query().Get("search"); word != "" {
			return 200, `{"data":[` + objects[r.URL.Path+" "+word] + `],"next":null}`
		}
		if strings.HasPrefix(r.URL.Path, "/v1/events/") {
			return 404, `{"code":"not_found","detail":"event not found"}`
		}
		return 200, `{"id":"x_1","data":[],"status":"enabled"}`
	})
}

// TestNamesInThePlaceOfIDs: wherever a command takes an id of something that has a name, it takes
// the name, by one request more.
func TestNamesInThePlaceOfIDs(t *testing.T) {
	const ware, shop = `{"id":"ep_1","description":"Warehouse","url":"https://x.test/w"}`, `{"id":"ep_2","description":"Warehouse two","url":"https://x.test/s"}`
	objects := map[string]string{
		"/v1/endpoints Warehouse": shop + "," + ware, "/v1/endpoints warehouse": ware, "/v1/endpoints https://x.test/w": ware, "/v1/endpoints x.test/w": ware + "," + shop, "/v1/endpoints two": shop,
		"/v1/sources stripe-live": `{"id":"src_1","name":"stripe-live"}`, "/v1/queues orders": `{"id":"que_1","name":"orders"}`,
		"/v1/policies patient": `{"id":"pol_1","name":"patient"}`, "/v1/channels on call": `{"id":"chn_1","description":"on call"}`,
		"/v1/keys ci": `{"id":"key_1","name":"ci"},{"id":"key_2","name":"ci-old"}`,
	}
	for args, want := range map[string]string{
		"endpoints get Warehouse":                              "GET /v1/endpoints/ep_1",
		"endpoints get two":                                    "GET /v1/endpoints/ep_2", // a part that no other has
		"endpoints get x.test/w":                               "GET /v1/endpoints/ep_1", // as lists show it
		"endpoints get https://x.test/w":                       "GET /v1/endpoints/ep_1",
		"endpoints update warehouse --rate none":               "PATCH /v1/endpoints/ep_1",
		"endpoints pause Warehouse ep_9":                       "POST /v1/endpoints/ep_1/pause",
		"endpoints resume Warehouse":                           "POST /v1/endpoints/ep_1/resume",
		"endpoints delete Warehouse":                           "DELETE /v1/endpoints/ep_1",
		"endpoints lanes Warehouse":                            "GET /v1/endpoints/ep_1/lanes?limit=50",
		"endpoints rotate-secret Warehouse":                    "POST /v1/endpoints/ep_1/rotate-secret",
		"endpoints test Warehouse --wait 0s":                   "POST /v1/endpoints/ep_1/test",
		"endpoints create https://y.test --source stripe-live": "POST /v1/endpoints",
		"replay plan Warehouse":                                "POST /v1/endpoints/ep_1/replay",
		"sources get stripe-live":                              "GET /v1/sources/src_1",
		"sources rotate-secret stripe-live --secret x":         "POST /v1/sources/src_1/rotate-secret",
		"policies get patient":                                 "GET /v1/policies/pol_1",
		"policies delete patient":                              "DELETE /v1/policies/pol_1",
		"channels get 'on call'":                               "GET /v1/channels/chn_1",
		"keys get ci":                                          "GET /v1/keys/key_1",
		"deliveries list --endpoint Warehouse":                 "GET /v1/endpoints/ep_1/deliveries?limit=50",
		"deliveries list --endpoint orders":                    "GET /v1/endpoints/que_1/deliveries?limit=50",
		"dlq list --endpoint Warehouse":                        "GET /v1/dead-letters?endpoint=ep_1&limit=50",
		"issues list --endpoint Warehouse":                     "GET /v1/issues?endpoint=ep_1&limit=50",
		"audit --endpoint Warehouse":                           "GET /v1/audit?endpoint=ep_1&limit=50",
		"events list --source stripe-live":                     "GET /v1/events?limit=50&source=src_1",
		"inbox list --source stripe-live":                      "GET /v1/inbox?limit=50&source=src_1",
		"stats --endpoint Warehouse":                           "GET /v1/endpoints/ep_1/stats",
		"alerts list --endpoint 'on call'":                     "GET /v1/alerts?endpoint=chn_1&limit=50",
		"why Warehouse":                                        "GET /v1/events/Warehouse", // it may be an event's id
		"tenants portal-link acme --endpoint Warehouse":        "POST /v1/tenants/acme/portal-links",
	} {
		f := naming(t, objects)
		got := invoke(t, f.env(), "", arguments(args)...)
		var asked []string
		for _, r := range f.seen {
			if !strings.Contains(r.Target, "search=") {
				asked = append(asked, r.Method+" "+r.Target)
			}
		}
		if got.code != 0 || len(asked) == 0 || asked[0] != want {
			t.Errorf("%s: exits %d with %s, asked %v", args, got.code, got.errs, asked)
		}
		if part := `"two" is Warehouse two (ep_2)` + "\n"; strings.Contains(got.errs, `" is `) != strings.HasSuffix(args, " two") ||
			strings.HasSuffix(args, " two") && got.errs != part {
			t.Errorf("%s: says %q", args, got.errs)
		}
		if strings.Contains(args, "--source stripe-live") && strings.HasPrefix(want, "POST") && !strings.Contains(f.seen[len(f.seen)-1].Body, `"source":"src_1"`) {
			t.Errorf("%s: sent %+v", args, f.seen)
		}
		if args == "why Warehouse" && f.seen[len(f.seen)-1].Target != "/v1/endpoints/ep_1/causes" {
			t.Errorf("%s: asked %+v", args, f.seen)
		}
		if strings.Contains(args, "portal-link") && !strings.Contains(f.seen[len(f.seen)-1].Body, `"endpoints":["ep_1"]`) {
			t.Errorf("%s: sent %+v", args, f.seen)
		}
	}
}

// TestThingsAreOfTheAPI: each kind of object has a list, which finds names if the kind has them, and
// each kind that people name has one word in the usage of a command.
func TestThingsAreOfTheAPI(t *testing.T) {
	text, err := os.ReadFile("../../internal/face/api/openapi.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct{ Parameters []struct{ Name string } }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, one := range things {
		get, is := doc.Paths[one.path]["get"]
		if !is && one.path != "" {
			t.Errorf("%s has no list %s", one.word, one.path)
		}
		searched := slices.ContainsFunc(get.Parameters, func(p struct{ Name string }) bool { return p.Name == "search" })
		if searched != one.named {
			t.Errorf("%s: names are searched: %t", one.word, searched)
		}
	}
	for flag, kinds := range ofFlags {
		for _, kind := range kinds {
			if _, is := thingOf(kind); !is {
				t.Errorf("--%s names %s, which is no kind", flag, kind)
			}
		}
	}
}

// TestNamesThatSeveralHave: such a name is refused with the ids of all; one that nothing has leads
// to the list; and to delete needs the whole name.
func TestNamesThatSeveralHave(t *testing.T) {
	f := naming(t, map[string]string{
		"/v1/endpoints web":  `{"id":"ep_1","description":"webshop","tenant":"a"},{"id":"ep_2","description":"website","tenant":"b"}`,
		"/v1/endpoints one":  `{"id":"ep_3","description":"one"},{"id":"ep_4","description":"One"}`,
		"/v1/endpoints shop": `{"id":"ep_1","description":"webshop"}`,
	})
	for args, want := range map[string]result{
		"endpoints get web":     {2, "", `error: "web" is the name of several, or a part of it: webshop (ep_1, tenant a); website (ep_2, tenant b). Give the id of one endpoint.` + "\n"},
		"endpoints get one":     {2, "", `error: "one" is the name of several, or a part of it: one (ep_3); One (ep_4). Give the id of one endpoint.` + "\n"},
		"endpoints get nowhere": {3, "", `error: no endpoint has the name "nowhere". All: grapnel endpoints list` + "\n"},
		"endpoints delete shop": {3, "", `error: no endpoint has the name "shop". All: grapnel endpoints list` + "\n"},
	} {
		if d := cmp.Diff(want, invoke(t, f.env(), "", strings.Fields(args)...), cmp.AllowUnexported(result{})); d != "" {
			t.Errorf("%s: %s", args, d)
		}
	}
	for _, r := range f.seen {
		if !strings.Contains(r.Target, "search=") {
			t.Errorf("asked %v", r)
		}
	}
}

// TestKeysShowTheirLastUse: in the table and in the form; a key without one has an empty cell.
func TestKeysShowTheirLastUse(t *testing.T) {
	const used = `{"id":"key_1","name":"ci","scopes":["read"],"created_at":"2026-01-02T03:04:05.000000Z","last_used_at":"2026-02-03T04:05:00.000000Z"}`
	f := newFake(t, func(r *http.Request) (int, string) {
		if r.URL.Path == "/v1/keys/key_1" {
			return 200, used
		}
		return 200, `{"data":[` + used + `,{"id":"key_2","name":"new","scopes":["read"],"created_at":"2026-01-02T03:04:05.000000Z"}]}`
	})
	for args, want := range map[string]string{
		"keys list": "NAME  KEY    SCOPES  TENANT  CREATED                      ENDS  LAST USE\n" +
			"ci    key_1  read            2026-01-02T03:04:05.000000Z        2026-02-03T04:05:00.000000Z\n" +
			"new   key_2  read            2026-01-02T03:04:05.000000Z\n",
		"keys get key_1": "last use  2026-02-03T04:05:00.000000Z\n",
	} {
		if got := invoke(t, f.env(), "", strings.Fields(args)...); got.code != 0 || !strings.HasSuffix(got.out, want) {
			t.Errorf("%s: %q, want %q", args, got.out, want)
		}
	}
}

// TestTablesShowNames: other objects' ids are names in tables for people, and have them beside them
// in forms; of an object that is deleted the id stays. No request more is needed.
func TestTablesShowNames(t *testing.T) {
	const named = `"endpoint_id":"ep_1","endpoint_name":"Warehouse"`
	answers := map[string]string{
		"/v1/endpoints":        `{"data":[{"id":"ep_1","description":"Warehouse"},{"id":"ep_2","url":"https://x.test/h?token=1"}]}`,
		"/v1/deliveries":       `{"data":[{"id":"dlv_1",` + named + `},{"id":"dlv_3","endpoint_id":"ep_404","endpoint_name":null}]}`,
		"/v1/dead-letters":     `{"data":[{"id":"dlv_1",` + named + `}]}`,
		"/v1/deliveries/dlv_1": `{"id":"dlv_1",` + named + `}`,
		"/v1/events/evt_1":     `{"id":"evt_1","source":"src_1","source_name":"stripe-live"}`,
		"/v1/issues":           `{"data":[{"id":"iss_1",` + named + `}]}`,
		"/v1/replays":          `{"data":[{"id":"rpl_1",` + named + `}]}`,
		"/v1/inbox":            `{"data":[{"id":"evt_1","source_id":"src_1","source_name":"stripe-live"}]}`,
		"/v1/audit":            `{"data":[{"number":1,"actor":"key_1","actor_name":"ci","endpoint_id":"ep_1","name":"Warehouse"}]}`,
		"/v1/stats":            `{"by":"endpoint","groups":[{"name":"ep_1","endpoint_name":"Warehouse"}]}`,
	}
	f := newFake(t, func(r *http.Request) (int, string) { return 200, answers[r.URL.Path] })
	for args, want := range map[string][]string{
		"deliveries list": {"Warehouse", "ep_404"}, "dlq list": {"Warehouse"}, "issues list": {"Warehouse"}, "replay list": {"Warehouse"},
		"audit": {"ci", "Warehouse"}, "stats --by endpoint": {"Warehouse"}, "deliveries get dlv_1": {"ep_1  Warehouse"},
		"endpoints list": {"Warehouse  ep_1", "x.test/h   "}, "inbox list": {"stripe-live"}, "events get evt_1": {"src_1  stripe-live"},
	} {
		f.seen = nil
		got := invoke(t, f.env(), "", strings.Fields(args)...)
		for _, name := range want {
			if got.code != 0 || !strings.Contains(got.out, name) || len(f.seen) != 1 {
				t.Errorf("%s lacks %q: %+v", args, name, got)
			}
		}
		if got := invoke(t, f.env(), "", append(strings.Fields(args), "-o", "name")...); got.code != 0 || strings.Contains(got.out, "Warehouse") {
			t.Errorf("%s -o name: %+v", args, got)
		}
	}
}
