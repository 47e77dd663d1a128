package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// policyFields are the fields of a policy's rules, by their names in JSON.
func policyFields() (names []string) {
	for f := range reflect.TypeFor[policy.Policy]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !slices.Contains([]string{"name", "preset", "shape"}, name) {
			names = append(names, name)
		}
	}
	return names
}

// edited is a patch of one field and what the field is then. It differs from every preset's value.
func edited(preset map[string]any, field string) (patch string, is any) {
	values := map[string][]string{
		"timeout": {`"8s"`}, "schedule": {`{"mode":"since_first","delays":["0s","7s"],"tail":"stop"}`}, "jitter": {"0.25"},
		"max_attempts": {"6"}, "max_age": {`"48h"`}, "success": {`["200-204"]`}, "classify": {`{"418":"fail"}`},
		"retry_after": {`"ignore"`}, "on_exhausted": {`"discard"`, `"dead_letter"`}, "then": {`"block"`},
		"disable": {`{"consecutive":7}`}, "breaker": {"false"}, "limits": {`[{"codes":["409"],"attempts":2}]`},
	}[field]
	for _, v := range values {
		var value any
		_ = json.Unmarshal([]byte(v), &value)
		before, object := preset[field].(map[string]any)
		if more, both := value.(map[string]any); both && object && field != "schedule" {
			all := maps.Clone(before)
			maps.Copy(all, more)
			value = all
		}
		if !cmp.Equal(preset[field], value) {
			if field == "schedule" { // its merge leaves no member of an exponential one
				return `{"mode":"since_first","delays":["0s","7s"],"tail":"stop","base":null,"factor":null,"max":null}`, value
			}
			return v, value
		}
	}
	panic("no value to edit " + field + " with")
}

// TestAnEditedPresetIsOneStill: a PATCH of any one field of an endpoint's preset changes that field
// and nothing else: not the other rules, not the headers, the transform, the format or the order
// that the preset brings. The answer names the base and the difference, and null takes it back. The
// same holds for a saved copy.
func TestAnEditedPresetIsOneStill(t *testing.T) {
	for _, p := range policy.Presets() {
		t.Run(p.Name, func(t *testing.T) {
			w := newWorld(t)
			preset := w.must(200, "GET", "/v1/policies/"+p.Name, "")
			if preset["preset"] != p.Name || len(preset["changes"].([]any)) != 0 {
				t.Errorf("it is shown as made from %v with the changes %v", preset["preset"], preset["changes"])
			}
			ep := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","policy":"`+p.Name+`"}`)
			at := "/v1/endpoints/" + ep["id"].(string)
			for _, field := range policyFields() {
				patch, value := edited(preset, field)
				want := map[string]any{"preset": p.Name}
				for _, name := range policyFields() {
					want[name] = preset[name]
				}
				want[field] = value
				changes := []any{field}
				if field == "schedule" && preset["max_attempts"] != nil { // a table of its own ends by itself
					want["max_attempts"] = nil
					changes = append(changes, "max_attempts")
				}
				check := func(how string, got map[string]any, changed any) {
					t.Helper()
					is := map[string]any{"preset": got["preset"]}
					for name := range want {
						is[name] = got[name]
					}
					if d := cmp.Diff(want, is); d != "" {
						t.Errorf("%s: %s: %s", field, how, d)
					}
					if d := cmp.Diff(changes, changed); d != "" || got["shape"] != nil {
						t.Errorf("%s: %s: changed is %v, the shape is %v", field, how, changed, got["shape"])
					}
				}
				got := w.must(200, "PATCH", at, `{"policy":{"`+field+`":`+patch+`}}`)
				check("patched", got["policy"].(map[string]any), got["policy_changes"])
				for _, name := range []string{"preset_shape", "ordering", "format", "headers", "transform"} {
					if d := cmp.Diff(ep[name], got[name]); d != "" {
						t.Errorf("%s: %s has changed: %s", field, name, d)
					}
				}
				stored := w.stored(ep["id"])
				if d := cmp.Diff(policy.ShapeOf(p.Name), stored.Policy.RequestShape()); d != "" || stored.Ordering != "" || stored.Format != "" {
					t.Errorf("%s: stored with ordering %q, format %q and the shape %s", field, stored.Ordering, stored.Format, d)
				}
				if back := w.must(200, "PATCH", at, `{"policy":{"`+field+`":null}}`); len(back["policy_changes"].([]any)) != 0 {
					if field != "max_attempts" && field != "max_age" { // there null is a value
						t.Errorf("%s: null leaves %v", field, back["policy_changes"])
					}
				}
				w.must(200, "PATCH", at, `{"policy":"`+p.Name+`"}`)

				saved := w.must(201, "POST", "/v1/policies", `{"name":"own-`+field+`","preset":"`+p.Name+`"}`)
				saved = w.must(200, "PATCH", "/v1/policies/"+saved["id"].(string), `{"`+field+`":`+patch+`}`)
				check("saved", saved, saved["changes"])
				whole := fmt.Sprintf(`{"name":"whole-%s","preset":%q,%q:%s}`, field, p.Name, field, patch)
				saved = w.must(201, "POST", "/v1/policies", whole)
				if saved["preset"] != p.Name || len(saved["changes"].([]any)) == 0 {
					t.Errorf("%s: created from %v with the changes %v", field, saved["preset"], saved["changes"])
				}
				_, other := policy.Preset("own-" + field)
				named := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","policy":"own-`+field+`"}`)
				if d := cmp.Diff(ep["preset_shape"], named["preset_shape"]); d != "" || other {
					t.Errorf("%s: an endpoint that names the copy: %s", field, d)
				}
			}
		})
	}
}

// TestACopyOfACopy: an edit of an endpoint's own named policy keeps its name as the base, and the
// shape of the preset behind it, also once that policy is gone.
func TestACopyOfACopy(t *testing.T) {
	w := newWorld(t)
	own := w.must(201, "POST", "/v1/policies", `{"name":"ours","preset":"sent","timeout":"7s"}`)
	ep := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","policy":"ours"}`)
	at := "/v1/endpoints/" + ep["id"].(string)
	got := w.must(200, "PATCH", at, `{"policy":{"jitter":0.5}}`)
	rules := got["policy"].(map[string]any)
	if rules["preset"] != "ours" || rules["shape"] != "sent" || rules["timeout"] != "7s" || rules["max_age"] != "24h" ||
		fmt.Sprint(got["policy_changes"]) != "[jitter]" || got["format"] != "raw" || got["ordering"] != "none" {
		t.Errorf("the endpoint is %v", got)
	}
	if got := w.must(200, "PATCH", at, `{"policy":{"preset":"paylera"}}`); got["policy"].(map[string]any)["timeout"] != "10s" ||
		fmt.Sprint(got["policy_changes"]) != "[jitter]" || got["format"] != "standard" || got["ordering"] != "key" {
		t.Errorf("on another base it is %v", got)
	}
	w.must(200, "PATCH", at, `{"policy":{"preset":"ours"}}`)
	w.must(204, "DELETE", "/v1/policies/"+own["id"].(string), "")
	if got := w.must(200, "PATCH", at, `{"policy":{"timeout":"9s"},"description":"x"}`); got["policy"].(map[string]any)["timeout"] != "9s" ||
		got["policy"].(map[string]any)["jitter"] != 0.5 || got["format"] != "raw" {
		t.Errorf("without its base it is %v", got)
	}
	w.must(422, "POST", "/v1/endpoints", `{"url":"https://a.example","policy":{"preset":"ours"}}`)
	w.must(422, "POST", "/v1/policies", `{"name":"x","preset":"nothing"}`)
	w.must(422, "POST", "/v1/policies", `{"name":"x","shape":"nothing"}`)
}

// TestTheShapeOfANamedPolicyStays while endpoints name it: events that they have accepted keep
// theirs.
func TestTheShapeOfANamedPolicyStays(t *testing.T) {
	w := newWorld(t)
	own := w.must(201, "POST", "/v1/policies", `{"name":"ours","preset":"sent"}`)["id"].(string)
	ep := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","policy":"ours"}`)["id"].(string)
	w.must(409, "PATCH", "/v1/policies/"+own, `{"preset":"parseo"}`)
	w.must(200, "PATCH", "/v1/policies/"+own, `{"preset":"parseo","shape":"sent"}`)
	w.must(200, "PATCH", "/v1/endpoints/"+ep, `{"policy":null}`)
	w.must(200, "PATCH", "/v1/policies/"+own, `{"shape":null}`)
}

// TestWhatAnEndpointSaysWins over its preset, and null gives it back to the preset. A change of the
// policy that changes the format applies to events accepted from then on.
func TestWhatAnEndpointSaysWins(t *testing.T) {
	w := newWorld(t)
	ep := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","policy":"sent","format":"standard","ordering":"key"}`)
	at := "/v1/endpoints/" + ep["id"].(string)
	if ep["format"] != "standard" || ep["ordering"] != "key" || ep["preset_shape"].(map[string]any)["format"] != nil {
		t.Errorf("it is %v", ep)
	}
	w.clock = w.clock.Add(time.Minute)
	if got := w.must(200, "PATCH", at, `{"format":null,"ordering":null}`); got["format"] != "raw" || got["ordering"] != "none" {
		t.Errorf("without settings of its own it is %v", got)
	}
	if former := w.stored(ep["id"]).Former; len(former) != 1 || former[0].Format != grapnel.FormatStandard {
		t.Errorf("former shapes are %+v", former)
	}
	w.clock = w.clock.Add(time.Minute)
	w.must(200, "PATCH", at, `{"policy":"parseo"}`)
	if former := w.stored(ep["id"]).Former; len(former) != 2 || former[1].Format != grapnel.FormatRaw {
		t.Errorf("former shapes are %+v", former)
	}
}
