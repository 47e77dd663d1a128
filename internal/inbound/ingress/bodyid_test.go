package ingress

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// named gives a source an expression for the id.
func named(expression string) func(*grapnel.Source) {
	return func(s *grapnel.Source) { s.EventID = expression }
}

// TestAnIDFromTheBody: a source of any scheme may say where the body has the event's id. Without an
// id there, the next of the chain counts, and the request says why.
func TestAnIDFromTheBody(t *testing.T) {
	const long = 1025
	const noJSON = "the source's event_id: the expression cannot be evaluated: the event's data is not JSON"
	for _, c := range []struct {
		expression, body string
		by               grapnel.DedupeBy
		known            string
		says             string // the check that failed
	}{
		{`event.data.id`, `{"id":"evt_1"}`, grapnel.ByEventID, "evt_1", ""},
		{`event.data.id`, `{"id":12345678901234567890.10}`, grapnel.ByEventID, "12345678901234567890.10", ""},
		{`event.data.a[0].id`, `{"a":[{"id":7}]}`, grapnel.ByEventID, "7", ""},
		{`event.data.id`, `{}`, grapnel.ByDeliveryID, "d-1", "the source's event_id: the expression cannot be evaluated: no such key: id"},
		{`event.data.id`, `{"id":null}`, grapnel.ByDeliveryID, "d-1", "the source's event_id: the expression is a null_type, not a text"},
		{`event.data.id`, `{"id":{"a":1}}`, grapnel.ByDeliveryID, "d-1", "the source's event_id: the expression is a map, not a text"},
		{`event.data.id`, `{"id":true}`, grapnel.ByDeliveryID, "d-1", "the source's event_id: the expression is a bool, not a text"},
		{`event.data.id`, `{"id":""}`, grapnel.ByDeliveryID, "d-1", "the source's event_id: the text is empty"},
		{`event.data.id`, `{"id":"` + strings.Repeat("x", long) + `"}`, grapnel.ByDeliveryID, "d-1",
			"the source's event_id: the text has 1025 bytes; an id has at most 1024"},
		{`event.data.id`, `no JSON`, grapnel.ByDeliveryID, "d-1", noJSON}, {`event.data.id`, ``, grapnel.ByDeliveryID, "d-1", noJSON},
	} {
		w := newWorld(t)
		w.source(grapnel.Verify{Scheme: "none", IDHeader: "X-Webhook-Id"}, named(c.expression))
		if got := w.post(c.body, "X-Webhook-Id", "d-1"); got.status != http.StatusAccepted {
			t.Fatalf("%s: answered %d %s", c.body, got.status, got.body)
		}
		in, said := w.events[0].Intake, ""
		for _, check := range in.Checks {
			if !check.Passed {
				said += check.Text
			}
		}
		if in.By != c.by || in.Known != c.known || said != c.says {
			t.Errorf("%s of %.40s: known by %s %q, and %q", c.expression, c.body, in.By, in.Known, said)
		}
	}
	// without the header, the content counts
	w := newWorld(t)
	w.source(open, named(`event.data.id`))
	if w.post(`{"a":1}`); w.events[0].Intake.By != grapnel.ByContent {
		t.Errorf("known by %s", w.events[0].Intake.By)
	}
}

// TestASignedBodyNamesItsEvent: what hmac signs names the event. So neither a provider that signs
// anew nor a client that has seen a signed request makes a second event of it.
func TestASignedBodyNamesItsEvent(t *testing.T) {
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "hmac", Secrets: secrets("a secret of the provider"), Header: "X-Signature", Signed: "{timestamp}.{body}",
		TimestampHeader: "X-Time", IDHeader: "X-Id"}, named(`event.data.id`))
	post := func(body, id string, ago int64) answered {
		stamp := fmt.Sprint(w.now.Unix() - ago)
		mac := hmac.New(sha256.New, []byte("a secret of the provider"))
		mac.Write([]byte(stamp + "." + body))
		return w.post(body, "X-Signature", hex.EncodeToString(mac.Sum(nil)), "X-Time", stamp, "X-Id", id)
	}
	first := post(`{"id":"evt_1"}`, "1", 0)
	for _, again := range []answered{post(`{"id":"evt_1"}`, "1", 0), post(`{"id":"evt_1"}`, "2", 0), post(`{"id":"evt_1"}`, "3", 5)} {
		if again.status != http.StatusOK || again.ID != first.ID || !again.Duplicate || again.Conflict {
			t.Errorf("answered %d %s", again.status, again.body)
		}
	}
	if second := post(`{"id":"evt_2"}`, "1", 0); second.status != http.StatusAccepted || len(w.events) != 2 {
		t.Errorf("answered %d %s, %d events", second.status, second.body, len(w.events))
	}
}

// TestWebhooksOfTheFiveSystems: docs/receiving.md has these settings for each of the five systems
// whose documents the presets follow. The same id at another time of sending is one event.
func TestWebhooksOfTheFiveSystems(t *testing.T) {
	for name, c := range map[string]struct {
		header, id    string // of the source
		first, second string // bodies
		headers       []string
	}{
		"Parseo": {"", `event.data.id`,
			`{"id":"evt_4D3c2B","type":"invoice.parsed","occurredAt":"2026-05-06T08:00:00Z","sent_at":"2026-05-06T08:00:01Z"}`,
			`{"id":"evt_4D3c2B","type":"invoice.parsed","occurredAt":"2026-05-06T08:00:00Z","sent_at":"2026-05-06T08:05:01Z"}`, nil},
		"Paylera": {"", `event.data.id`,
			`{"id":"evt_1","type":"invoice.finalized","aggregate_type":"invoice","aggregate_id":"inv_123","sent_at":"2026-05-06T08:00:01Z"}`,
			`{"id":"evt_1","type":"invoice.finalized","aggregate_type":"invoice","aggregate_id":"inv_123","sent_at":"2026-05-06T08:00:16Z"}`, nil},
		"Sent": {"X-Webhook-ID", ``,
			`{"field":"message.status","timestamp":"2026-05-06T08:00:01Z","payload":{"status":"SENT"},"sent_at":"2026-05-06T08:00:01Z"}`,
			`{"field":"message.status","timestamp":"2026-05-06T08:00:01Z","payload":{"status":"SENT"},"sent_at":"2026-05-06T08:00:06Z"}`,
			[]string{"X-Webhook-ID", "evt_1"}},
		"Hooque": {"", `event.data.payload.id`,
			`{"payload":{"id":"evt_1"},"sent_at":"2026-05-06T08:00:01Z"}`, `{"payload":{"id":"evt_1"},"sent_at":"2026-05-06T08:00:02Z"}`, nil},
		"Webhookify": {"X-Webhook-ID", `event.data.id`,
			`{"id":"evt_1","type":"order.created","sent_at":"2026-05-06T08:00:01Z"}`,
			`{"id":"evt_1","type":"order.created","sent_at":"2026-05-06T08:01:01Z"}`, nil},
		"Webhookify, by its header": {"X-Webhook-ID", `event.data.id`,
			`{"type":"order.created","sent_at":"2026-05-06T08:00:01Z"}`, `{"type":"order.created","sent_at":"2026-05-06T08:01:01Z"}`,
			[]string{"X-Webhook-ID", "evt_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.source(grapnel.Verify{Scheme: "none", IDHeader: c.header}, func(s *grapnel.Source) {
				s.EventID, s.Dedupe.Ignore = c.id, []string{"$.sent_at"}
			})
			first, second := w.post(c.first, c.headers...), w.post(c.second, c.headers...)
			if first.status != http.StatusAccepted || second.status != http.StatusOK || second.ID != first.ID ||
				!second.Duplicate || second.Conflict {
				t.Errorf("answered %d %s, then %d %s", first.status, first.body, second.status, second.body)
			}
			if len(w.events) != 1 || len(w.asides) != 0 {
				t.Errorf("%d events, %d set aside", len(w.events), len(w.asides))
			}
			other := strings.Replace(c.first, "evt_", "evt_other", 1)
			headers := append([]string{}, c.headers...)
			for i := range headers {
				headers[i] = strings.Replace(headers[i], "evt_", "evt_other", 1)
			}
			if got := w.post(other, headers...); got.status != http.StatusAccepted || len(w.events) != 2 {
				t.Errorf("another id: answered %d %s", got.status, got.body)
			}
		})
	}
}

// TestSignedIDs: a source says whether its ids are signed.
func TestSignedIDs(t *testing.T) {
	for _, c := range []struct {
		scheme, signed, id string
		want               bool
	}{
		{"hmac", "", "", false}, {"hmac", "", "event.data.id", true}, {"hmac", "{timestamp}.{body}", "event.data.id", true},
		{"github", "", "", false}, {"github", "", "event.data.id", true}, {"standard", "", "", true}, {"standard", "", "event.data.id", true},
		{"api_key", "", "event.data.id", false}, {"basic", "", "event.data.id", false}, {"none", "", "event.data.id", false},
		{"mailgun", "", "event.data.id", false}, {"adyen", "", "event.data.id", false}, {"stripe", "", "", true},
		{"unknown", "", "event.data.id", false},
	} {
		s := grapnel.Source{Verify: grapnel.Verify{Scheme: c.scheme, Signed: c.signed}, EventID: c.id}
		if got := IDsSigned(&s); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
