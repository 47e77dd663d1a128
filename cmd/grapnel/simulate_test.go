package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/policy"
)

func TestLint(t *testing.T) {
	lint := func(args ...string) result {
		t.Helper()
		return invoke(t, nil, "", append([]string{"policies", "lint"}, args...)...)
	}
	if got := lint("standard", "-o", "name"); got.code != 0 || got.out != "" {
		t.Errorf("%+v", got)
	}
	if got := lint("parseo"); got.code != 0 || !strings.Contains(got.out, "9        24h   32h35m36s\n") {
		t.Errorf("%+v", got)
	}
	for _, tc := range []struct {
		args string
		want string
	}{
		{"parseo --says-attempts 8", "attempts-differ\n"},
		{"parseo --says-window 36h", "window-differs\n"},
		{"standard --dedupe-window 72h", "dedupe-too-short\n"},
		{"standard --dead-letters-kept 72h", "retention-short\n"},
		{`--claims {"schedule":{"table":["0s","1s"],"attempts":3,"jitter":"full"}}`, "attempts-differ\n"},
	} {
		got := lint(append(strings.Fields(tc.args), "-o", "name")...)
		if got.code != 8 || got.out != tc.want {
			t.Errorf("%s: %+v", tc.args, got)
		}
	}
	got := lint("parseo", "--says-attempts", "8", "-o", "json")
	var doc struct {
		Table    []string
		Findings []policy.Finding
	}
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || len(doc.Table) != 9 || len(doc.Findings) != 1 {
		t.Errorf("%+v: %v", got, err)
	}
	for _, args := range [][]string{{}, {"nobody's"}, {`{"timeout":1}`}, {"{"}, {"@/nowhere/at-all"}, {"--claims", "{"}, {"--claims", `{"x":1}`}, {"a", "b"}} {
		if got := lint(args...); got.code != 2 {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestSimulate(t *testing.T) {
	sim := func(args ...string) result {
		t.Helper()
		return invoke(t, nil, "", append([]string{"simulate"}, args...)...)
	}

	one := sim("--outage", "6h", "--policy", "paylera", "-o", "json")
	var report policy.Report
	if err := json.Unmarshal([]byte(one.out), &report); err != nil || report.Policy != "paylera" ||
		report.Events != 1440 || report.DeadLetters != 0 {
		t.Errorf("%+v", one)
	}
	if again := sim("--outage", "6h", "--policy", "paylera", "-o", "json"); again != one {
		t.Error("the same question has another answer")
	}
	people := sim("--outage", "6h", "--policy", "paylera")
	for _, want := range []string{"POLICY", "paylera", "by schedule alone", "PROBES", "▒", "backlog", "█"} {
		if !strings.Contains(people.out, want) {
			t.Errorf("the picture lacks %q:\n%s", want, people.out)
		}
	}
	if two := sim("--outage", "72h", "--policy", "paylera", "--policy", "standard", "-o", "name"); two.out != "paylera\nstandard\n" {
		t.Errorf("%+v", two)
	}

	page, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "<!-- simulate -->\n\n    $ grapnel simulate ")
	shown, _, _ = strings.Cut(shown, "\n\n<!-- /simulate -->")
	asked, table, _ := strings.Cut(strings.ReplaceAll(shown, "\n    ", "\n"), "\n")
	if got := sim(strings.Fields(asked)...); strings.TrimSpace(got.out) != table || table == "" {
		t.Errorf("docs/policies.md should show for %q:\n%s", asked, got.out)
	}

	if calm := sim("--outage", "6h", "--policy", `{"name":"calm","breaker":false}`); strings.Contains(calm.out, "alone") || !strings.Contains(calm.out, "calm") {
		t.Errorf("without a breaker there is nothing to compare with:\n%s", calm.out)
	}
	if dead := sim("--outage", "130h", "--rate", "1/min"); !strings.Contains(dead.out, "disabled after 120h") {
		t.Errorf("a dead endpoint:\n%s", dead.out)
	}

	const lost = ".by_schedule.dead_letters > 0 and .dead_letters == 0"
	lossy := sim("--outage", "72h", "--policy", "paylera", "--policy", "standard", "--fail-if", lost, "-o", "json")
	if lossy.code != 8 || !strings.Contains(lossy.errs, "is true for paylera") ||
		strings.Contains(lossy.errs, "standard") || !json.Valid([]byte(lossy.out)) {
		t.Errorf("%+v", lossy)
	}
	if flaky := sim("--outage", "1h", "--kind", "flaky:0.3", "--fail-if", ".dead_letters > 0"); flaky.code != 0 {
		t.Errorf("%+v", flaky)
	}

	for _, tc := range [][]string{
		{}, {"--outage", "soon"}, {"--outage", "1h", "--kind", "sad"}, {"--outage", "1h", "--kind", "flaky"},
		{"--outage", "1h", "--rate", "often"},
		{"--outage", "1h", "--policy", "nobody's"}, {"--outage", "1h", "--policy", `{"x":1}`}, {"--outage", "1h", "--policy", `{`},
		{"--outage", "1h", "--fail-if", ".["}, {"--outage", "1h", "--fail-if", ".policy.x"},
	} {
		if got := sim(tc...); got.code != 2 {
			t.Errorf("%v: %+v", tc, got)
		}
	}
	for args, flags := range map[string]string{
		"--outage soon": "--outage: ", "--outage 1h --kind sad": "--kind: ", "--outage 1h --kind slow": "--kind: ",
		"--outage 1h --kind flaky:2": "--kind: ", "--outage 1h --rate often": "--rate: ", "--outage 1h --after x": "--after: ",
		"--outage 1h --duration x": "--duration: ", "--outage 1h --keys -1": "--keys: ",
	} {
		if got := sim(strings.Fields(args)...); !strings.HasPrefix(got.errs, "error: "+flags) || strings.Contains(got.errs, "/outage") {
			t.Errorf("%s: %q does not name %s", args, got.errs, flags)
		}
	}
}
