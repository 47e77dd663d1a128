package alert

import (
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// TestOneOutageIsOneMessage: an outage that uses up the budgets of several promises in several
// windows is one alert, told once and resolved once. While only slow windows are left it is milder;
// the next outage meanwhile is told as a rise of the severity.
func TestOneOutageIsOneMessage(t *testing.T) {
	m, shelf, boxes := NewMemory(bounds.Fill(Bounds{})), newShelf(), Boxes{}
	var told []string
	all := map[string]Recipient{"chat": {ID: "chat"}}
	burns := func(fast, slow float64) (all []Burn) {
		for _, promise := range []string{"availability", "freshness"} {
			all = append(all, Burn{promise, "1 h and 5 min", fast, fast, 10, grapnel.SeverityPage},
				Burn{promise, "6 h and 30 min", fast, fast, 10, grapnel.SeverityPage},
				Burn{promise, "72 h and 6 h", slow, slow, 1, grapnel.SeverityWarning})
		}
		return all
	}
	now := begin
	during := func(d time.Duration, fast, slow float64) {
		for end := now.Add(d); now.Before(end); now = now.Add(10 * time.Second) {
			facts := Facts{Now: now, Burns: burns(fast, slow)}
			changes := m.Step(Round{Now: now, Samples: facts.Samples(), Open: shelf.alerts(t)})
			for i := range changes {
				shelf.put(&changes[i])
			}
			for _, message := range boxes.Post(now, bounds.Fill(Bounds{}), "", changes, all, func(*Change) []string { return []string{"chat"} }) {
				told = append(told, message.Data.Severity+" "+message.Data.Title)
			}
		}
	}
	during(time.Minute, 0, 0)
	during(5*time.Minute, 20, 5)
	during(2*time.Hour, 0, 5)
	if open := shelf.alerts(t); len(open) != 1 || open[0].Severity != grapnel.SeverityWarning || len(open[0].Messages) > 1 {
		t.Errorf("after the outage there are %+v", open)
	}
	during(time.Minute, 20, 5)
	during(6*time.Hour, 0, 0)
	want := []string{"page a promise is being broken", "page Worse: a promise is being broken",
		"page Resolved: a promise is being broken"}
	if !slices.Equal(told, want) {
		t.Errorf("told were %q", told)
	}
}
