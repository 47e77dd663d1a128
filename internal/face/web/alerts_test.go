package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/client"
)

// TestTheLinkOfAMessageShowsAButton: opening the link changes nothing and needs no session; the
// button needs the token of the page.
func TestTheLinkOfAMessageShowsAButton(t *testing.T) {
	var asked []string
	state := "firing"
	s := newSite(t, func(o *Options) {
		o.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if key := r.Header.Get("Authorization"); strings.Contains(key, "grp_") {
				t.Errorf("a key was sent: %s", key)
			}
			asked = append(asked, r.Method+" "+r.URL.Path)
			if !strings.HasSuffix(r.URL.Path, "/good") {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"code":"not_found","title":"Not found","status":404,"errors":[],"request_id":"req_1"}`))
				return
			}
			if r.Method == http.MethodPost {
				state = "acknowledged"
			}
			_, _ = w.Write([]byte(`{"alert_id":"alr_1","title":"shop: <b>is disabled","severity":"page","state":"` + state + `","since":"2026-11-23T09:00:00Z"}`))
		})
	})
	for range 3 {
		w := s.ask("GET", "/alerts/acknowledge?link=good", nil)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<button") || !strings.Contains(w.Body.String(), "shop: &lt;b&gt;is disabled") {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if w := s.ask("GET", "/alerts/acknowledge?link=bad", nil); w.Code != http.StatusNotFound {
		t.Errorf("a bad link: %d", w.Code)
	}
	if w := s.ask("POST", "/alerts/acknowledge", url.Values{"link": {"good"}}); w.Code != http.StatusForbidden {
		t.Errorf("without the token: %d", w.Code)
	}
	if state != "firing" || strings.Contains(strings.Join(asked, " "), "POST") {
		t.Fatalf("looking has acknowledged it: %v", asked)
	}
	w := s.ask("POST", "/alerts/acknowledge", url.Values{"link": {"good"}, "token": {s.token("/alerts/acknowledge?link=good")}})
	if w.Code != http.StatusOK || state != "acknowledged" || strings.Contains(w.Body.String(), `<button class="btn go"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWhichAlertsTheVerdictIsAbout: a page on which alerts that fire cannot be does not say that
// none does.
func TestWhichAlertsTheVerdictIsAbout(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "alerts" {
			for _, a := range answer.(map[string]any)["data"].([]any) {
				a.(map[string]any)["state"] = "resolved"
			}
		}
		return answer
	}
	s.signIn()
	for query, all := range map[string]bool{"": true, "?state=firing": true, "?state=resolved": false, "?cursor=x": false} {
		if body := s.ask("GET", "/alerts"+query, nil).Body.String(); strings.Contains(body, "No alert fires.") != all {
			t.Errorf("/alerts%s says that no alert fires: %t", query, !all)
		}
	}
}

// TestTheDigestOfAMessage: an alert's page and the list say that a message waits, and the page says
// for which channel's digest.
func TestTheDigestOfAMessage(t *testing.T) {
	s := newSite(t, nil)
	held := any(map[string]any{"endpoint_id": "ep_night", "until": "2100-01-01T00:00:00Z"})
	message := func(a any) {
		a.(map[string]any)["messages"] = []any{map[string]any{"transition": "fired", "event_id": "evt_1", "at": "2026-11-23T09:00:00Z",
			"deliveries": []any{}, "held": held}}
	}
	s.api.edit = func(name string, answer any) any {
		switch name {
		case "alert":
			message(answer)
		case "alerts":
			for _, a := range answer.(map[string]any)["data"].([]any) {
				message(a)
			}
		}
		return answer
	}
	s.signIn()
	if body := s.ask("GET", "/alerts/alr_1", nil).Body.String(); !strings.Contains(body, "to ep_night, as a digest <time") {
		t.Errorf("the page: %s", body)
	}
	if body := s.ask("GET", "/alerts", nil).Body.String(); !strings.Contains(body, "waits for a digest") {
		t.Errorf("the list: %s", body)
	}
	held = nil
	if body := s.ask("GET", "/alerts/alr_1", nil).Body.String(); !strings.Contains(body, "not sent or purged") {
		t.Errorf("the page of a purged one: %s", body)
	}
}

// TestWhereTheFirstAlertGoes: a list without alerts asks for a channel only if there is none.
func TestWhereTheFirstAlertGoes(t *testing.T) {
	s := newSite(t, nil)
	channels := true
	s.api.edit = func(name string, answer any) any {
		if name == "alerts" || name == "channels" && !channels {
			answer.(map[string]any)["data"] = []any{}
		}
		return answer
	}
	s.signIn()
	body := s.ask("GET", "/alerts", nil).Body.String()
	if !strings.Contains(body, "No alert has fired yet. 1 channel hears of the first one") {
		t.Error("with a channel the list does not say that the first alert goes there")
	}
	channels = false
	if body := s.ask("GET", "/alerts", nil).Body.String(); !strings.Contains(body, "No alert has fired yet. Add a channel,") {
		t.Error("without a channel the list does not ask for one")
	}
}

func TestThresholdsInWords(t *testing.T) {
	for want, r := range map[string]client.AlertRule{
		"as many as usual or more":           {Threshold: 1, Unit: "times the usual"},
		"1.5 times as many as usual or more": {Threshold: 1.5, Unit: "times the usual"},
		"1 day or less":                      {Threshold: 1, Unit: "days", Below: true},
		"14 days or less":                    {Threshold: 14, Unit: "days", Below: true},
		"1 percentage point or more":         {Threshold: 1, Unit: "percentage points"},
		"20 percentage points or more":       {Threshold: 20, Unit: "percentage points"},
		"15 % or less":                       {Threshold: 15, Unit: "percent", Below: true},
		"10 min or more":                     {Threshold: 600, Unit: "seconds"},
		"3 or more":                          {Threshold: 3, Unit: "number"},
		"as soon as it is so":                {Threshold: 1, Unit: "yes or no"},
	} {
		if got := thresholdOf(&r); got != want {
			t.Errorf("%g %s: %q, not %q", r.Threshold, r.Unit, got, want)
		}
	}
}

// TestRulesAreOpenedByThoseWhoMayChangeThem: the list counts the rules that are on, and offers to
// open one only to a session that may.
func TestRulesAreOpenedByThoseWhoMayChangeThem(t *testing.T) {
	for _, may := range []bool{true, false} {
		s := newSite(t, nil)
		s.api.edit = func(name string, answer any) any {
			if name == "whoami" && !may {
				answer.(map[string]any)["scopes"] = []string{"read"}
			}
			if name == "alert_rules" {
				for i, r := range answer.(map[string]any)["data"].([]any) {
					r.(map[string]any)["enabled"] = i == 0
				}
			}
			return answer
		}
		s.signIn()
		body := s.ask("GET", "/alert-rules", nil).Body.String()
		if !strings.Contains(body, "1 of 2 rules are on.") || strings.Contains(body, "Open one") != may || strings.Contains(body, "/edit\"") != may {
			t.Errorf("a session that may change rules, %v, sees %s", may, body)
		}
	}
}
