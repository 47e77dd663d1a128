package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
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

// trialPlan is a filled form: an event, and how tests of it are sent.
type trialPlan struct {
	client.NewEvent
	endpoint string
	twice    bool
	all      []json.RawMessage // data, in the order in which the events are made
	turn     []int             // parallel: when each is sent; 0 is the first
	delay    time.Duration
	order    string
}

// trial reads the form. Data keep their bytes. The error has all faults of the form itself.
func (v *visit) trial(sends bool) (t trialPlan, own error) {
	in, own := v.creation(&trialBlank)
	wrongly := func(at, detail string) { own = joined(own, wrong(at, detail)) }
	text := func(name string) string { s, _ := in[name].(string); return s }
	t.Type, t.Key, t.Tenant, t.endpoint, t.order = text("type"), text("key"), text("tenant"), text("endpoint"), text("order")
	if v.session.Tenant != "" {
		t.Tenant = v.session.Tenant
	}
	if all, _ := in["metadata"].(map[string]any); all != nil {
		t.Metadata = map[string]string{}
		for name, value := range all {
			t.Metadata[name], _ = value.(string)
		}
	}
	if text := text("deliver_at"); text != "" {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			t.DeliverAt = &at
		} else {
			wrongly("deliver_at", "must be a time such as 2030-01-31T12:00:00Z")
		}
	}
	if t.twice, _ = in["twice"].(bool); sends && t.endpoint == "" {
		wrongly("endpoint", "choose the endpoint that gets it")
	}
	if t.Data, _ = in["data"].(json.RawMessage); len(t.Data) == 0 {
		wrongly("data", "is needed; write {} for an event without data")
		t.Data = json.RawMessage("null") // for the preview that finds the other faults
	}
	t.all = []json.RawMessage{t.Data}
	more, _ := in["more"].([]string)
	for i, text := range more {
		if !json.Valid([]byte(text)) {
			wrongly("more/"+strconv.Itoa(i), "is not JSON")
		}
		t.all = append(t.all, json.RawMessage(text))
	}
	if len(t.all) > mostTrials {
		wrongly("more", fmt.Sprintf("has %d lines; at most %d are allowed", len(more), mostTrials-1))
	}
	if text := text("delay"); text != "" {
		var err error
		if t.delay, err = policy.ParseDuration(text); err != nil || t.delay < 0 || t.delay > longest {
			wrongly("delay", "must be a duration from 0s to 1h, such as 10s")
		}
	}
	for i, n := 0, len(t.all); i < n; i++ {
		turn := i
		switch t.order {
		case "backwards":
			turn = n - 1 - i
		case "first_last":
			turn = (i + n - 1) % n
		}
		t.turn = append(t.turn, turn)
	}
	return t, own
}

// send sends tests to one endpoint. A test is a real request with the trigger test; it goes to this
// endpoint alone, whatever it subscribes to. A form that is sent twice sends the same tests. The
// page is drawn again, with the inputs as they were and the answers.
func (t *trialPlan) send(v *visit) error {
	sent, once := make([]string, len(t.all)), v.PostForm.Get("once")
	for i, data := range t.all {
		in, key := map[string]any{"type": t.Type, "data": data}, ""
		if later := t.delay + time.Duration(t.turn[i])*trialGap; later > 0 {
			in["delay"] = later.String()
		}
		if once != "" {
			key = fmt.Sprintf("%s-test-%d", once, i)
		}
		var d client.Delivery
		if err := v.client.PostOnce(v.Context(), "/v1/endpoints/"+url.PathEscape(t.endpoint)+"/test", key, in, &d); err != nil {
			return err
		}
		sent[t.turn[i]] = d.ID
	}
	v.PostForm["sent"] = sent
	return nil
}

// answers show what became of the tests that were sent, in the order of sending. If it was asked
// for, the event of a single test is sent again under its id, once it has been answered.
func (m *playgroundModel) answers(v *visit) error {
	if m.IDs = v.PostForm["sent"]; len(m.IDs) > mostTrials {
		return refused(http.StatusBadRequest, "Too many tests are named.", "Open the playground again.")
	}
	ctx, cancel := context.WithTimeout(v.Context(), v.web.Bounds.Answer)
	defer cancel()
	var did []string
	begins := ""
	for i := 0; i < len(m.IDs); i++ {
		d, err := v.outcome(ctx, m.IDs[i])
		if err != nil {
			return err
		}
		m.Sent = append(m.Sent, v.deliveryRow(d))
		if d.AttemptsMade == 0 {
			continue
		}
		said, body := testDid(d)
		did, begins = append(did, strings.TrimSuffix(said, ".")), body
		if len(m.IDs) == 1 && v.PostForm.Get("twice") != "" && v.mayDo("/deliveries/{id}/retry") {
			again, err := v.orderOnce("/v1/deliveries/", d.ID, "/retry", map[string]string{"reason": byDashboard})
			if err != nil {
				return err
			}
			m.IDs = append(m.IDs, again.ID)
		}
	}
	said := "The endpoint has not answered yet."
	if len(did) > 0 {
		said = "The endpoint " + strings.Join(did, ", then ") + "."
	}
	m.Verdict.say(said, "", strings.TrimSpace(begins+" A delivery's page has the request and the answer."))
	if open := len(m.IDs) - len(did); open > 0 {
		m.Open = say.Many(open, "test has", "tests have") + " no answer yet."
	}
	return nil
}
