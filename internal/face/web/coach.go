package web

import (
	"fmt"
	"net/http"

	"github.com/grapnelhq/grapnel"
)

// The coach's page and its action.
const (
	coachPath = "/first-minute"
	fixPath   = coachPath + "/fix"
)

func coachPages() []page {
	story := row("First minute", coachPath, "First minute", "coach.html", firstMinute, "grapnel dlq list")
	return []page{story.as(alone("/v1/dead-letters"), nil)}
}

func coachActions() []action {
	return []action{{path: fixPath, scope: grapnel.ScopeManage, do: fixReceiver}}
}

func coachEntry() entry {
	return entry{Name: "First minute", Path: coachPath, Key: "f", Sign: "coach", Deep: true}
}

// coachModel is the story with its steps.
type coachModel struct {
	Verdict verdict
	Steps   []coachStep
	Own     []ownLine // lines to paste, once the story has ended
}

type coachStep struct {
	Step
	Pill pill
}

func firstMinute(v *visit) (coachModel, error) {
	if v.session.Tenant != "" { // the story's events belong to the default tenant
		return coachModel{}, refused(http.StatusNotFound, "Page not found.", "The story is shown to keys that are bound to no tenant.")
	}
	scene := v.web.Dev.Coach.Scene()
	v.answers.add(fmt.Sprintf("%+v", scene)) // a change of the story has the live page drawn again
	var m coachModel
	done, current := 0, true
	for _, s := range scene.Steps {
		step := coachStep{s, pill{toneNone, "later"}}
		switch {
		case s.Done:
			done++
			step.Pill = pill{toneOK, "done"}
		case current:
			current = false
			step.Pill = pill{toneWait, "now"}
		}
		m.Steps = append(m.Steps, step)
	}
	m.Verdict.say(fmt.Sprintf("Three receivers, one minute: %d of %d steps done.", done, len(scene.Steps)), "",
		"One receiver is healthy, one is flaky, and a ledger has a bug. Their policy is the default, with seconds in place of minutes and hours. A step is ticked when the server's own data show it.")
	letters := act{Label: "Look at the dead letters", Href: v.link(v.deadLetters(scene.Refuser)), Main: scene.Fixed}
	switch {
	case len(scene.Steps) > 0 && done == len(scene.Steps):
		m.Verdict.say("You have seen it: nothing was lost, and no duplicate did harm.", "",
			"Now your own receiver. Paste these lines into another terminal:")
		m.Own = v.ownLines(&scene)
	case scene.Asked && !scene.Fixed:
		m.Verdict.say("The ledger refused three payments. They are stored as dead letters.", "",
			"Repeating them is useless until the ledger is repaired. Repair it, then replay them.")
		if v.session.May(grapnel.ScopeManage) {
			m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Fix the receiver", Post: v.link(fixPath), Main: true})
		}
		m.Verdict.Acts = append(m.Verdict.Acts, letters)
	case scene.Asked:
		m.Verdict.say("The ledger is repaired. Replay its three dead letters.", "", "They keep their content, order and ids.")
		m.Verdict.Acts = append(m.Verdict.Acts, letters)
	}
	return m, nil
}

// ownLines are commands for a receiver of one's own, with the address of this server and the path
// of the file with the key. The key itself is on no page.
func (v *visit) ownLines(scene *Scene) []ownLine {
	env := "GRAPNEL_SERVER=" + shellQuote(v.place.URL("")) + " GRAPNEL_KEY_FILE=" + shellQuote(scene.KeyFile) + " " + shellQuote(scene.Program) + " "
	return []ownLine{
		{"Receive: an endpoint leads to your program.", env + "endpoints create http://127.0.0.1:3000/hooks"},
		{"Send: an event goes to every endpoint.", env + `send invoice.paid -d '{"amount":100}' --key inv_1`},
		{"Listen: a local program gets the events, without an endpoint.", env + "listen http://127.0.0.1:3000/hooks"},
	}
}

func fixReceiver(v *visit) (string, error) {
	if v.session.Tenant != "" || !v.session.May(grapnel.ScopeManage) {
		return "", refused(http.StatusNotFound, "Page not found.", "")
	}
	if _, err := v.client.WhoAmI(v.Context()); err != nil { // a revoked key may do nothing
		return "", err
	}
	v.web.Dev.Coach.Fix()
	return "The ledger is repaired. It accepts payments in yen now.", nil
}
