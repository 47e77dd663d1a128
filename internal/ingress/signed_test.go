package ingress

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

const signingKey = "a-key-of-a-test"

func macOf(text string) []byte {
	mac := hmac.New(sha256.New, []byte(signingKey))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// signedOnce are requests whose ids are not signed: each is sent under one id or type and then
// under another, as an attacker who has seen it would do.
func signedOnce(now time.Time) map[string]func(id, kind string) (verify grapnel.Verify, body string, headers []string) {
	stamp := fmt.Sprint(now.Unix())
	of := func(scheme string) grapnel.Verify {
		return grapnel.Verify{Scheme: scheme, Secrets: secrets(signingKey)}
	}
	return map[string]func(id, kind string) (grapnel.Verify, string, []string){
		"mailgun": func(id, kind string) (grapnel.Verify, string, []string) {
			return of("mailgun"), fmt.Sprintf(`{"signature":{"timestamp":"%s","token":"t","signature":"%x"},"event-data":{"id":"%s","event":"%s"}}`,
				stamp, macOf(stamp+"t"), id, kind), nil
		},
		"linear": func(id, kind string) (grapnel.Verify, string, []string) {
			body := fmt.Sprintf(`{"webhookTimestamp":%s000,"data":{"id":"d"}}`, stamp)
			return of("linear"), body, []string{"Linear-Signature", hex.EncodeToString(macOf(body)), "Linear-Delivery", id, "Linear-Event", kind}
		},
		"zendesk": func(id, _ string) (grapnel.Verify, string, []string) {
			return of("zendesk"), `{"ticket":1}`, []string{"X-Zendesk-Webhook-Signature-Timestamp", stamp, "X-Zendesk-Webhook-Invocation-Id", id,
				"X-Zendesk-Webhook-Signature", base64.StdEncoding.EncodeToString(macOf(stamp + `{"ticket":1}`))}
		},
		"hmac": func(id, kind string) (grapnel.Verify, string, []string) {
			v := of("hmac")
			v.Header, v.Signed, v.TimestampHeader, v.IDHeader, v.TypeHeader = "X-S", "{timestamp}.{body}", "X-Time", "X-Id", "X-Type"
			return v, `{}`, []string{"X-S", hex.EncodeToString(macOf(stamp + ".{}")), "X-Time", stamp, "X-Id", id, "X-Type", kind}
		},
	}
}

// TestASignatureIsGoodForOneEvent: the same signed bytes under another id or type are no event, and
// are stored for operators.
func TestASignatureIsGoodForOneEvent(t *testing.T) {
	for name, sign := range signedOnce(newWorld(t).now) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			send := func(id, kind string) answered {
				v, body, headers := sign(id, kind)
				if w.sources["src_1"].ID == "" {
					w.source(v)
				}
				return w.post(body, headers...)
			}
			first := send("1", "made")
			if first.status != success(w.sources["src_1"].Verify.Scheme) {
				t.Fatalf("answered %d %s", first.status, first.body)
			}
			if got := send("1", "made"); got.status != http.StatusOK || !got.Duplicate || got.Conflict || got.ID != first.ID || len(w.asides) != 0 {
				t.Errorf("a repetition: answered %d %s", got.status, got.body)
			}
			if got := send("2", "made"); got.status != http.StatusOK || !got.Conflict || got.ID != first.ID || len(w.asides) != 1 {
				t.Errorf("another id: answered %d %s", got.status, got.body)
			}
			if kept := w.asides[0]; kept.Why != grapnel.AsideConflict || kept.Event != first.ID || kept.By != "" {
				t.Errorf("kept as %+v", kept)
			}
			if name != "zendesk" { // its type is in the body
				if got := send("1", "deleted"); got.status != http.StatusOK || !got.Conflict || got.ID != first.ID {
					t.Errorf("another type: answered %d %s", got.status, got.body)
				}
			}
			if len(w.events) != 1 {
				t.Errorf("%d events", len(w.events))
			}
			// The signature is remembered for as long as it can be verified.
			w.now = w.now.Add(grapnel.DefaultTolerance)
			if got := send("3", "made"); got.status != http.StatusOK || !got.Conflict {
				t.Errorf("at the end of the tolerance: answered %d %s", got.status, got.body)
			}
			w.now = w.now.Add(2 * time.Second)
			if got := send("4", "made"); got.status != http.StatusUnauthorized {
				t.Errorf("after it: answered %d %s", got.status, got.body)
			}
			// A source without deduplication does not remember signatures either.
			w.source(w.sources["src_1"].Verify, func(s *grapnel.Source) { s.Dedupe.By = nil })
			w.now = w.now.Add(-time.Minute)
			for range 2 {
				if got := send("5", "made"); got.status != first.status || got.Duplicate {
					t.Errorf("without dedupe: answered %d %s", got.status, got.body)
				}
			}
		})
	}
}

// The first digit of a token may be read as the last of the timestamp before it, because Mailgun
// signs them without a separator. A time that is centuries ahead is as wrong as an old one.
func TestATimestampCenturiesAhead(t *testing.T) {
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "mailgun", Secrets: secrets(signingKey)})
	stamp := fmt.Sprint(w.now.Unix())
	body := `{"signature":{"timestamp":"%s","token":"%s","signature":"%x"},"event-data":{"id":"%s"}}`
	if got := w.post(fmt.Sprintf(body, stamp, "7token", macOf(stamp+"7token"), "1")); got.status != success("mailgun") {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	w.now = w.now.Add(24 * time.Hour)
	got := w.post(fmt.Sprintf(body, stamp+"7", "token", macOf(stamp+"7token"), "2"))
	if got.status != http.StatusUnauthorized || len(w.events) != 1 || !strings.Contains(got.Detail, "in the future, more than 300 s") {
		t.Errorf("a replay: answered %d %s", got.status, got.body)
	}
}

// A provider signs a repetition again: it is a duplicate by its id.
func TestARepetitionThatIsSignedAnew(t *testing.T) {
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "linear", Secrets: secrets(signingKey)})
	var ids []string
	for range 3 {
		body := fmt.Sprintf(`{"webhookTimestamp":%d,"data":{"id":"d"}}`, w.now.UnixMilli())
		got := w.post(body, "Linear-Signature", hex.EncodeToString(macOf(body)), "Linear-Delivery", "1", "Linear-Event", "Issue")
		if got.status/100 != 2 {
			t.Errorf("answered %d %s", got.status, got.body)
		}
		ids = append(ids, got.ID)
		w.now = w.now.Add(time.Hour)
	}
	if ids[0] != ids[1] || ids[0] != ids[2] || len(w.events) != 1 {
		t.Errorf("%d events, answered with %v", len(w.events), ids)
	}
}

// TestWhatIsSignedNamesTheEvent: GitLab's signing token covers webhook-id, whose value is also in
// Idempotency-Key, and not that header. A request sent again with another Idempotency-Key is a
// duplicate.
func TestWhatIsSignedNamesTheEvent(t *testing.T) {
	w := newWorld(t)
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte(signingKey))
	w.source(grapnel.Verify{Scheme: "gitlab", Secrets: secrets(key)})
	stamp, body := fmt.Sprint(w.now.Unix()), `{"object_kind":"push"}`
	signature := "v1," + base64.StdEncoding.EncodeToString(macOf("id-1."+stamp+"."+body))
	send := func(idempotency string) answered {
		return w.post(body, "Webhook-Id", "id-1", "Webhook-Timestamp", stamp, "Webhook-Signature", signature, "Idempotency-Key", idempotency)
	}
	first, got := send("id-1"), send("id-2")
	if first.status != http.StatusAccepted || got.status != http.StatusOK || !got.Duplicate || got.ID != first.ID || len(w.events) != 1 {
		t.Errorf("answered %d %s, then %d %s", first.status, first.body, got.status, got.body)
	}
}

// TestAnotherContentTypeIsNoOtherEvent: Slack signs the body and not its type. A command sent again
// as plain text, in which no id is found, is no second event.
func TestAnotherContentTypeIsNoOtherEvent(t *testing.T) {
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "slack", Secrets: secrets(signingKey)})
	stamp, body := fmt.Sprint(w.now.Unix()), "command=%2Fdeploy&trigger_id=1.2.3"
	send := func(media string) answered {
		return w.post(body, "Content-Type", media, "X-Slack-Request-Timestamp", stamp,
			"X-Slack-Signature", slackSignature(signingKey, stamp, body))
	}
	first := send("application/x-www-form-urlencoded")
	if got := send("application/x-www-form-urlencoded"); !got.Duplicate || got.Conflict || got.ID != first.ID {
		t.Errorf("a repetition: answered %d %s", got.status, got.body)
	}
	if got := send("text/plain"); got.status != http.StatusOK || !got.Conflict || got.ID != first.ID || len(w.events) != 1 {
		t.Errorf("as plain text: answered %d %s; %d events", got.status, got.body, len(w.events))
	}
}

// TestASignedIDLeavesTheTypeOpen: a signature over id and time does not cover the type.
func TestASignedIDLeavesTheTypeOpen(t *testing.T) {
	w := newWorld(t)
	stamp := fmt.Sprint(w.now.Unix())
	w.source(grapnel.Verify{Scheme: "hmac", Secrets: secrets(signingKey), Header: "X-S", Signed: "{id}.{timestamp}.{body}",
		TimestampHeader: "X-Time", IDHeader: "X-Id", TypeHeader: "X-Type"},
		func(s *grapnel.Source) { s.Dedupe.By = []grapnel.DedupeBy{grapnel.ByContent} })
	send := func(kind string) answered {
		return w.post(`{}`, "X-S", hex.EncodeToString(macOf("1."+stamp+".{}")), "X-Time", stamp, "X-Id", "1", "X-Type", kind)
	}
	first, got := send("made"), send("deleted")
	if got.status != http.StatusOK || !got.Conflict || got.ID != first.ID || len(w.events) != 1 {
		t.Errorf("another type: answered %d %s; %d events", got.status, got.body, len(w.events))
	}
}

// TestTheSameBytesSignedTwice: GitHub sends the same bytes for two events with two ids, and only
// with the type they had first. Shopify sends them for several topics. None of these is lost.
func TestTheSameBytesSignedTwice(t *testing.T) {
	const body = `{"action":"added","member":{"login":"octocat"}}`
	github := []string{
		"X-Hub-Signature-256",
		"sha256=" + hex.EncodeToString(macOf(body)),
		"X-GitHub-Event",
		"member",
		"X-GitHub-Delivery",
		"1",
	}
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "github", Secrets: secrets(signingKey)})
	send := func(kind, id string) answered {
		github[3], github[5] = kind, id
		return w.post(body, github...)
	}
	first := send("member", "1")
	if got := send("member", "1"); !got.Duplicate || got.Conflict || got.ID != first.ID {
		t.Errorf("a redelivery: %s", got.body)
	}
	if got := send("member", "2"); got.status != http.StatusAccepted {
		t.Errorf("added again: answered %d %s", got.status, got.body)
	}
	if got := send("member", "2"); !got.Duplicate || got.Conflict || got.ID == first.ID {
		t.Errorf("a redelivery of that: %s", got.body)
	}
	if got := send("repository", "3"); !got.Conflict || len(w.asides) != 1 || w.asides[0].Event != first.ID {
		t.Errorf("another type: %s", got.body)
	}
	w.now = w.now.Add(grapnel.DefaultDedupeWindow - time.Second)
	if got := send("repository", "4"); !got.Conflict {
		t.Errorf("at the end of the window: %s", got.body)
	}
	w = newWorld(t)
	w.source(grapnel.Verify{Scheme: "shopify", Secrets: secrets(signingKey)})
	for _, topic := range []string{"orders/create", "orders/paid"} {
		if got := w.post(
			body,
			"X-Shopify-Hmac-Sha256",
			base64.StdEncoding.EncodeToString(macOf(body)),
			"X-Shopify-Topic",
			topic,
			"X-Shopify-Event-Id",
			"e",
		); got.status != http.StatusAccepted {
			t.Errorf("%s: answered %d %s", topic, got.status, got.body)
		}
	}
}

// unable refuses events that come without the key of a signature.
type unable struct{ *world }

func (u unable) Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error) {
	if once == nil {
		return store.Accepted{}, store.ErrUnknown
	}
	return u.world.Publish(ctx, events, once)
}

// TestTheSameBytesWhileTheStoreFails: the second event with a signature is stored by a second
// commit, whose failure is answered like any other.
func TestTheSameBytesWhileTheStoreFails(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Engine = unable{o.Engine.(*world)} })
	w.source(grapnel.Verify{Scheme: "github", Secrets: secrets(signingKey)})
	send := func(delivery string) answered {
		return w.post(`{}`, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(macOf("{}")), "X-GitHub-Event", "ping",
			"X-GitHub-Delivery", delivery)
	}
	if got := send("1"); got.status != http.StatusAccepted {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	if got := send("2"); got.status != http.StatusServiceUnavailable || len(w.events) != 1 {
		t.Errorf("answered %d %s; %d events", got.status, got.body, len(w.events))
	}
}

// TestTypesThatASourceRenames: a source's expression may give two topics of Shopify, which share an
// event id, the same type. They stay two events.
func TestTypesThatASourceRenames(t *testing.T) {
	for _, by := range everyKind {
		w := newWorld(t)
		w.source(grapnel.Verify{Scheme: "shopify", Secrets: secrets(signingKey)}, func(s *grapnel.Source) {
			s.Type, s.Dedupe.By = `"shop.order"`, []grapnel.DedupeBy{by}
		})
		for i, topic := range []string{"orders/create", "orders/paid", "orders/create"} {
			got := w.post(`{"id":1}`, "X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(macOf(`{"id":1}`)), "X-Shopify-Topic", topic,
				"X-Shopify-Event-Id", "e", "X-Shopify-Webhook-Id", topic)
			if got.Duplicate != (i == 2) {
				t.Errorf("by %s, %s: answered %d %s", by, topic, got.status, got.body)
			}
		}
	}
}

// TestSignaturesOnRealStores: a signature is stored in the event's transaction, so it survives a
// restart.
func TestSignaturesOnRealStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grapnel.db")
	for name, open := range map[string]func() store.Store{
		"memory": func() store.Store { return memory.New() }, "sqlite": func() store.Store { return openSQLite(t, path) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openStation(t, open())
			v, body, _ := signedOnce(time.Now())["mailgun"]("1", "opened")
			s.put(
				t,
				grapnel.Source{ID: "src_1", Tenant: "acme", Name: "mail", Verify: v, Dedupe: grapnel.Dedupe{By: everyKind, Window: 24 * time.Hour}},
			)
			first := s.send(t, "src_1", body)
			if name == "sqlite" {
				s.close()
				s = openStation(t, open())
			}
			if got := s.send(
				t,
				"src_1",
				body,
			); first.status != success("mailgun") || first.Duplicate || got.status != http.StatusOK || got.Conflict ||
				got.ID != first.ID {
				t.Errorf("a repetition: %s, then %s", first.body, got.body)
			}
			if got := s.send(
				t,
				"src_1",
				strings.Replace(body, `"id":"1"`, `"id":"2"`, 1),
			); got.status != http.StatusOK || !got.Conflict ||
				got.ID != first.ID {
				t.Errorf("another id: answered %d %s", got.status, got.body)
			}
		})
	}
}
