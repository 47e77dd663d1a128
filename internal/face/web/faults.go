package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

// The playground sends tests with faults: late, in another order, twice. Events are made in the
// order in which they are written, so their timestamps have that order whatever the order of
// sending is. The server delays each test by itself: the page waits for nothing, and a restart
// loses none.

// foldedFaults is the group of inputs that few tests need.
const foldedFaults = "Faults to try on this endpoint"

const (
	mostTrials = 10          // tests that one form sends
	trialGap   = time.Second // between tests, so that they arrive in the order in which they are sent
	longest    = time.Hour   // delay of the first
)

// trialFaults says how tests are sent.
type trialFaults struct {
	Data  []json.RawMessage // in the order in which the events are made
	Turn  []int             // parallel: when each is sent; 0 is the first
	Delay time.Duration
	Order string
}

// faults reads them from the form. data is that of the first event.
func (v *visit) faults(data json.RawMessage) (f trialFaults, err error) {
	in, err := v.creation(&trialBlank)
	if err != nil {
		return f, err
	}
	f.Data = []json.RawMessage{data}
	more, _ := in["more"].([]string)
	for i, text := range more {
		if !json.Valid([]byte(text)) {
			return f, wrong("more", fmt.Sprintf("line %d is not JSON", i+1))
		}
		f.Data = append(f.Data, json.RawMessage(text))
	}
	if len(f.Data) > mostTrials {
		return f, wrong("more", fmt.Sprintf("has %d lines; at most %d are allowed", len(more), mostTrials-1))
	}
	if text, _ := in["delay"].(string); text != "" {
		f.Delay, err = policy.ParseDuration(text)
		if err != nil || f.Delay < 0 || f.Delay > longest {
			return f, wrong("delay", "must be a duration from 0s to 1h, such as 10s")
		}
	}
	f.Order, _ = in["order"].(string)
	for i, n := 0, len(f.Data); i < n; i++ {
		turn := i
		switch f.Order {
		case "backwards":
			turn = n - 1 - i
		case "first_last":
			turn = (i + n - 1) % n
		}
		f.Turn = append(f.Turn, turn)
	}
	return f, nil
}

// said is what follows from sending them.
func (f *trialFaults) said() string {
	said := "A test is on its way."
	if n := len(f.Data); n > 1 {
		said = say.Many(n, "test is", "tests are") + " on their way, a second apart"
		switch f.Order {
		case "backwards":
			said += ", the last one first"
		case "first_last":
			said += ", the first one last"
		}
		said += "."
	}
	if f.Delay > 0 {
		said += " The first is sent in " + say.Spoken(f.Delay) + "."
	}
	return said
}

// sendTrial sends test events to one endpoint. A test is a real request with the trigger test; it
// goes to this endpoint alone, whatever it subscribes to.
func (v *visit) sendTrial() (string, error) {
	e, endpoint, twice, err := v.trialEvent()
	if err != nil {
		return "", err
	}
	if endpoint == "" {
		return "", wrong("endpoint", "choose the endpoint that gets it")
	}
	f, err := v.faults(e.Data)
	if err != nil {
		return "", err
	}
	sent := make([]string, len(f.Data))
	for i, data := range f.Data {
		d, err := v.client.TestEndpointLater(v.Context(), endpoint, f.Delay+time.Duration(f.Turn[i])*trialGap, e.Type, data)
		if err != nil {
			return "", err
		}
		sent[f.Turn[i]] = d.ID
	}
	to, said := url.Values{"sent": sent}, f.said()
	if twice {
		to.Set("twice", "1")
		said += " When it has arrived, Send again delivers the same event a second time, with the same id."
	}
	v.goTo("/playground?" + to.Encode())
	return said, nil
}

// answers show what became of the tests that were sent, in the order of sending.
func (m *playgroundModel) answers(v *visit, sent []string) error {
	if len(sent) > mostTrials {
		return refused(http.StatusBadRequest, "Too many tests are named.", "Open the playground again.")
	}
	names, results, open := map[string]string{}, []string{}, 0
	for _, id := range sent {
		d, err := v.client.Delivery(v.Context(), id)
		if err != nil {
			return err
		}
		if d.Status == grapnel.Pending {
			open++
		}
		if d.Last != nil {
			word := words.Result(d.Last.StatusCode, d.Last.ErrorClass)
			if len(sent) == 1 {
				word += " after " + say.Took(d.Last.Duration.Std())
			}
			results = append(results, word)
		}
		m.Sent = append(m.Sent, v.deliveryRow(d, names))
	}
	switch {
	case len(results) > 0:
		m.Verdict.Pieces = []piece{{"The endpoint answered " + strings.Join(results, ", ") + ".", ""}}
	default:
		m.Verdict.Pieces = []piece{{"The endpoint has not answered yet.", ""}}
	}
	m.Verdict.Next = "A delivery's page has the request and the answer."
	if open > 0 {
		m.Verdict.Next = say.Many(open, "test has", "tests have") + " no answer yet. " + m.Verdict.Next
		m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Look again", Href: v.link(v.here())})
	}
	if v.URL.Query().Get("twice") != "" && open == 0 && v.mayDo("/deliveries/{id}/retry") {
		again := v.link("/deliveries/" + url.PathEscape(sent[0]) + "/retry")
		m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Send again", Post: again, Main: true})
	}
	return nil
}
