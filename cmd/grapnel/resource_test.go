package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// described are the resources that can be created and changed, with their schemas in the API's
// document.
var described = []struct {
	name, id, create, argument, update, document string
	settings                                     []cli.Setting
	schema, patch                                string
}{
	{"endpoints", "ep_1", "https://x.test/h", "url", "", "", cli.EndpointSettings, "NewEndpoint", "EndpointPatch"},
	{"queues", "orders", "orders", "name", "", "", cli.QueueSettings, "NewQueue", "QueuePatch"},
	{"sources", "src_1", "shop --scheme stripe", "name", "", "", cli.SourceSettings, "NewSource", "SourcePatch"},
	{"policies", "pol_1", `{"timeout":"1s"}`, "", `{"timeout":"1s"}`, "any field", cli.PolicySettings, "NewPolicy", "PolicyPatch"},
	{"types", "typ_1", "invoice.paid", "name", "", "", cli.EventTypeSettings, "NewEventType", "EventTypePatch"},
	{"keys", "key_1", "--name ci --scope read", "", "", "", cli.KeySettings, "NewKey", "KeyPatch"},
}

// withoutFlag are the fields of the API that no flag sets, each with the reason.
var withoutFlag = map[string]string{
	"endpoints create status": "a new endpoint is enabled; see endpoints pause",
	"endpoints update status": "endpoints pause, resume and enable take a reason for the audit",
	"queues create status":    "a new queue is enabled; see queues pause",
	"queues update status":    "queues pause and resume take a reason for the audit",
	"sources create status":   "a new source is enabled; sources update --status pauses it",
}

// value is one for each kind of setting: what the flag gets and what the field becomes.
var value = map[string][2]string{
	"text": {"x", `"x"`}, "end": {"2031-01-01T00:00:00Z", `"2031-01-01T00:00:00Z"`},
	"duration": {"5m", `"5m"`}, "content": {"x", `"x"`}, "contents": {"x", `"x"`}, "policy": {"standard", `"standard"`},
	"rate": {"5/9", `{"burst":9,"per_second":5}`}, "list": {"a,b", `["a","b"]`}, "list or none": {"none", `[]`}, "int": {"3", `3`}, "json": {`{"type":"object"}`, `{"type":"object"}`},
	"switch": {"true", `true`}, "size": {"1KiB", `1024`}, "headers": {"X-A=1", `{"X-A":"1"}`},
}

func valueOf(s cli.Setting) [2]string {
	if s.Field == "source" { // a name would be looked up
		return [2]string{"src_x", `"src_x"`}
	}
	if v, ok := value[s.Kind]; ok {
		return v
	}
	first, _, _ := strings.Cut(s.Kind, "|")
	return [2]string{first, `"` + first + `"`}
}

// properties are the fields of a schema. A field that is an object has its own fields as
// "part/field", unless a flag sets all of it.
func properties(t *testing.T, schemas map[string]apiSchema, name string, set []string) (all []string) {
	t.Helper()
	for field, s := range schemas[name].Properties {
		ref := s.Ref
		for _, one := range s.AnyOf {
			ref += one.Ref
		}
		part := strings.TrimPrefix(ref, "#/components/schemas/")
		if len(schemas[part].Properties) == 0 || slices.Contains(set, field) {
			all = append(all, field)
			continue
		}
		for _, inner := range properties(t, schemas, part, nil) {
			all = append(all, field+"/"+inner)
		}
	}
	if len(all) == 0 {
		t.Fatalf("there is no schema %s", name)
	}
	slices.Sort(all)
	return all
}

type apiSchema struct {
	Ref        string               `json:"$ref"`
	AnyOf      []apiSchema          `json:"anyOf"`
	Properties map[string]apiSchema `json:"properties"`
}

// TestSettingsCoverTheAPI: every field that the API takes has a flag or an argument, or stands in
// withoutFlag; and every flag sets a field that the API takes.
func TestSettingsCoverTheAPI(t *testing.T) {
	text, err := os.ReadFile("../../internal/face/api/openapi.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct{ Schemas map[string]apiSchema }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, d := range described {
		for verb, name := range map[string]string{"create": d.schema, "update": d.patch} {
			var set []string
			if verb == "create" && d.argument != "" {
				set = append(set, d.argument)
			}
			for _, s := range d.settings {
				if s.Verb != "" && s.Verb != verb {
					continue
				}
				set = append(set, s.Field)
				if s.Kind == "contents" {
					set = append(set, s.Field+"s")
				}
			}
			fields := properties(t, doc.Components.Schemas, name, set)
			for _, field := range set {
				if !slices.Contains(fields, field) {
					t.Errorf("%s %s sets %s, which %s does not have", d.name, verb, field, name)
				}
			}
			for _, field := range fields {
				where := d.name + " " + verb + " " + field
				has := d.document != "" || slices.Contains(set, field)
				if why := withoutFlag[where]; !has && why == "" {
					t.Errorf("%s: %s of %s has no flag", d.name+" "+verb, field, name)
				} else if why != "" {
					if used[where] = true; has {
						t.Errorf("%s has a flag: take it out of withoutFlag", where)
					}
				}
			}
		}
	}
	for where := range withoutFlag {
		if !used[where] {
			t.Errorf("withoutFlag names %s, which the API does not have", where)
		}
	}
}

// unshown are the settings that get does not print, each with the reason.
var unshown = map[string]string{
	"sources verify/secret": "the API never shows it; their number is shown",
	"sources dedupe/window": "it stands beside what requests are compared by",
	"types schema":          "versions are shown, with their schemas as JSON",
	"types example":         "as schema",
	"types note":            "as schema",
}

// TestGetShowsEverySetting: get prints something else when the answer has a setting than when it
// lacks it.
func TestGetShowsEverySetting(t *testing.T) {
	used := map[string]bool{}
	for _, d := range described {
		get := func(answer string) string {
			f := newFake(t, always(http.StatusOK, answer))
			got := invoke(t, f.env(), "", d.name, "get", d.id, "-o", "table")
			if got.code != 0 {
				t.Errorf("%s get: %+v of %s", d.name, got, answer)
			}
			return got.out
		}
		plain := get(`{}`)
		for _, s := range d.settings {
			where, answer := d.name+" "+s.Field, valueOf(s)[1]
			if s.Kind == "list or none" {
				answer = `["x"]`
			}
			for _, part := range slices.Backward(strings.Split(s.Field, "/")) {
				answer = `{"` + part + `":` + answer + `}`
			}
			shown := get(answer) != plain
			why := unshown[where]
			if used[where] = true; !shown && why == "" {
				t.Errorf("%s get does not show %s", d.name, s.Field)
			} else if shown && why != "" {
				t.Errorf("%s get shows %s: take it out of unshown", d.name, s.Field)
			}
		}
	}
	for where := range unshown {
		if !used[where] {
			t.Errorf("unshown names %s, which no flag sets", where)
		}
	}
}

// TestEverySettingOfEveryVerb: a flag sets its field and nothing else, and a refusal of the field
// names the flag.
func TestEverySettingOfEveryVerb(t *testing.T) {
	seen := 0
	for _, d := range described {
		for verb, args := range map[string]string{"create": d.create, "update": strings.TrimSpace(d.id + " " + d.update)} {
			call := append([]string{d.name, verb}, strings.Fields(args)...)
			sent := func(more ...string) map[string]json.RawMessage {
				t.Helper()
				f := newFake(t, always(http.StatusOK, `{}`))
				got := invoke(t, f.env(), "", append(call, more...)...)
				if got.code != 0 || len(f.seen) != 1 {
					t.Fatalf("%v %v: %+v, sent %v", call, more, got, f.seen)
				}
				return flattened(t, f.seen[0].Body)
			}
			for _, s := range d.settings {
				name := d.name + " " + verb + " --" + s.Flag
				v := valueOf(s)
				if s.Verb != "" && s.Verb != verb {
					f := newFake(t, always(http.StatusOK, `{}`))
					if got := invoke(t, f.env(), "", append(call, "--"+s.Flag+"="+v[0])...); got.code != cli.ExitUsage || len(f.seen) > 0 {
						t.Errorf("%s is taken: %+v", name, got)
					}
					continue
				}
				seen++
				want := map[string]json.RawMessage{}
				if verb == "create" || d.document != "" {
					want = sent()
				}
				want[s.Field] = json.RawMessage(v[1])
				got := sent("--" + s.Flag + "=" + v[0])
				if s.Flag == "scope" { // given twice, lists add up
					want["scopes"] = got["scopes"]
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				f := newFake(t, always(http.StatusUnprocessableEntity,
					`{"code":"invalid","status":422,"detail":"d","errors":[{"pointer":"/`+s.Field+`","detail":"must be right"}]}`))
				if got := invoke(t, f.env(), "", append(call, "--"+s.Flag+"="+v[0])...); got.errs != "error: --"+s.Flag+": must be right\n" {
					t.Errorf("%s: a refusal says %q", name, got.errs)
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d settings were tried", seen)
	}
}

// TestEmptyTextsRemove: an empty text of an update removes the field. An empty id, for one, has not
// the form of an id, so the request has null. Every flag of every command whose help says that ”
// removes something is tried.
func TestEmptyTextsRemove(t *testing.T) {
	tried := map[string]bool{}
	try := func(name, id, update string, settings []cli.Setting) {
		for _, s := range settings {
			if s.Verb == "create" || !removable(s.About) && s.Kind != "text" {
				continue
			}
			f := newFake(t, always(http.StatusOK, `{}`))
			call := append([]string{name, "update"}, strings.Fields(id+" "+update)...)
			got := invoke(t, f.env(), "", append(call, "--"+s.Flag+"=")...)
			if got.code != 0 || len(f.seen) != 1 || string(flattened(t, f.seen[0].Body)[s.Field]) != "null" {
				t.Errorf("%s update --%s '': %+v, sent %v", name, s.Flag, got, f.seen)
			}
			tried["grapnel "+name+" update --"+s.Flag] = true
		}
	}
	for _, d := range described {
		try(d.name, d.id, d.update, d.settings)
	}
	try("issues", "iss_1", "", cli.IssueSettings)
	try("tenants", "acme", "", cli.TenantSettings)
	said := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !removable(f.Usage) || c.Name() == "create" { // there is nothing to remove yet
				return
			}
			if said++; !tried[c.CommandPath()+" --"+f.Name] {
				t.Errorf("%s --%s says that '' removes it; nothing here tries it", c.CommandPath(), f.Name)
			}
		})
	}
	walk((&session{World: &cli.World{Program: "grapnel"}}).rootCommand())
	if said < 7 {
		t.Errorf("only %d flags say that '' removes something", said)
	}
}

// removable says whether a flag's help says that an empty text removes the field.
func removable(help string) bool {
	return strings.Contains(help, "'' removes it") || strings.Contains(help, "'' for none")
}

// flattened is a document with the fields of its parts as "part/field"; a rate and headers are
// values.
func flattened(t *testing.T, body string) map[string]json.RawMessage {
	t.Helper()
	flat := map[string]json.RawMessage{}
	doc := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for name, value := range doc {
		var part map[string]json.RawMessage
		if !slices.Contains([]string{"verify", "dedupe", "outbox", "oauth2", "tls", "target", "broker"}, name) || json.Unmarshal(value, &part) != nil {
			flat[name] = value
			continue
		}
		for inner, value := range part {
			flat[name+"/"+inner] = value
		}
	}
	return flat
}

// TestVerbsOfEveryResource: all have the same verbs, with the same requests behind them.
func TestVerbsOfEveryResource(t *testing.T) {
	for _, d := range described {
		path := "/v1/" + d.name
		if d.name == "types" {
			path = "/v1/event-types"
		}
		one := path + "/" + d.id
		for args, want := range map[string]request{
			"create " + d.create:         {Method: "POST", Target: path},
			"list":                       {Method: "GET", Target: path + "?limit=50"},
			"list --limit 7 --cursor c1": {Method: "GET", Target: path + "?cursor=c1&limit=7"},
			"get " + d.id:                {Method: "GET", Target: one},
			"show " + d.id:               {Method: "GET", Target: one},
			"delete " + d.id:             {Method: "DELETE", Target: one},
			"update " + d.id + " " + d.update + " --" + d.settings[0].Flag + "=" + valueOf(d.settings[0])[0]: {Method: "PATCH", Target: one},
		} {
			f := newFake(t, always(http.StatusOK, `{"data":[]}`))
			got := invoke(t, f.env(), "", append([]string{d.name}, strings.Fields(args)...)...)
			if got.code != 0 || len(f.seen) != 1 || f.seen[0].Method != want.Method || f.seen[0].Target != want.Target {
				t.Errorf("%s %s: %+v, sent %v", d.name, args, got, f.seen)
			}
		}
		if d.update == "" {
			f := newFake(t, always(http.StatusOK, `{}`))
			if got := invoke(t, f.env(), "", d.name, "update", d.id); got.code != cli.ExitUsage || len(f.seen) > 0 {
				t.Errorf("%s update without a change: %+v, sent %v", d.name, got, f.seen)
			}
		}
	}
}

// TestPushOfASharedName: a name that several tenants have is none that the server has to get.
func TestPushOfASharedName(t *testing.T) {
	f := newFake(t, func(r *http.Request) (int, string) {
		switch {
		case r.Method == "GET":
			return 200, `{"data":[{"id":"typ_1","name":"a","tenant":"acme"},{"id":"typ_2","name":"a","tenant":"beta"}]}`
		case r.URL.Query().Get("tenant") == "beta":
			return 201, `{"id":"typ_2","name":"a","tenant":"beta","versions":[{"version":1}]}`
		case r.URL.Path == "/v1/event-types":
			return 201, `{"id":"typ_3","name":"a","tenant":"default","versions":[{"version":1}]}`
		}
		return 404, `{"code":"not_found","status":404}`
	})
	if got := invoke(t, f.env(), "", "types", "push", "a", "{}"); got.code != 2 || !strings.Contains(got.errs, "--tenant") {
		t.Errorf("without a tenant: %+v", got)
	}
	f.seen = nil
	got := invoke(t, f.env(), "", "types", "push", "a", "{}", "--tenant", "beta")
	if got.code != 0 || len(f.seen) != 1 || f.seen[0].Target != "/v1/event-types/a/versions?tenant=beta" {
		t.Errorf("with a tenant: %+v after %+v", got, f.seen)
	}
	f.seen = nil
	invoke(t, f.env(), "", "types", "diff", "a", "--from", "1", "--tenant", "beta")
	if len(f.seen) != 1 || f.seen[0].Target != "/v1/event-types/a/compare?from=1&tenant=beta" {
		t.Errorf("diff asked %+v", f.seen)
	}
}
