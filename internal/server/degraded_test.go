package server

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// picky is an endpoint that refuses every third event while it is told to.
type picky struct {
	*bubble
	id      string
	refuses atomic.Bool
	n       int
	firsts  []bool // the first attempts, one every 30 seconds: whether each failed
}

func newPicky(b *bubble) *picky {
	p := &picky{bubble: b}
	b.net.Handle("picky.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && p.refuses.Load() && strings.Contains(string(body), `"third":true`) {
			w.WriteHeader(422)
		}
	}))
	p.id = must(b.client.CreateEndpoint(b.t.Context(), client.NewEndpoint{URL: "http://picky.example/in", Description: "Old CRM",
		Tenant: "acme", Policy: json.RawMessage(`{"classify":{"422":"fail"}}`)}))(b.t).ID
	b.pages.signIn(testKey)
	time.Sleep(7 * time.Second) //nolint:forbidigo // the bubble's time: nothing happens in the instant between two minutes
	return p
}

// minute publishes two events, and returns the endpoint after the minute was counted.
func (p *picky) minute() *client.Endpoint {
	p.t.Helper()
	for range 2 {
		p.n++
		third := p.n%3 == 0
		must(p.client.Publish(p.t.Context(), client.NewEvent{Type: "order.made", Tenant: "acme",
			Data: []byte(fmt.Sprintf(`{"third":%v}`, third))}))(p.t)
		p.firsts = append(p.firsts, third && p.refuses.Load())
		time.Sleep(30 * time.Second) //nolint:forbidigo // the bubble's time
	}
	return must(p.client.Endpoint(p.t.Context(), p.id))(p.t)
}

// hour counts the first attempts of the last 60 minutes, and those that failed; none if none failed.
func (p *picky) hour() (made, failed int) {
	for _, f := range p.firsts[max(len(p.firsts)-120, 0):] {
		if made++; f {
			failed++
		}
	}
	if failed == 0 {
		return 0, 0
	}
	return made, failed
}

// TestADegradedEndpointIsSaidEverywhere: minute by minute an endpoint is degraded exactly while 5
// percent of the first attempts of the last hour failed, with the numbers and since when, in the
// API, the overview, the pages, the portal and the metrics; and it is healthy since the end of that.
func TestADegradedEndpointIsSaidEverywhere(t *testing.T) {
	inBubble(t, func(b *bubble) {
		p := newPicky(b)
		state, since := grapnel.HealthHealthy, time.Now().Truncate(time.Minute)
		for minute := range 180 {
			p.refuses.Store(minute >= 70 && minute < 100)
			e := p.minute()
			made, failed := p.hour()
			want := state
			switch {
			case made >= 10 && failed >= 3 && 20*failed >= made:
				want = grapnel.HealthDegraded
			case made < 9 || failed < 3 || 200*failed < 9*made:
				want = grapnel.HealthHealthy
			}
			if want != state {
				state, since = want, time.Now().Truncate(time.Minute)
			}
			h := e.Health
			if h.State != state || h.FirstAttempts != made || h.FirstFailed != failed {
				t.Fatalf("minute %d: %s, %d of %d failed; want %s, %d of %d", minute, h.State, h.FirstFailed, h.FirstAttempts, state, failed, made)
			}
			if h.Since == nil || h.Since.Truncate(time.Minute) != since.UTC() {
				t.Fatalf("minute %d: %s since %v, want %s", minute, h.State, h.Since, since)
			}
			if minute == 60 || minute == 99 || minute == 179 {
				p.everywhere(state, fmt.Sprintf("%d of %d first attempts failed in the last hour", failed, made))
			}
		}
	})
}

// everywhere checks where people see the state.
func (p *picky) everywhere(state grapnel.HealthState, reason string) {
	p.t.Helper()
	o := must(p.client.Overview(p.t.Context(), ""))(p.t)
	if o.Endpoints.All != 1 || *o.Endpoints.State(state) != 1 {
		p.t.Errorf("%s: the overview counts %+v", state, o.Endpoints)
	}
	fired := must(p.client.Alerts(p.t.Context(), client.AlertFilter{Rule: alert.EndpointDegraded}))(p.t).Data
	back := must(p.client.BacktestAlertRule(p.t.Context(), "acme", alert.EndpointDegraded, client.NewBacktest{For: "1d"}))(p.t)
	switch {
	case !back.Known || back.Fired != len(fired) || len(fired) != min(len(p.firsts)/200, 1):
		p.t.Errorf("%s: the alerts are %+v, and would be %+v", state, fired, back)
	case len(fired) > 0 && (!strings.Contains(fired[0].Text, " first attempts failed in the last hour. grapnel why "+p.id) ||
		fired[0].Severity != grapnel.SeverityWarning || (fired[0].ResolvedAt == nil) != (state == grapnel.HealthDegraded)):
		p.t.Errorf("%s: the alert is %+v", state, fired[0])
	}
	v := words.Overall(time.Now(), o)
	says := func(from *browser, path string, texts ...string) {
		p.t.Helper()
		status, _, body := from.ask("GET", path, nil)
		for _, text := range texts {
			if is := strings.Contains(html.UnescapeString(body), text); status != 200 || is != (state == grapnel.HealthDegraded) {
				p.t.Errorf("%s: %s (%d) says %q: %v", state, path, status, text, is)
			}
		}
	}
	if state == grapnel.HealthDegraded && (!strings.HasPrefix(v.Say(), "Old CRM has been degraded for ") || !strings.Contains(v.Next, reason)) {
		p.t.Errorf("the verdict is %q, %q", v.Say(), v.Next)
	}
	says(p.pages, "/", "Old CRM has been degraded for ", reason)
	says(p.pages, "/endpoints", ">degraded<", reason)
	says(p.pages, "/endpoints/"+p.id, "It has been degraded for ", reason, "Why they fail")
	p.openPortal()
	says(p.portal, "/portal/endpoints/"+p.id, "It has been degraded for ", reason)
	says(p.pages, "/metrics", `grapnel_breaker_state{state="degraded"} 1`)
}
