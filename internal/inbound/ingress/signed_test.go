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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

const signingKey = "a-key-of-a-test"

func macOf(text string) []byte {
	mac := hmac.New(sha256.New, []byte(signingKey))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// TestASignatureIsGoodForOneEvent: the same signed bytes under another id or type are no event, and
// are stored for operators. It holds for each vector whose row (or template) says SignsOnce: the
// test changes all ids and types that the row reads.
func TestASignatureIsGoodForOneEvent(t *testing.T) {
	conflicts := map[string]int{} // by scheme
	each(t, func(t *testing.T, v vector) {
		how := v.world(t, v.Verify.Secrets...).receiver.source("src_1").how
		if how.Signs != scheme.SignsOnce {
			return // the provider may sign the same bytes again
		}
		for what, r := range v.renamed(how) {
			w := v.world(t, v.Verify.Secrets...)
			first := w.send(v.request())
			if again := w.send(v.request()); again.status != http.StatusOK || !again.Duplicate || again.Conflict || again.ID != first.ID ||
				len(w.asides) != 0 {
				t.Errorf("a repetition: answered %d %s", again.status, again.body)
			}
			got := w.send(r())
			if got.status != http.StatusUnauthorized && (got.status != http.StatusOK || !got.Duplicate || got.ID != first.ID) {
				t.Errorf("another %s: answered %d %s", what, got.status, got.body)
			}
			if !got.Conflict {
				continue // it is signed, or the row has another place before it
			}
			conflicts[v.scheme]++
			if len(w.asides) != 1 {
				t.Fatalf("another %s: %d requests are set aside", what, len(w.asides))
			}
			if kept := w.asides[0]; kept.Why != grapnel.AsideConflict || kept.Event != first.ID || kept.By != "" {
				t.Errorf("another %s: kept as %+v", what, kept)
			}
			// The signature is remembered for as long as it can be verified.
			w.now = v.signedAt(t).Add(grapnel.DefaultTolerance)
			if got := w.send(r()); got.status != http.StatusOK || !got.Conflict {
				t.Errorf("another %s at the end of the tolerance: answered %d %s", what, got.status, got.body)
			}
			w.now = w.now.Add(time.Second)
			if got := w.send(r()); got.status != http.StatusUnauthorized {
				t.Errorf("another %s after it: answered %d %s", what, got.status, got.body)
			}
			if len(w.events) != 1 {
				t.Errorf("another %s: %d events", what, len(w.events))
			}
		}
		// A source without deduplication does not remember signatures either.
		w := v.world(t, v.Verify.Secrets...)
		w.source(w.sources["src_1"].Verify, func(s *grapnel.Source) { s.Dedupe.By = nil })
		for range 2 {
			if got := w.send(v.request()); got.status != success(v.scheme) || got.Duplicate {
				t.Errorf("without dedupe: answered %d %s", got.status, got.body)
			}
		}
	})
	for _, s := range scheme.All() {
		if r := scheme.Find(s.Name); r.Signs == scheme.SignsOnce && r.MustSay() && conflicts[s.Name] == 0 {
			t.Errorf("%s says SignsOnce, and no vector of it has an id or a type outside the signature to try it with", s.Name)
		}
	}
	if conflicts["hmac"] == 0 {
		t.Error("no vector of hmac has a timestamp in its template and an id in a header that is not signed")
	}
}

// renamed are the vector's request with one id or type changed, by the place: as an attacker would
// send it who has seen the request. Not all of them still verify.
func (v *vector) renamed(how *scheme.Verifier) map[string]func() *http.Request {
	all := map[string]func() *http.Request{}
	for _, p := range slices.Concat(how.IDs.Event, how.IDs.Delivery, how.Kind) {
		if name, is := strings.CutPrefix(p.String(), "header "); is && v.Headers[name] != "" {
			all[p.String()] = func() *http.Request {
				r := v.request()
				r.Header.Set(name, "another")
				return r
			}
		}
	}
	for what, text := range map[string]string{"id in the body": v.Want.ID, "type in the body": v.Want.Type} {
		if body := strings.ReplaceAll(v.Body, text, "another"); v.BodyUnsigned && body != v.Body {
			all[what] = func() *http.Request {
				r := v.request()
				setBody(body)(r)
				return r
			}
		}
	}
	return all
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
			stamp, v := fmt.Sprint(time.Now().Unix()), grapnel.Verify{Scheme: "mailgun", Secrets: secrets(signingKey)}
			body := fmt.Sprintf(`{"signature":{"timestamp":"%s","token":"t","signature":"%x"},"event-data":{"id":"1","event":"opened"}}`,
				stamp, macOf(stamp+"t"))
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
