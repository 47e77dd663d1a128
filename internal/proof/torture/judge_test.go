package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// history makes a history of one event: effects that were read (-1: none), then the requests.
func history(least, most, effects int, requests ...Request) *History {
	h := &History{Events: []*Event{{ID: "msg_1", Key: "inv_1", Least: least, Most: most}}}
	if effects >= 0 {
		h.Events[0].Readings = []Reading{{Effects: effects}}
	}
	for _, r := range requests {
		if r.Allowed == 0 {
			r.Allowed = Accepted
		}
		h.Requests = append(h.Requests, &r)
	}
	return h
}

// TestInvariants: for each invariant histories that break it, and the nearest ones that do not.
func TestInvariants(t *testing.T) {
	ok, failed := Request{Status: 200}, Request{Status: 503, Allowed: Accepted | again}
	forged := func(status int) Request { return Request{Status: status, Forged: true, Allowed: no} }
	for name, c := range map[string]struct {
		history *History
		want    []string
	}{
		"I1 accepted, no effect":                {history(1, 1, 0, ok), []string{I1}},
		"I1 accepted, one effect":               {history(1, 1, 1, ok), nil},
		"I1 accepted for later":                 {history(1, 1, 1, Request{Status: 202}), nil},
		"I1 not accepted, no effect":            {history(1, 1, 0, failed), nil},
		"I1 accepted, and the effect unseen":    {history(1, 1, -1, ok), nil},
		"I1 an effect that need not be":         {history(0, 1, 0, ok), nil},
		"I2 two effects":                        {history(1, 1, 2, ok, ok), []string{I2}},
		"I2 two effects without an answer":      {history(1, 1, 2, Request{Error: "EOF", Killed: true}), []string{I2}},
		"I2 two copies, one effect":             {history(1, 1, 1, ok, ok), nil},
		"I3 forged and accepted":                {history(0, 0, 0, forged(200)), []string{I3}},
		"I3 forged, refused, with an effect":    {history(0, 0, 1, forged(401)), []string{I3}},
		"I3 forged and refused":                 {history(0, 0, 0, forged(401)), nil},
		"I3 forged, then genuine":               {history(1, 1, 1, forged(401), ok), nil},
		"I3 a forged request is no acceptance":  {history(1, 1, 0, Request{Status: 200, Forged: true, Allowed: some}), nil},
		"I4 failed, retried, no effect":         {history(1, 1, 0, failed, ok), []string{I4}},
		"I4 failed, retried, one effect":        {history(1, 1, 1, failed, ok), nil},
		"I4 a duplicate is refused":             {history(1, 1, 1, ok, Request{Status: 409}), []string{I4}},
		"I4 a genuine one is redirected":        {history(1, 1, 0, Request{Status: 308}), []string{I4}},
		"I4 busy, where that is allowed":        {history(1, 1, 1, ok, failed), nil},
		"I4 refused, where a retry would help":  {history(1, 1, 0, Request{Status: 400, Allowed: Accepted | again}), []string{I4}},
		"I6 no answer":                          {history(1, 1, 1, Request{Error: "EOF"}), []string{I6}},
		"I6 no answer of a killed receiver":     {history(1, 1, 0, Request{Error: "EOF", Killed: true}), nil},
		"I6 late":                               {history(1, 1, 1, Request{Status: 200, Took: 6 * time.Second}), []string{I6}},
		"I6 late, but made slow":                {history(1, 1, 1, Request{Status: 200, Took: 6 * time.Second, Slow: true}), nil},
		"I6 at the budget":                      {history(1, 1, 1, Request{Status: 200, Took: 5 * time.Second}), nil},
		"I6 one late answer in 101 is no 99 %":  {history(1, 1, 1, answers(100, 1)...), nil},
		"I6 two late answers in 101 are":        {history(1, 1, 1, answers(99, 2)...), []string{I6}},
		"I5 an older version at the end":        {withState("2"), []string{I5}},
		"I5 the newest version at the end":      {withState("3"), nil},
		"several: forged, accepted, two effect": {history(0, 0, 2, forged(204)), []string{I3}},
	} {
		var got []string
		for _, v := range judge(c.history, 5*time.Second) {
			got = append(got, v.Invariant)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: broken are %v, want %v", name, got, c.want)
		}
	}
}

func answers(quick, late int) []Request {
	return append(slices.Repeat([]Request{{Status: 200}}, quick), slices.Repeat([]Request{{Status: 200, Took: time.Minute}}, late)...)
}

func withState(got string) *History {
	h := history(1, 1, 1, Request{Status: 200})
	h.States = []*State{{Key: "inv_1", Field: "version", Want: "3", Got: got}}
	return h
}

// TestEveryDefectHasItsRemedy: each case and invariant has a defect, each defect a remedy of three
// lines in words, and each other language of it three lines too.
func TestEveryDefectHasItsRemedy(t *testing.T) {
	used := map[string]bool{}
	for name, d := range defects {
		used[d.remedy] = true
		if remedies[d.remedy][""] == "" {
			t.Errorf("%s: there is no remedy %q", name, d.remedy)
		}
	}
	for name, texts := range remedies {
		if !used[name] {
			t.Errorf("no defect has the remedy %s", name)
		}
		for language, text := range texts {
			if n := strings.Count(text, "\n") + 1; n != 3 {
				t.Errorf("%s in %q has %d lines", name, language, n)
			}
			if language != "" && !slices.Contains(Languages, language) {
				t.Errorf("%s: %q is no language", name, language)
			}
		}
	}
	for _, c := range Cases {
		for invariant := range Invariants {
			defectOf(c.ID, "", violation{Invariant: invariant})
			defectOf(c.ID, "", violation{Invariant: invariant, status: 500})
		}
	}
}

// TestProofIsShort: only the requests of the broken event are shown, equal ones in one line.
func TestProofIsShort(t *testing.T) {
	h := history(1, 1, 1, Request{Status: 200, Label: "first"})
	h.Events = append(h.Events, &Event{ID: "msg_2", Least: 1, Most: 1, Readings: []Reading{{At: 2 * time.Second, Effects: 3}}})
	for i := range 20 {
		label := fmt.Sprintf("copy %d of 20", i+1)
		h.Requests = append(h.Requests, &Request{Event: 1, Status: 200, Label: label, Allowed: Accepted, Start: time.Second})
	}
	found := judge(h, 5*time.Second)
	if len(found) != 1 {
		t.Fatal(found)
	}
	want := []string{"+1.000s  20 × copy → 20 × 200", "+2.000s  msg_2 has 3 effects"}
	if got := proof(h, found[0]); !slices.Equal(got, want) {
		t.Errorf("proof: %q, want %q", got, want)
	}
}

// TestLanguageIsGuessed by the command, else by the answers' headers, else it is unknown.
func TestLanguageIsGuessed(t *testing.T) {
	for _, c := range []struct{ command, server, want string }{
		{"node dist/server.js", "", "typescript"},
		{"/usr/bin/python3 -m flask run", "", "python"},
		{"/opt/venv/bin/uvicorn app:app", "", "python"},
		{"go run ./cmd/hooks", "", "go"},
		{"./hooks --port 3000", "", ""},
		{"", "uvicorn", "python"},
		{"", " Express", "typescript"},
		{"", "nginx", ""},
	} {
		if got := language(strings.Fields(c.command), c.server); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.command, c.server, got, c.want)
		}
	}
}

// TestNothingIsPassedUnseen: without a probe, cases about effects are not judged, and a wrong
// status is found all the same.
func TestNothingIsPassedUnseen(t *testing.T) {
	o := newReceiver(t, "").options()
	o.Probe, o.FaultURL, o.ClockURL, o.OtherURL = nil, "", "", ""
	report, failed := verdicts(t, o)
	if len(failed) > 0 || report.Grade != "" {
		t.Errorf("failed: %v, grade %q", failed, report.Grade)
	}
	for i, r := range report.Results {
		if blind := Cases[i].needs == 0; blind != (r.Verdict == Passed) || !blind && r.Reason == "" {
			t.Errorf("%s: %s %q", r.ID, r.Verdict, r.Reason)
		}
	}
	o = newReceiver(t, "no verification").options()
	o.Probe, o.Only = nil, []string{"T14", "T17"}
	if _, failed := verdicts(t, o); !slices.Equal(failed, []string{"T14", "T17"}) {
		t.Errorf("failed: %v", failed)
	}
}

// TestReports: each form has every case; the page is one file without scripts and other hosts.
func TestReports(t *testing.T) {
	o := newReceiver(t, "no dedupe").options()
	o.Only, o.Language = []string{"T01", "T04", "T15"}, "go"
	report, _ := verdicts(t, o)
	junit, err := report.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`tests="3" failures="1" skipped="1"`, `<failure message="I2: 2 effects" type="I2">`,
		`<skipped message="it kills`} {
		if !strings.Contains(string(junit), want) {
			t.Errorf("the JUnit report lacks %s:\n%s", want, junit)
		}
	}
	page, err := report.HTML()
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if strings.Count(text, "<svg ") != 2 || !strings.Contains(text, "Not judged: it kills") ||
		!strings.Contains(text, "ON CONFLICT DO NOTHING") {
		t.Errorf("the page lacks a picture, a reason or a remedy")
	}
	for _, never := range []string{"<script", "src=", "href=\"http", "url(", "@import"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %s", never)
		}
	}
}

// doubled shows a second effect of one event at its second and later readings.
type doubled struct {
	Probe
	of       string
	readings int
}

func (d *doubled) Read(ctx context.Context, event, key string) (Reading, error) {
	reading, err := d.Probe.Read(ctx, event, key)
	if strings.Contains(event, d.of) {
		if d.readings++; d.readings > 1 {
			reading.Effects++
		}
	}
	return reading, err
}

// TestALateEffectIsToldAgain: an effect that comes after its case has passed is found at the end,
// and the case is told a second time.
func TestALateEffectIsToldAgain(t *testing.T) {
	o := newReceiver(t, "").options()
	o.Probe, o.Only = &doubled{Probe: o.Probe, of: "_t01_"}, []string{"T01", "T22"}
	var told []string
	o.Tell = func(r *Result) { told = append(told, r.ID+" "+string(r.Verdict)) }
	report, failed := verdicts(t, o)
	if want := []string{"T01 passed", "T22 passed", "T01 failed"}; !slices.Equal(told, want) || !slices.Equal(failed, []string{"T01"}) {
		t.Errorf("told %q, want %q; failed %v", told, want, failed)
	}
	if report.Grade != "" || report.Passed != 1 || report.Failed != 1 {
		t.Errorf("%+v", report)
	}
}

// TestLimitOfRequests: a run ends at its limit, and cases beyond it are not judged.
func TestLimitOfRequests(t *testing.T) {
	o := newReceiver(t, "").options()
	o.Bounds.Requests, o.Only = 5, []string{"T01", "T23", "T26"}
	report, _ := verdicts(t, o)
	var got []Verdict
	for _, r := range report.Results {
		got = append(got, r.Verdict)
	}
	if !slices.Equal(got, []Verdict{Passed, NotJudged, NotJudged}) {
		t.Errorf("verdicts: %v", got)
	}
}
