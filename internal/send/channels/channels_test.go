package channels

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/policy"
)

// TestEveryRowReadsItsExample: the examples that people copy are read, hide their credentials, and
// have expressions that compile.
func TestEveryRowReadsItsExample(t *testing.T) {
	for _, s := range Services() {
		target, err := Read(s.Example)
		if err != nil {
			t.Errorf("%s: %s", s.Name, err)
			continue
		}
		if target.Service != s.Name || !strings.HasPrefix(target.Masked, s.Name+"://") || !strings.HasSuffix(target.Masked, "…") {
			t.Errorf("%s: the target is of %s and masked as %s", s.Name, target.Service, target.Masked)
		}
		for _, text := range []string{target.Body, target.Answer} {
			if err := transform.Check(text); text != "" && err != nil {
				t.Errorf("%s: %s", s.Name, err)
			}
		}
		for name, value := range target.values {
			if target.secret[name] && value != "" && strings.Contains(target.Masked, value) {
				t.Errorf("%s: %s shows its %s", s.Name, target.Masked, name)
			}
		}
		hidden := target.Hide()
		event := &grapnel.Event{ID: "evt_1", Type: grapnel.EventAlertFired, Data: []byte(`{"alert_id":"alr_1"}`)}
		shown := hidden.URL(event) + string(hidden.Input([]byte(`{"id":"evt_1"}`), ""))
		for name, value := range target.values {
			if target.secret[name] && len(value) > 4 && strings.Contains(shown, value) {
				t.Errorf("%s: without credentials it still shows its %s", s.Name, name)
			}
		}
	}
}

func TestURLs(t *testing.T) {
	fired := &grapnel.Event{ID: "evt_1", Type: grapnel.EventAlertFired, Data: []byte(`{"alert_id":"alr_1"}`)}
	for raw, want := range map[string]string{
		"slack://hook:AA-BB-cccccccc@webhook?color=good":    "https://hooks.slack.com/services/AA/BB/cccccccc",
		"slack://AA/BB/cccccccc":                            "https://hooks.slack.com/services/AA/BB/cccccccc",
		"slack://xoxb:1-2-abcdefgh@C001":                    "https://slack.com/api/chat.postMessage",
		"discord://tok@42?thread_id=7":                      "https://discord.com/api/webhooks/42/tok?wait=true&thread_id=7",
		"discord://tok@42?username=x":                       "https://discord.com/api/webhooks/42/tok?wait=true",
		"telegram://1:abcdefghij_k@telegram?chats=@someone": "https://api.telegram.org/bot1:abcdefghij_k/sendMessage",
		"gotify://h.example/sub/message?token=tok":          "https://h.example/sub/message",
		"gotify://h.example:8080/tok?disabletls=yes":        "http://h.example:8080/message",
		"ntfy://u:p@h.example/topic?scheme=http":            "http://h.example/",
		"bark://:key@h.example":                             "https://h.example/push",
		"bark://:key@h.example/sub/":                        "https://h.example/sub/push",
		"rocketchat://bot@h.example/a/b/@someone":           "https://h.example/hooks/a/b",
		"mattermost://h.example/tok/town":                   "https://h.example/hooks/tok",
		"matrix://:tok@h.example/?rooms=!r:h.example": "https://h.example/_matrix/client/v3/rooms/%21r:h.example" +
			"/send/m.room.message/evt_1",
		"opsgenie://api.eu.opsgenie.com/key":                 "https://api.eu.opsgenie.com/v2/alerts",
		"pagerduty://key-of-nobody":                          "",
		"pagerduty://events.eu.pagerduty.com/key":            "https://events.eu.pagerduty.com/v2/enqueue",
		"pagerduty:///key?severity=critical":                 "https://events.pagerduty.com/v2/enqueue",
		"generic+http://h.example/a%2Fb?x=1&@X-Y=z":          "http://h.example/a%2Fb?x=1",
		"generic://h.example?disabletls=yes&_method=a":       "http://h.example?method=a",
		"teams://g@t/alt/own/ext?host=a.webhook.office.com":  "https://a.webhook.office.com/webhookb2/g@t/IncomingWebhook/alt/own/ext",
		"teams://g@t/alt/own/ext?host=attacker.example":      "",
		"teams://?host=https%3A%2F%2Fh.example%2Fx%3Fsig%3D": "https://h.example/x?sig=",
		"googlechat://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t" +
			"&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD",
		"googlechat://h.example/v1/spaces/A/messages?key=k&token=t": "",
		"telegram://1:abcdefghij_k@telegram?chats=1,2":              "",
		"gotify://h.example/tok?insecureskipverify=yes":             "",
		"matrix://user:password@h.example/?rooms=!r":                "",
		"ntfy://h.example/a/b":                                      "",
		"https://hooks.slack.com/services/A/B/C":                    "",
		"zulip+http://u:p@h/?stream=s":                              "",
		"discord://tok@42\r\nX: y":                                  "",
	} {
		target, err := Read(raw)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s is read", raw)
		case want == "" && strings.Contains(err.Error(), "abcdefghij_k"):
			t.Errorf("%s: the error shows the token: %s", raw, err)
		case want != "" && err != nil:
			t.Errorf("%s %s", raw, err)
		case want != "" && target.URL(fired) != want:
			t.Errorf("%s goes to %s, not to %s", raw, target.URL(fired), want)
		}
	}
}

// TestFaultsOfSlackURLs: the error names the fault of the form that the URL has, not that of
// another form that it fits by chance.
func TestFaultsOfSlackURLs(t *testing.T) {
	for raw, want := range map[string]string{
		"slack://hook:A-B-C@webhook": "three parts", "slack://hook:AA-BB-cccccccc@webhook?nonsense=1": "nonsense",
		"slack://other:1-2-abcdefgh@C001": "unknown kind",
	} {
		if _, err := Read(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", raw, err, want)
		}
	}
}

// TestResolvedAlertsAreClosed: an incident service is told by the id of the alert.
func TestResolvedAlertsAreClosed(t *testing.T) {
	target, err := Read("opsgenie://api.opsgenie.com/key")
	if err != nil {
		t.Fatal(err)
	}
	over := &grapnel.Event{ID: "evt_2", Type: grapnel.EventAlertResolved, Data: []byte(`{"alert_id":"alr_1"}`)}
	if got := target.URL(over); got != "https://api.opsgenie.com/v2/alerts/alr_1/close?identifierType=alias" {
		t.Errorf("it is closed at %s", got)
	}
	over.Data = []byte(`{"alert_id":"../../x"}`)
	if got := target.URL(over); strings.Contains(got, "..") {
		t.Errorf("an alert's id leads to %s", got)
	}
}

// TestADigestHasNoAlert: where a service joins the messages of one alert, a digest stands alone.
func TestADigestHasNoAlert(t *testing.T) {
	for service, field := range map[string]string{"pagerduty": "dedup_key", "opsgenie": "alias", "googlechat": "thread.threadKey", "smtp": "thread"} {
		target, err := Read(rowOf(service).Example)
		if err != nil {
			t.Fatal(err)
		}
		body := apply(t, target, []byte(`{"id":"evt_9","type":"grapnel.alert.digest","data":{"alert_id":"","rule":"digest","state":"firing"}}`))
		if got := gjson.GetBytes(body, field).String(); got != "evt_9" {
			t.Errorf("%s: %s is %q", service, field, got)
		}
	}
}

// TestWhatAnAnswerRepeats: no credential of a URL is left in a text of its service that repeats it,
// be it a parameter, a header, or a path that only its owner knows.
func TestWhatAnAnswerRepeats(t *testing.T) {
	for raw, said := range map[string][]string{
		"generic+https://h.example/hooks/sEcReTpAtH?token=sEcReTvAlUe&x=sEcReTvAlUe2&@Authorization=Bearer%20sEcReTtOkEn&@X-Key=sEcReTkEy": {
			"no route /hooks/sEcReTpAtH", `{"path":"\/hooks\/sEcReTpAtH"}`, `{"token": "sEcReTvAlUe"}`, `{"x":"sEcReTvAlUe2"}`, `{"authorization":"Bearer sEcReTtOkEn"}`,
			"sEcReTtOkEn is revoked", "sEcReTkEy"},
		"ntfy://ntfy.example/sEcReTtOpIc": {`{"topic":"sEcReTtOpIc"}`},
		"teams://?host=https%3A%2F%2Fh.example%2Fworkflows%2Fx%3Fsig%3DsEcReT%252Bx%26sp%3D": {"the signature sEcReT+x is wrong", "/workflows/x?sig=sEcReT%2Bx&sp="},
		"gotify://h.example/sEcReTtOkEn": {"sEcReTtOkEn"},
	} {
		target, err := Read(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range said {
			if left := target.Redact(text); strings.Contains(left, "sEcReT") || !strings.Contains(left, redacted) {
				t.Errorf("%s: of %q is left %q", target.Service, text, left)
			}
		}
		hidden := target.Hide()
		shown := hidden.URL(&grapnel.Event{ID: "evt_1", Type: grapnel.EventAlertFired}) + string(hidden.Input([]byte(`{"id":"evt_1"}`), ""))
		if strings.Contains(shown, "sEcReT") {
			t.Errorf("%s: shown is %s", target.Service, shown)
		}
	}
}

// TestLimitsOfSlack: a refusal by a limit is tried again, whichever of its words Slack uses.
func TestLimitsOfSlack(t *testing.T) {
	target, err := Read("slack://xoxb:123-456-tOkEnOfNoBoDy@C001CH4NN3L")
	if err != nil {
		t.Fatal(err)
	}
	made, err := transform.Compile(target.Answer, bounds.Fill(transform.Bounds{}), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[string]int64{"ratelimited": 429, "rate_limited": 429, "message_limit_exceeded": 429,
		"service_unavailable": 503, "channel_not_found": 400} {
		out, err := made.Apply([]byte(`{"status":200,"text":"","json":{"ok":false,"error":"` + reason + `"}}`))
		if got := gjson.GetBytes(out, "status").Int(); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", reason, got, err, want)
		}
	}
}

// TestMessagesOfAnAlertShareATopic: without a topic in the URL, a resolution and a repetition
// follow the alert in Zulip.
func TestMessagesOfAnAlertShareATopic(t *testing.T) {
	target, err := Read("zulip://bot%40example.com:bOtKeY@zulip.example.com/?stream=alerts")
	if err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{"shop: circuit is open", "Still: shop: circuit is open", "Resolved: shop: circuit is open"} {
		body := apply(t, target, []byte(`{"id":"evt_1","type":"","timestamp":"","data":{"title":"`+title+`","text":"x"}}`))
		if got := gjson.GetBytes(body, "topic").String(); got != "shop: circuit is open" {
			t.Errorf("%s is under the topic %q", title, got)
		}
	}
}

// TestHostileText: no text of an alert mentions a group, ends a link or exceeds a limit.
func TestHostileText(t *testing.T) {
	long := strings.Repeat("<!channel> @everyone @here **x** 😀 [Open](https://x) [Open][1]\r\n", 400)
	data, err := json.Marshal(map[string]any{"title": long, "text": long, "state": "fired", "severity": "page", "url": "https://x/?a|b>",
		"alerts": []string{long, long}})
	if err != nil {
		t.Fatal(err)
	}
	envelope := append(append([]byte(`{"id":"evt_1","type":"grapnel.alert.fired","timestamp":"","data":`), data...), '}')
	for _, s := range Services() {
		target, err := Read(s.Example)
		if err != nil {
			t.Fatal(err)
		}
		body := apply(t, target, envelope)
		var fields map[string]any
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatal(err)
		}
		switch s.Name {
		case "slack":
			if strings.Contains(string(body), `<!channel>`) || strings.Contains(string(body), "\\u003c!channel") {
				t.Error("slack: the channel is mentioned")
			}
		case "discord":
			if n := len([]rune(fields["content"].(string))); n > 2000 {
				t.Errorf("discord: %d characters", n)
			}
			if strings.Contains(string(body), "](") || strings.Contains(string(body), "][") {
				t.Error("discord: a link has the label of another")
			}
		case "telegram":
			if n := len([]rune(fields["text"].(string))); n > 4096 {
				t.Errorf("telegram: %d characters", n)
			}
		case "mattermost", "rocketchat", "zulip":
			if strings.Contains(string(body), "@here") {
				t.Errorf("%s: everybody is mentioned", s.Name)
			}
			if strings.Contains(string(body), "](") || strings.Contains(string(body), "][") {
				t.Errorf("%s: a link has the label of another", s.Name)
			}
		case "smtp":
			if strings.ContainsAny(fields["subject"].(string), "\r\n") {
				t.Error("smtp: the subject has several lines")
			}
		case "bark", "generic", "googlechat", "gotify", "matrix", "ntfy", "opsgenie", "pagerduty", "pushover", "teams": // plain text
		default:
			t.Errorf("%s: say here what its markup could do, or that it has none", s.Name)
		}
	}
}

// TestAnyDataHasABody: whatever an event carries, no channel fails for it.
func TestAnyDataHasABody(t *testing.T) {
	for _, s := range Services() {
		target, err := Read(s.Example)
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range []string{`null`, `{}`, `"x"`, `{"title":1,"state":"resolved","url":null,"alerts":[]}`} {
			apply(t, target, []byte(`{"id":"evt_1","type":"grapnel.alert.fired","timestamp":"","data":`+data+`}`))
		}
	}
}

func apply(t *testing.T, target *Target, envelope []byte) []byte {
	t.Helper()
	made, err := transform.Compile(target.Body, bounds.Fill(transform.Bounds{}), time.Now)
	if err != nil {
		t.Fatalf("%s: %s", target.Service, err)
	}
	body, err := made.Apply(target.Input(envelope, ""))
	if err != nil {
		t.Fatalf("%s: %s for %.100s", target.Service, err, envelope)
	}
	return body
}

// TestThePolicyIsStored: endpoints are stored with their policy, so what channels have must be one
// that can be read again. It ends by itself, disables nothing, and does not repeat final refusals.
func TestThePolicyIsStored(t *testing.T) {
	p := Policy()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var again policy.Policy
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatalf("%s: %s", err, text)
	}
	for _, o := range []struct {
		outcome policy.Outcome
		want    policy.Decision
	}{
		{policy.Outcome{Status: 200, Class: policy.ClassNone}, policy.Deliver},
		{policy.Outcome{Class: policy.ClassNone}, policy.Deliver},
		{policy.Outcome{Status: 404, Class: policy.ClassStatus4xx}, policy.Fail},
		{policy.Outcome{Status: 410, Class: policy.ClassStatus4xx}, policy.Fail},
		{policy.Outcome{Class: policy.ClassReject}, policy.Fail},
		{policy.Outcome{Class: policy.ClassStatus5xx}, policy.Retry},
		{policy.Outcome{Status: 408, Class: policy.ClassStatus4xx}, policy.Retry},
		{policy.Outcome{Status: 429, Class: policy.ClassStatus429}, policy.Throttle},
		{policy.Outcome{Status: 502, Class: policy.ClassStatus5xx}, policy.Retry},
		{policy.Outcome{Class: policy.ClassDNS}, policy.Retry},
	} {
		if got := again.Decide(o.outcome); got != o.want {
			t.Errorf("%+v: %s, not %s", o.outcome, got, o.want)
		}
	}
}

// TestTheDocumentedServices: the page for users has the table's rows.
func TestTheDocumentedServices(t *testing.T) {
	page, err := os.ReadFile("../../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Services() {
		if row := fmt.Sprintf("| %s | `%s` | %s |\n", s.Title, s.Form, s.Arrives); !strings.Contains(string(page), row) {
			t.Errorf("docs/channels.md lacks: %s", row)
		}
		if row := fmt.Sprintf("| %s | `https://", s.Title); s.Pasted != "" && !strings.Contains(string(page), row) {
			t.Errorf("docs/channels.md does not say that the URL of %s can be pasted", s.Title)
		}
	}
}
