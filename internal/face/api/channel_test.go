package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/store"
)

const slackURL = "slack://hook:WNA3PBYV6-F20DUQND3RQ-Webc4MAvoacrpPakR8phF0zi@webhook"

// channel creates a channel and returns its id.
func (w *world) channel(key string) string {
	w.t.Helper()
	return w.as(key, 201, "POST", "/v1/channels", `{"url":"`+slackURL+`"}`)["id"].(string)
}

func badChannels() []bad {
	made := func(name, members, pointer string) bad {
		return bad{name: "channel: " + name, method: "POST", target: "/v1/channels", body: `{` + members + `}`, status: 422,
			code: grapnel.CodeInvalid, pointer: pointer}
	}
	const url = `"url":"` + slackURL + `",`
	all := []bad{
		made("no url", ``, "/url"),
		made("a url of no service", `"url":"https://hooks.slack.com.evil.example/services/A/B/C"`, "/url"),
		made("an unknown service", `"url":"pager://x"`, "/url"),
		made("a url of another form", `"url":"telegram://1:abcdefghij@telegram"`, "/url"),
		made("an address of this network", `"url":"gotify://127.0.0.1/token"`, "/url"),
		made("a mail server by the port of strangers", `"url":"smtp://mail.example.com:25/?from=a@example.com&to=b@example.com"`, "/url"),
		made("a mail address that ends a header", `"url":"smtp://mail.example.com/?from=a@example.com&to=b@example.com%0d%0aBcc:x@example.com"`, "/url"),
		made("a reserved header", `"url":"generic+https://example.com/?@Host=x"`, "/url"),
		made("a severity that is none", url+`"severities":["fatal"]`, "/severities/0"),
		made("a rule that is none", url+`"rules":["a b"]`, "/rules/0"),
		made("quiet hours without an end", url+`"quiet_hours":{"from":"22:00"}`, "/quiet_hours/to"),
		made("quiet hours at no time", url+`"quiet_hours":{"from":"25:00","to":"07:00"}`, "/quiet_hours/from"),
		made("quiet hours that are empty", url+`"quiet_hours":{"from":"07:00","to":"07:00"}`, "/quiet_hours/to"),
		made("quiet hours of no place", url+`"quiet_hours":{"from":"22:00","to":"07:00","tz":"Mars/Base"}`, "/quiet_hours/tz"),
		made("a digest of a week", url+`"digest":"168h"`, "/digest"),
		made("a filter", url+`"filter":"true"`, "/filter"),
		{name: "channel: patch of its tenant", method: "PATCH", target: "/v1/channels/CHN", body: `{"tenant":"x"}`, status: 422,
			code: grapnel.CodeInvalid, pointer: "/tenant"},
		{name: "channel: it is no endpoint of a program", method: "PATCH", target: "/v1/endpoints/CHN",
			body: `{"url":"https://a.example"}`, status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "channel: nobody sends it other events", method: "POST", target: "/v1/endpoints/CHN/test", body: `{}`, status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		{name: "channel: an endpoint is none", method: "GET", target: "/v1/channels/EP", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "key: of the operator's tenant", method: "POST", target: "/v1/keys",
			body: `{"name":"k","scopes":["read"],"tenant":"_operator"}`, status: 422, code: grapnel.CodeInvalid, pointer: "/tenant"},
	}
	for _, kind := range []string{grapnel.EventAlertFired, grapnel.EventAlertTest, "grapnel.alert.x"} {
		all = append(all, bad{name: "event: of the type " + kind, method: "POST", target: "/v1/events",
			body: `{"type":"` + kind + `","data":1}`, status: 422, code: grapnel.CodeInvalid, pointer: "/type"},
			bad{name: "raw event: of the type " + kind, method: "POST", target: "/v1/events/raw?type=" + kind, body: `1`, status: 422,
				code: grapnel.CodeInvalid, pointer: "?type"},
			bad{name: "test: of the type " + kind, method: "POST", target: "/v1/endpoints/EP/test", body: `{"type":"` + kind + `"}`, status: 422,
				code: grapnel.CodeInvalid, pointer: "/type"})
	}
	return all
}

// TestChannels: a channel is made, changed and deleted, and no answer shows its URL's credentials.
func TestChannels(t *testing.T) {
	w := newWorld(t)
	id := w.channel(acmeAdmin)
	made := w.as(acmeAdmin, 200, "GET", "/v1/channels/"+id, "")
	if made["url"] != "slack://…" || made["service"] != "slack" || made["digest"] != "0s" {
		t.Errorf("the channel is %v", made)
	}
	changed := w.as(acmeAdmin, 200, "PATCH", "/v1/channels/"+id,
		`{"severities":["page"],"rules":["endpoint_failing"],"quiet_hours":{"from":"22:00","to":"07:00","tz":"Europe/Berlin"},"digest":"15m","url":"slack://…"}`)
	if changed["digest"] != "15m0s" || changed["quiet_hours"].(map[string]any)["tz"] != "Europe/Berlin" {
		t.Errorf("it is changed to %v", changed)
	}
	ep, ok := w.engine.Endpoint(store.Everyone(), id)
	if !ok || ep.Channel.URL.Text != slackURL || ep.Channel.QuietHours.From != "22:00" {
		t.Errorf("what is stored: %+v", ep.Channel)
	}
	const want = `event.type in ["grapnel.alert.digest", "grapnel.alert.test"] || event.data.rule in ["endpoint_failing"] && event.data.severity in ["page"]`
	if ep.Filter != want {
		t.Errorf("its filter is %s", ep.Filter)
	}
	for _, target := range []string{"/v1/channels", "/v1/channels/" + id, "/v1/endpoints", "/v1/audit"} {
		if r := w.ask(acmeAdmin, "GET", target, ""); strings.Contains(string(r.body), "Webc4MA") {
			t.Errorf("%s shows the URL", target)
		}
	}
	if n := len(w.as(acmeAdmin, 200, "GET", "/v1/endpoints", "")["data"].([]any)); n != 0 {
		t.Errorf("%d channels are listed as endpoints", n)
	}
	d := w.as(acmeAdmin, 200, "POST", "/v1/channels/"+id+"/test", "")
	if d["event_type"] != grapnel.EventAlertTest && d["type"] != grapnel.EventAlertTest {
		text, _ := json.Marshal(d)
		t.Errorf("the test is %s", text)
	}
	w.as(acmeAdmin, 204, "DELETE", "/v1/channels/"+id, "")
	w.as(acmeAdmin, 404, "GET", "/v1/channels/"+id, "")
}

// TestTheOperatorsChannels: only keys without a tenant see them.
func TestTheOperatorsChannels(t *testing.T) {
	w := newWorld(t)
	id := w.must(201, "POST", "/v1/channels", `{"url":"`+slackURL+`","tenant":"_operator"}`)["id"].(string)
	w.must(200, "GET", "/v1/channels/"+id, "")
	w.as(acmeAdmin, 404, "GET", "/v1/channels/"+id, "")
	if r := w.ask(acmeAdmin, "POST", "/v1/channels", `{"url":"`+slackURL+`","tenant":"_operator"}`); r.StatusCode != 422 {
		t.Errorf("a tenant's key makes a channel of the operator: %d", r.StatusCode)
	}
}

// TestAChannelOfAllTenants: keys of tenants can neither create nor see it. A pasted URL is masked.
func TestAChannelOfAllTenants(t *testing.T) {
	w := newWorld(t)
	const pasted = `"url":"https://hooks.slack.com/services/WNA3PBYV6/F20DUQND3RQ/Webc4MAvoacrpPakR8phF0zi"`
	made := w.as(admin, 201, "POST", "/v1/channels", `{`+pasted+`,"tenant":"*"}`)
	id := made["id"].(string)
	if made["tenant"] != "*" || made["service"] != "slack" || made["url"] != "slack://…" {
		t.Errorf("the channel is %v", made)
	}
	changed := w.as(admin, 200, "PATCH", "/v1/channels/"+id, `{"severities":["page"]}`)
	if changed["tenant"] != "*" || changed["url"] != "slack://…" {
		t.Errorf("changed it is %v", changed)
	}
	w.as(acmeAdmin, 404, "GET", "/v1/channels/"+id, "")
	if r := w.ask(acmeAdmin, "POST", "/v1/channels", `{`+pasted+`,"tenant":"*"}`); r.StatusCode != 422 {
		t.Errorf("a tenant's key makes it: %d", r.StatusCode)
	}
	if all := w.as(acmeAdmin, 200, "GET", "/v1/channels", "")["data"].([]any); len(all) != 0 {
		t.Errorf("a tenant sees %v", all)
	}
}

// TestAChannelFromBeforeIsChanged: a server that has become stricter about URLs does not stand in
// the way of other changes.
func TestAChannelFromBeforeIsChanged(t *testing.T) {
	var strict error
	w := newWorld(t, func(o *Options) { o.CheckChannel = func(*channels.Target) error { return strict } })
	id := w.channel(admin)
	strict = errors.New("is not liked")
	w.must(200, "PATCH", "/v1/channels/"+id, `{"status":"disabled"}`)
	w.must(422, "PATCH", "/v1/channels/"+id, `{"url":"slack://hook:WNA3PBYV6-F20DUQND3RQ-Webc4MAvoacrpPakR8phF0zj@webhook"}`)
}

// TestAChannelIsNamedByItsService: without a description, in the audit and in deliveries, and
// without any part of its URL.
func TestAChannelIsNamedByItsService(t *testing.T) {
	w := newWorld(t)
	for url, want := range map[string]string{
		slackURL: "Slack", "generic+https://hooks.example.com/a/secret": "Webhook of your own", "gotify://push.example.com/AzyoeNS.D4iJLVa": "Gotify",
		"smtp://u:secret@mail.example.com/?fromaddress=a@example.com&toaddresses=b@example.com": "Mail",
	} {
		id := w.must(201, "POST", "/v1/channels", `{"url":"`+url+`"}`)["id"].(string)
		if got := w.must(200, "POST", "/v1/channels/"+id+"/test", "")["endpoint_name"]; got != want {
			t.Errorf("a delivery names the channel %v, not %s", got, want)
		}
		for _, got := range w.names(admin, "/v1/audit?endpoint="+id, "name") {
			if got != want {
				t.Errorf("the audit names the channel %q, not %s", got, want)
			}
		}
	}
}
