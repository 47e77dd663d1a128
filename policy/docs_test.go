package policy

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const page = "../docs/policies.md"

// TestThePageShowsWhatIsDone: the tables of docs/policies.md are made by the code that delivers.
func TestThePageShowsWhatIsDone(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"presets": presetTable(), "times": timesTable(), "findings": findingsTable(), "probes": probesTable()} {
		_, rest, ok := strings.Cut(string(raw), "<!-- "+name+" -->\n")
		got, _, closed := strings.Cut(rest, "<!-- /"+name+" -->")
		if !ok || !closed || got != want {
			t.Errorf("between <!-- %s --> and <!-- /%s --> in %s should be:\n%s", name, name, page, want)
		}
	}
}

// TestShapesAreDocumented: so is the table of what presets bring besides their rules.
func TestShapesAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../docs/sending.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| preset | headers | transform |\n|---|---|---|\n")
	for _, p := range Presets() {
		shape := ShapeOf(p.Name)
		var headers []string
		for _, name := range slices.Sorted(maps.Keys(shape.Headers)) {
			headers = append(headers, fmt.Sprintf("`%s: %s`", name, shape.Headers[name]))
		}
		transform := ""
		if shape.Transform != "" {
			transform = "`" + shape.Transform + "`"
		}
		if len(headers) > 0 || transform != "" {
			fmt.Fprintf(&want, "| `%s` | %s | %s |\n", p.Name, strings.Join(headers, " "), transform)
		}
	}
	_, rest, _ := strings.Cut(string(raw), "<!-- shapes -->\n")
	if got, _, closed := strings.Cut(rest, "<!-- /shapes -->"); !closed || got != want.String() {
		t.Errorf("between the marks in docs/sending.md should be:\n%s", &want)
	}
}

func presetTable() string {
	var b strings.Builder
	b.WriteString("| preset | timeout | waits | jitter | attempts | from first to last | given up |\n|---|---|---|---|---|---|---|\n")
	for _, p := range Presets() {
		r := p.Reach()
		limit := ""
		if p.MaxAge > 0 {
			limit = ", at most " + p.MaxAge.String()
		}
		fmt.Fprintf(
			&b,
			"| `%s` | %s | %s | %s | %d | %s%s | %s |\n",
			p.Name,
			p.Timeout,
			waits(&p.Schedule),
			p.Jitter,
			r.Attempts,
			Duration(r.Nominal),
			limit,
			strings.ReplaceAll(string(p.OnExhausted), "_", " "),
		)
	}
	return b.String()
}

func waits(s *Schedule) string {
	if s.Mode == Exponential {
		return fmt.Sprintf("%s, times %g each, at most %s", s.Base, s.Factor, s.Max)
	}
	var parts []string
	for _, d := range s.Delays {
		parts = append(parts, d.String())
	}
	text := strings.Join(parts, " ")
	if s.Mode == SinceFirst {
		text = "at " + text
	}
	if s.Tail == TailRepeat {
		text += " …"
	}
	return text
}

func timesTable() string {
	var b strings.Builder
	b.WriteString("| preset | seconds from the first attempt |\n|---|---|\n")
	for _, p := range Presets() {
		table := inSeconds(p.Reach().Table)
		text := strings.Trim(fmt.Sprint(table), "[]")
		if len(table) > 12 {
			text = strings.Trim(fmt.Sprint(table[:8]), "[]") + " … " + strings.Trim(fmt.Sprint(slices.Clone(table[len(table)-2:])), "[]")
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Name, text)
	}
	return b.String()
}

// probesTable is about the default breaker, with nothing random.
func probesTable() string {
	var b strings.Builder
	b.WriteString("| away for | probes by then | the next one comes within |\n|---|---|---|\n")
	for _, outage := range []Duration{10 * sec, mins, 10 * mins, hour, 6 * hour, 24 * hour} {
		rules, at, probes := DefaultBreaker(), DefaultBreaker().interval(0, 0), 0
		for at < outage.Std() {
			probes++
			at += rules.interval(probes, at)
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", outage, probes, Duration(rules.interval(probes, outage.Std())))
	}
	return b.String()
}

func findingsTable() string {
	var b strings.Builder
	b.WriteString("| code | meaning |\n|---|---|\n")
	for _, code := range LintCodes() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", code[0], code[1])
	}
	return b.String()
}
