package torture

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

// finding words a violation of the case.
func (t *trial) finding(v violation) Finding {
	d := t.defect(v)
	text := remedies[d.remedy]
	fix := text[t.Language]
	if fix == "" {
		fix = text[""]
	}
	return Finding{Invariant: v.Invariant, Defect: d.text, Shown: v.Text, Proof: proof(&t.result.History, v),
		Fix: strings.Split(fix, "\n"), Remedy: d.remedy}
}

func (t *trial) defect(v violation) defect {
	label := ""
	if v.Event >= 0 {
		label = t.result.History.Events[v.Event].Label
	}
	return defectOf(t.result.ID, label, v)
}

// defectOf finds the most particular row for a violation: by the case and the event's label, by the
// case, by the invariant.
func defectOf(id, label string, v violation) defect {
	keys := []string{id + " " + v.Invariant + " " + label, id + " " + v.Invariant, v.Invariant}
	if v.status != 0 {
		keys = []string{id + " " + v.Invariant + " answer", id + " " + v.Invariant, v.Invariant + " answer", v.Invariant}
	}
	for _, key := range keys {
		if d, found := defects[key]; found {
			return d
		}
	}
	panic("an invariant without a defect: " + v.Invariant)
}

// proof is the part of a history that shows a violation: the requests of its event or key, equal
// ones in one line.
func proof(h *History, v violation) (lines []string) {
	concerned := func(i int) bool { return i == v.Event }
	var state *State
	if v.Event < 0 {
		for _, s := range h.States {
			if s.wrong() {
				state = s
				break
			}
		}
		concerned = func(i int) bool { return h.Events[i].Key == state.Key }
	}
	type line struct {
		at   time.Duration
		text string
	}
	var all []line
	last := time.Duration(0)
	for _, group := range grouped(h.Requests, concerned) {
		all = append(all, line{group[0].Start, describe(group)})
		last = group[len(group)-1].Start
	}
	rest := 2 // marks after the last request: killed, started
	for _, m := range h.Marks {
		own := slices.IndexFunc(h.Events, func(e *Event) bool { return e.ID == m.Event })
		if own >= 0 && !concerned(own) || own < 0 && len(all) > 0 && m.At < all[0].at {
			continue // it is another event's, or older than the first request
		}
		if own < 0 && m.At > last {
			rest--
		}
		if rest >= 0 {
			all = append(all, line{m.At, m.Text})
		}
	}
	for i, e := range h.Events {
		if n := len(e.Readings); concerned(i) && n > 0 {
			text := fmt.Sprintf("%s has %s", labelled(e), say.Many(e.Readings[n-1].Effects, "effect", "effects"))
			all = append(all, line{e.Readings[n-1].At, text})
		}
	}
	if state != nil {
		all = append(all, line{state.At, fmt.Sprintf("%s is %q", state.Field, state.Got)})
	}
	slices.SortStableFunc(all, func(a, b line) int { return int(a.at - b.at) })
	for _, l := range all {
		lines = append(lines, fmt.Sprintf("+%.3fs  %s", l.at.Seconds(), l.text))
	}
	return lines
}

// labelled names an event with its label, if it has one.
func labelled(e *Event) string {
	if e.Label == "" {
		return e.ID
	}
	return e.ID + " (" + e.Label + ")"
}

// grouped returns the concerned requests; those that follow each other with the same words in their
// label, as "copy 1 of 20", are one group.
func grouped(requests []*Request, concerned func(event int) bool) (groups [][]*Request) {
	word := func(r *Request) string { return strings.TrimRight(r.Label, " 0123456789of") }
	for _, r := range requests {
		if !concerned(r.Event) {
			continue
		}
		if n := len(groups); n > 0 && word(groups[n-1][0]) == word(r) {
			groups[n-1] = append(groups[n-1], r)
			continue
		}
		groups = append(groups, []*Request{r})
	}
	return groups
}

// describe is a line for requests with the same label: "20 × copy → 18 × 200, 2 × 503".
func describe(group []*Request) string {
	if len(group) == 1 {
		return fmt.Sprintf("%s → %s in %v", group[0].Label, answer(group[0]), round(group[0].Took))
	}
	var answers []string
	counts := map[string]int{}
	for _, r := range group {
		a := answer(r)
		if counts[a]++; counts[a] == 1 {
			answers = append(answers, a)
		}
	}
	for i, a := range answers {
		answers[i] = fmt.Sprintf("%d × %s", counts[a], a)
	}
	return fmt.Sprintf("%d × %s → %s", len(group), strings.TrimRight(group[0].Label, " 0123456789of"), strings.Join(answers, ", "))
}

func answer(r *Request) string {
	switch {
	case r.Killed:
		return "killed"
	case r.Status == 0:
		return "no answer (" + r.Error + ")"
	case r.Outcome != "":
		return fmt.Sprintf("%d %s", r.Status, r.Outcome)
	}
	return fmt.Sprint(r.Status)
}

// Languages are those that remedies are written in; other receivers get plain words.
var Languages = []string{"go", "typescript", "python"}

// language guesses the receiver's language by its command, else by its Server and X-Powered-By
// headers.
func language(command []string, server string) string {
	clues := strings.ToLower(server)
	for _, word := range command {
		clues += " " + strings.ToLower(filepath.Base(word)) + " "
	}
	for _, clue := range []struct{ part, language string }{
		{"python", "python"}, {"uvicorn", "python"}, {"gunicorn", "python"}, {"werkzeug", "python"}, {"hypercorn", "python"},
		{"daphne", "python"}, {"waitress", "python"}, {"flask", "python"}, {"django", "python"}, {".py ", "python"},
		{"node", "typescript"}, {"express", "typescript"}, {"next.js", "typescript"}, {"npm", "typescript"}, {"npx", "typescript"},
		{"bun ", "typescript"}, {"deno", "typescript"}, {"tsx", "typescript"}, {".ts ", "typescript"}, {".js ", "typescript"}, {".mjs ", "typescript"},
		{" go ", "go"}, {".go ", "go"},
	} {
		if strings.Contains(clues, clue.part) {
			return clue.language
		}
	}
	return ""
}
