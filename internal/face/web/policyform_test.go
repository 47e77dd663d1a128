package web

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// exponential is a policy as it is typed in.
func exponential(more ...string) url.Values {
	v := url.Values{"name": {"mine"}, "schedule/mode": {"exponential"}, "schedule/base": {"5s"}, "schedule/factor": {"2"}, "schedule/max": {"1h"},
		"max_age": {"24h"}, "on_exhausted": {"dead_letter"}, "then": {"block"}, "classify": {"410: disable"}, "jitter": {"0.2"}}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return v
}

// TestPoliciesAreRehearsed: a preview saves nothing and shows the effect of the policy, or its
// faults at their inputs; saving sends the policy.
func TestPoliciesAreRehearsed(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	got := answering(s)
	w := s.ask("POST", "/policies/new", s.filled("/policies/new", exponential("preview", "1")))
	for _, want := range []string{"What it would do", "An outage of 6 h", `value="24h"`, "attempts within"} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("answered %d without %s", w.Code, want)
		}
	}
	w = s.ask("POST", "/policies/new", s.filled("/policies/new", exponential("preview", "1", "schedule/base", "soon")))
	for _, want := range []string{`id="wrong-schedule/base"`, `value="soon"`, "The policy cannot be used as it is."} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("answered %d without %s", w.Code, want)
		}
	}
	if len(*got) != 0 {
		t.Errorf("a preview saved %v", *got)
	}
	for _, fault := range faults(w.Body.String()) {
		t.Error(fault)
	}
	want := map[string]any{"name": "mine", "schedule": map[string]any{"mode": "exponential", "base": "5s", "factor": 2.0, "max": "1h"}, "max_age": "24h", "max_attempts": nil,
		"on_exhausted": "dead_letter", "then": "block", "classify": map[string]any{"410": "disable"}, "jitter": 0.2, "limits": []any{}}
	w = s.ask("POST", "/policies/new", s.filled("/policies/new", exponential()))
	if w.Code != http.StatusSeeOther || len(*got) != 1 || !reflect.DeepEqual((*got)[0].body, want) {
		t.Errorf("answered %d; the API got %v, want %v", w.Code, *got, want)
	}
	*got = nil
	const at = "/policies/pol_own/edit"
	w = s.ask("POST", at, s.filled(at, url.Values{"max_attempts": {""}, "then": {"block"}}))
	if w.Code != http.StatusSeeOther || len(*got) != 1 ||
		!reflect.DeepEqual((*got)[0].body, map[string]any{"max_attempts": nil, "then": "block"}) {
		t.Errorf("answered %d; the API got %v", w.Code, *got)
	}
	*got = nil // another kind of schedule: the table of the old one is removed
	s.ask("POST", at, s.filled(at, url.Values{"schedule/mode": {"exponential"}, "schedule/delays": {""}, "schedule/tail": {""}, "schedule/base": {"2s"}}))
	if len(*got) != 1 || !reflect.DeepEqual((*got)[0].body, map[string]any{"schedule": map[string]any{"mode": "exponential", "delays": nil,
		"tail": nil, "base": "2s"}}) {
		t.Errorf("the API got %v", *got)
	}
	if w := s.ask("GET", "/policies/standard/edit", nil); w.Code != http.StatusConflict {
		t.Errorf("a preset: answered %d", w.Code)
	}
}

// TestPoliciesAreCompared: a policy page shows another policy in the same outage.
func TestPoliciesAreCompared(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	w := s.ask("GET", "/policies/pol_own?outage=1h&with=standard", nil)
	for _, want := range []string{`<th scope="col" class="num">standard</th>`, "with=standard", "with=svix"} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("answered %d without %s", w.Code, want)
		}
	}
	for _, fault := range faults(w.Body.String()) {
		t.Error(fault)
	}
}
