package channels

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestPastedURLs: the URL that a service shows makes the same request as the URL of the row's form,
// and is masked as well.
func TestPastedURLs(t *testing.T) {
	fired := &grapnel.Event{ID: "evt_1", Type: grapnel.EventAlertFired, Data: []byte(`{"alert_id":"alr_1"}`)}
	pasted := 0
	for _, s := range Services() {
		if s.Pasted == "" {
			continue
		}
		pasted++
		want, err := Read(s.Example)
		if err != nil {
			t.Fatalf("%s: %s", s.Name, err)
		}
		for _, raw := range []string{s.Pasted, " " + s.Pasted + "\n", strings.Replace(s.Pasted, "https://", "HTTPS://", 1)} {
			got, err := Read(raw)
			if err != nil {
				t.Errorf("%s: %s", s.Name, err)
				continue
			}
			if got.Service != s.Name || got.URL(fired) != want.URL(fired) || got.Masked != want.Masked || got.Body != want.Body ||
				!maps.Equal(got.Headers, want.Headers) || !bytes.Equal(got.Input([]byte(`{}`), ""), want.Input([]byte(`{}`), "")) {
				t.Errorf("%s: pasted it goes to %s, masked %s, not to %s, %s", s.Name, got.URL(fired), got.Masked, want.URL(fired), want.Masked)
			}
			for name, value := range got.values {
				if got.secret[name] && value != "" && strings.Contains(got.Masked, value) {
					t.Errorf("%s: %s shows its %s", s.Name, got.Masked, name)
				}
			}
		}
	}
	if pasted < 9 {
		t.Errorf("only %d services show a URL", pasted)
	}
	for raw, want := range map[string]string{
		"https://discord.com/api/webhooks/42/tok?thread_id=7": "https://discord.com/api/webhooks/42/tok?wait=true&thread_id=7",
		"https://a.webhook.office.com/webhookb2/g@t/IncomingWebhook/alt/own/ext": "https://a.webhook.office.com/webhookb2/g@t/IncomingWebhook/" +
			"alt/own/ext",
		"https://prod-1.x.logic.azure.com:443/workflows/w/triggers/m/paths/invoke?api-version=1&sp=%2Fa&sig=s": "https://prod-1.x.logic.azure.com:443" +
			"/workflows/w/triggers/m/paths/invoke?api-version=1&sp=%2Fa&sig=s",
		"https://ptb.discord.com/api/webhooks/42/tok":      "https://discord.com/api/webhooks/42/tok?wait=true",
		"https://api.eu.opsgenie.com/v2/alerts?apiKey=key": "https://api.eu.opsgenie.com/v2/alerts",
	} {
		if got, err := Read(raw); err != nil || got.URL(fired) != want {
			t.Errorf("%s goes to %v, %v", raw, got, err)
		}
	}
}

// TestHostsThatResembleAService: a host that only looks like a service's, and a URL with a user,
// are no URL of the service; and a fault shows no token.
func TestHostsThatResembleAService(t *testing.T) {
	const path = "/services/T000/B000/sEcReTtOkEn"
	for _, at := range []string{"hooks.slack.com.evil.example", "evil.example/hooks.slack.com", "hooks-slack.com", "xhooks.slack.com",
		"hooks.slack.com@evil.example", "user@hooks.slack.com", "hooks.slack.com:8443", "hooks.slack.com.", "a.webhook.office.com.evil.example",
		"evil.example#.webhook.office.com", "logic.azure.com", "evil.example:443.logic.azure.com"} {
		if got, err := Read("https://" + at + path); err == nil {
			t.Errorf("%s is read as one of %s, and goes to %s", at, got.Service, got.URL(&grapnel.Event{}))
		}
	}
	for raw, says := range map[string]string{
		"https://hooks.slack.com/workflows/T000/sEcReTtOkEn":               "hooks.slack.com/services/",
		"http://hooks.slack.com" + path:                                    "generic+http",
		"https://chat.example.com/hooks/sEcReTtOkEn":                       "mattermost://",
		"https://chat.example.com/hooks/sEcReTtOkEn/sEcReTtOkEn":           "rocketchat://",
		"https://push.example.com/message?token=sEcReTtOkEn":               "gotify://",
		"https://api.telegram.org/bot1:sEcReTtOkEn/sendMessage":            "chat_id=",
		"https://example.com/sEcReTtOkEn":                                  "generic+https",
		"https://chat.googleapis.com/v1/spaces/A/messages?key=sEcReTtOkEn": "token=token",
	} {
		_, err := Read(raw)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "sEcReT") {
			t.Errorf("%s: %v, and not %s", raw, err, says)
		}
	}
}
