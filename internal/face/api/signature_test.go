package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

const (
	symmetricSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	privateSecret   = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)

// sendReally makes an attempt of the newest delivery as the engine would, over a real connection,
// and returns the delivery's id and the body that the receiver got.
func (w *world) sendReally(number int) (id string, got []byte) {
	w.t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) }))
	defer receiver.Close()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, receiver.Listener.Addr().String())
	}
	sender := egress.New(egress.Options{Now: func() time.Time { return w.clock }, Dial: dial})
	defer sender.Close()
	d := w.newest(w.t)
	ep, _ := w.engine.Endpoint(store.Everyone(), d.EndpointID)
	ev, _, err := w.engine.Event(w.t.Context(), store.Everyone(), d.Tenant, d.EventID)
	if err != nil {
		w.t.Fatal(err)
	}
	r := sender.Send(w.t.Context(), egress.Delivery{Endpoint: &ep, Event: ev, ID: storeIDs.Of(d), Number: number,
		Trigger: grapnel.TriggerSchedule, CreatedAt: d.CreatedAt})
	if r.Outcome.Status != http.StatusOK {
		w.t.Fatalf("sending: %+v", r)
	}
	next := w.clock.Add(time.Minute)
	at := &grapnel.Attempt{Number: number, Trigger: grapnel.TriggerSchedule, ScheduledFor: w.clock, StartedAt: r.StartedAt,
		RequestHeaders: r.Sent, StatusCode: 503, Class: policy.ClassStatus5xx, Decision: policy.Retry, NextAttemptAt: next}
	if _, err := w.engine.Record(w.t.Context(), []store.Change{{Delivery: d.Seq, Expect: number - 1, Attempt: at, At: w.clock,
		Status: grapnel.Pending, Due: next, Trigger: grapnel.TriggerSchedule}}); err != nil {
		w.t.Fatal(err)
	}
	return storeIDs.Of(d), got
}

// checkOf asks for the check of an attempt's signature; no answer may have a secret.
func (w *world) checkOf(id string, number int) map[string]any {
	w.t.Helper()
	got := w.must(200, "GET", fmt.Sprintf("/v1/deliveries/%s/attempts/%d/signature", id, number), "")
	for _, part := range []string{"whsec_", "whsk_", symmetricSecret[6:], privateSecret[5:]} {
		if strings.Contains(fmt.Sprint(got), part) {
			w.t.Errorf("the answer has a secret: %v", got)
		}
	}
	return got
}

// sentBody asks for the body that an attempt sent.
func (w *world) sentBody(id string, number int) (is wire.SentBody) {
	w.t.Helper()
	got := w.must(200, "GET", fmt.Sprintf("/v1/deliveries/%s/attempts/%d/body", id, number), "")
	text, err := json.Marshal(got)
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return is
}

func bytesOf(is wire.SentBody) []byte {
	body, _ := is.Content()
	return body
}

func (w *world) receiver(key, settings string) string {
	w.t.Helper()
	return w.as(key, 201, "POST", "/v1/endpoints", `{"url":"http://receiver.example/hook"`+settings+`}`)["id"].(string)
}

// TestTheSignedBodyIsMadeAgain: whatever shape the endpoint gives to events, and has got since, the
// body that is made again has the hash of the one that a receiver got, and its signature matches.
func TestTheSignedBodyIsMadeAgain(t *testing.T) {
	raw := func(w *world) {
		w.as(admin, 202, "POST", "/v1/events/raw?type=a", "\xff\x00 no text", "Content-Type", "application/octet-stream")
	}
	usual := func(w *world) { w.must(202, "POST", "/v1/events", `{"type":"a","data":{"n":1.00}}`) }
	for name, tc := range map[string]struct {
		settings string
		publish  func(*world)
		text     string // in the body; empty: it is no text
	}{
		"standard":      {`,"format":"standard"`, usual, `"data":{"n":1.00}`},
		"standard, raw": {``, raw, `"data_base64":"`},
		"raw":           {`,"format":"raw"`, usual, `{"n":1.00}`},
		"raw, bytes":    {`,"format":"raw"`, raw, ""},
		"cloudevents":   {`,"format":"cloudevents"`, usual, `{"n":1.00}`},
		"transform":     {`,"transform":"{was: .data.n}"`, usual, `{"was":1`},
		"svix":          {`,"signature_headers":"svix"`, usual, `"type":"a"`},
		"ed25519":       {`,"secret":"` + privateSecret + `"`, usual, `"type":"a"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ep := w.receiver(admin, tc.settings)
			tc.publish(w)
			id, sent := w.sendReally(1)
			at := w.clock
			sum := sha256.Sum256(sent)
			for range 2 {
				got := w.checkOf(id, 1)
				signed := got["signed"].(map[string]any)
				body, _ := signed["body"].(string)
				if got["verdict"] != "current" || signed["body_sha256"] != hex.EncodeToString(sum[:]) || signed["body_bytes"] != float64(len(sent)) ||
					(body != "") != (tc.text != "") || !strings.Contains(body, tc.text) || signed["timestamp"] != float64(at.Unix()) {
					t.Errorf("sent %q, answered %v", sent, got)
				}
				if whole := w.sentBody(id, 1); whole.Verdict != "signed" || !bytes.Equal(bytesOf(whole), sent) || whole.Bytes != len(sent) ||
					whole.SHA256 != hex.EncodeToString(sum[:]) || (whole.Body == nil) != (tc.text == "") {
					t.Errorf("sent %q, the body made again is %+v", sent, whole)
				}
				one := got["signatures"].([]any)[0].(map[string]any)
				if one["secret"] != 1.0 || one["matches"] != "secret 1 of 1 (created 2026-01-02T03:04:05Z)" {
					t.Errorf("the signature: %v", one)
				}
				w.clock = w.clock.Add(time.Second)
				// Another shape from now on: an event keeps that of its acceptance.
				w.must(200, "PATCH", "/v1/endpoints/"+ep, `{"transform":"{other: 1}","format":"standard"}`)
			}
		})
	}
}

// TestTheSignatureDuringAndAfterRotation: an attempt is checked as time passes.
func TestTheSignatureDuringAndAfterRotation(t *testing.T) {
	w := newWorld(t)
	ep := w.receiver(admin, `,"secret":"`+symmetricSecret+`"`)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	id, _ := w.sendReally(1)
	expect := func(number int, verdict, sentence string, matches []any) {
		t.Helper()
		got := w.checkOf(id, number)
		var is []any
		for _, s := range got["signatures"].([]any) {
			is = append(is, s.(map[string]any)["secret"])
		}
		if got["verdict"] != verdict || !strings.Contains(got["sentence"].(string), sentence) || fmt.Sprint(is) != fmt.Sprint(matches) {
			t.Errorf("attempt %d: %v, want %s, %s, %v", number, got, verdict, sentence, matches)
		}
	}
	expect(1, "current", "matches the current secret", []any{1.0})
	w.clock = w.clock.Add(time.Hour)
	w.must(200, "POST", "/v1/endpoints/"+ep+"/rotate-secret", `{"overlap":"1h","secret":"`+privateSecret+`"}`)
	w.clock = w.clock.Add(time.Minute)
	w.sendReally(2)
	expect(1, "earlier", "which signs until 2026-01-02T05:04:05Z", []any{2.0})
	expect(2, "current", "matches the current secret", []any{1.0, 2.0})
	w.clock = w.clock.Add(time.Hour)
	expect(1, "ended", "ended at 2026-01-02T05:04:05Z", []any{2.0})
	w.must(200, "POST", "/v1/endpoints/"+ep+"/rotate-secret", `{"overlap":"1h"}`)
	expect(1, "none", "rotated since.", []any{nil})
	expect(2, "earlier", "an earlier secret", []any{2.0, nil})
	one, two := w.sentBody(id, 1), w.sentBody(id, 2)
	if one.Verdict != "unproved" || two.Verdict != "signed" || !bytes.Equal(bytesOf(one), bytesOf(two)) {
		t.Errorf("the bodies are %+v and %+v", one, two)
	}
	w.must(404, "GET", "/v1/deliveries/"+id+"/attempts/3/signature", "")
	w.must(404, "GET", "/v1/deliveries/"+id+"/attempts/01/signature", "")
}

// TestASignatureThatCannotBeChecked says why.
func TestASignatureThatCannotBeChecked(t *testing.T) {
	w := newWorld(t)
	ep := w.receiver(acmeAdmin, `,"secret":"`+symmetricSecret+`"`)
	w.as(acmeAdmin, 202, "POST", "/v1/events", `{"type":"a","data":1}`)
	d := w.newest(t)
	w.attempt(d, 1, 503, w.clock.Add(time.Minute)) // without a signature
	id := storeIDs.Of(d)
	if got := w.checkOf(id, 1); got["verdict"] != "not_sent" || got["signed"] != nil {
		t.Errorf("nothing sent: %v", got)
	}
	w.sendReally(2)
	at := "/v1/deliveries/" + id + "/attempts/2/signature"
	forge := &grapnel.Attempt{Number: 3, StartedAt: w.clock, Class: policy.ClassStatus5xx, Decision: policy.Retry,
		RequestHeaders: []grapnel.Header{{Name: "Webhook-Signature", Value: "v1,Zm9yZ2Vk v1a,"}}}
	if _, err := w.engine.Record(t.Context(), []store.Change{{Delivery: d.Seq, Expect: 2, Attempt: forge, At: w.clock, Status: grapnel.Pending,
		Due: w.clock, Trigger: grapnel.TriggerSchedule}}); err != nil {
		t.Fatal(err)
	}
	for number, verdict := range map[int]string{1: "not_sent", 2: "signed", 3: "not_rebuilt"} {
		is := w.sentBody(id, number)
		if body, some := is.Content(); is.Verdict != verdict || is.Sentence == "" || some != (verdict == "signed") {
			t.Errorf("attempt %d: the body is %q, %+v", number, body, is)
		}
	}
	if got := w.checkOf(id, 3); got["verdict"] != "none" || !strings.Contains(got["sentence"].(string), "not the one that was sent") {
		t.Errorf("of other bytes: %v", got)
	}
	w.key("key_globex", "grp_test_globex", "globex", grapnel.ScopeAdmin)
	for _, at := range []string{at, strings.TrimSuffix(at, "signature") + "body"} {
		w.as("grp_test_globex", 404, "GET", at, "")
		w.as(w.pass(portalScopes), 200, "GET", at, "")
		w.as(w.pass(portalScopes, "ep_other"), 404, "GET", at, "")
		if got := w.as(w.pass([]grapnel.Scope{grapnel.ScopeRead}), 403, "GET", at, ""); !strings.Contains(fmt.Sprint(got), "payload:read") {
			t.Errorf("hidden payloads: %v", got)
		}
	}
	w.as(acmeAdmin, 204, "DELETE", "/v1/endpoints/"+ep, "")
	if got := w.checkOf(id, 2); got["verdict"] != "not_rebuilt" || !strings.Contains(got["sentence"].(string), "endpoint was deleted") {
		t.Errorf("the endpoint is gone: %v", got)
	}
	if is := w.sentBody(id, 2); is.Verdict != "not_rebuilt" || !strings.Contains(is.Sentence, "endpoint was deleted") || bytesOf(is) != nil {
		t.Errorf("the endpoint is gone: %+v", is)
	}
}
