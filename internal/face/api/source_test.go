package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
)

// badSources are requests about sources and the inbox that have to be refused.
func badSources() []bad {
	create := func(name, body, pointer string) bad {
		return bad{name: "source: " + name, method: "POST", target: "/v1/sources", body: body, status: 422,
			code: grapnel.CodeInvalid, pointer: pointer}
	}
	verify := func(name, members, pointer string) bad {
		return create(name, `{"name":"new","verify":{`+members+`}}`, pointer)
	}
	stripe := func(name, more, pointer string) bad {
		return create(name, `{"name":"new","verify":{"scheme":"stripe","secret":"whsec_xx"}`+more+`}`, pointer)
	}
	patch := func(name, body, pointer string) bad {
		return bad{name: "source: patch " + name, method: "PATCH", target: "/v1/sources/SRC", body: body, status: 422,
			code: grapnel.CodeInvalid, pointer: pointer}
	}
	rotate := func(name, body, pointer string) bad {
		return bad{name: "source: rotate " + name, method: "POST", target: "/v1/sources/SRC/rotate-secret", body: body,
			status: 422, code: grapnel.CodeInvalid, pointer: pointer}
	}
	get := func(name, target, pointer string) bad {
		return bad{name: "inbox: " + name, method: "GET", target: target, status: 422, code: grapnel.CodeInvalid, pointer: pointer}
	}
	return []bad{
		create("no name", `{"verify":{"scheme":"none"}}`, "/name"),
		create("name with space around", `{"name":" a","verify":{"scheme":"none"}}`, "/name"),
		create("no verify", `{"name":"new"}`, "/verify"),
		create("verify is text", `{"name":"new","verify":"stripe"}`, "/verify"),
		create("tenant", `{"name":"new","verify":{"scheme":"none"},"tenant":"a b"}`, "/tenant"),
		verify("no scheme", `"secret":"x"`, "/verify/scheme"),
		verify("scheme unknown", `"scheme":"nobody"`, "/verify/scheme"),
		verify("secret missing", `"scheme":"slack"`, "/verify/secret"),
		verify("secret with none", `"scheme":"none","secret":"x"`, "/verify/secret"),
		verify("secret and secrets", `"scheme":"stripe","secret":"whsec_xx","secrets":["whsec_yy"]`, "/verify/secrets"),
		verify("secrets empty", `"scheme":"stripe","secrets":[]`, "/verify/secrets"),
		verify("too many secrets", `"scheme":"stripe","secrets":["a","b","c","d","e","f"]`, "/verify/secrets"),
		verify("tolerance", `"scheme":"stripe","secret":"whsec_xx","tolerance":"soon"`, "/verify/tolerance"),
		verify("tolerance of nothing", `"scheme":"stripe","secret":"whsec_xx","tolerance":"0s"`, "/verify/tolerance"),
		verify("tolerance of a year", `"scheme":"stripe","secret":"whsec_xx","tolerance":"8760h"`, "/verify/tolerance"),
		verify("hmac without header", `"scheme":"hmac","secret":"eight888","signed":"{body}"`, "/verify/header"),
		verify("hmac algorithm", `"scheme":"hmac","secret":"eight888","header":"X-S","algorithm":"md5"`, "/verify/algorithm"),
		verify("field that the scheme does not read", `"scheme":"stripe","secret":"whsec_xx","username":"u"`, "/verify/username"),
		verify("basic without name", `"scheme":"basic","secret":"eight888"`, "/verify/username"),
		verify("unknown field", `"scheme":"none","secret_key":"x"`, "/verify/secret_key"),
		stripe("dedupe by", `,"dedupe":{"by":["luck"]}`, "/dedupe/by/0"),
		stripe("dedupe window", `,"dedupe":{"window":"long"}`, "/dedupe/window"),
		stripe("dedupe window shorter than the provider tries", `,"dedupe":{"window":"1h"}`, "/dedupe/window"),
		stripe("dedupe ignore", `,"dedupe":{"ignore":["sent_at"]}`, "/dedupe/ignore/0"),
		stripe("on_unverified", `,"on_unverified":"trust"`, "/on_unverified"),
		stripe("type", `,"type":"nonsense("`, "/type"),
		stripe("key", `,"key":"nonsense("`, "/key"),
		stripe("public_url", `,"public_url":"ftp://a"`, "/public_url"),
		verify("a short secret", `"scheme":"stripe","secret":"seven77"`, "/verify/secret"),
		verify("a short secret of two", `"scheme":"stripe","secrets":["eight888","seven77"]`, "/verify/secrets/1"),
		verify("a short key in hex", `"scheme":"hmac","secret":"hex:0011223344","header":"X-S"`, "/verify/secret"),
		verify("time that is not signed", `"scheme":"hmac","secret":"eight888","header":"X-S","timestamp_header":"X-T"`,
			"/verify/timestamp_header"),
		stripe("rate_limit", `,"rate_limit":{"per_second":0}`, "/rate_limit/per_second"),
		stripe("rate_limit too small", `,"rate_limit":{"per_second":1e-12}`, "/rate_limit/per_second"),
		stripe("max_body", `,"max_body":0`, "/max_body"),
		stripe("status", `,"status":"disabled"`, "/status"),
		{name: "source: name taken", method: "POST", target: "/v1/sources", body: `{"name":"shop","verify":{"scheme":"none"}}`,
			status: 409, code: grapnel.CodeConflict, pointer: "-"},
		patch("unknown field", `{"ingest_url":"/in/x"}`, "/ingest_url"),
		patch("no object", `[]`, ""),
		patch("scheme without its secret", `{"verify":{"scheme":"github"}}`, "/verify/secret"),
		patch("name to null", `{"name":null}`, "/name"),
		patch("verify to null", `{"verify":null}`, "/verify"),
		rotate("without secret", `{}`, "/secret"),
		rotate("to the one there is", `{"secret":"whsec_test"}`, "/secret"),
		rotate("overlap", `{"secret":"whsec_yy","overlap":"721h"}`, "/overlap"),
		get("outcome", "/v1/inbox?outcome=duplicate", "?outcome"),
		get("cursor of something else", "/v1/inbox?cursor=CURSOR", "?cursor"),
		get("from", "/v1/inbox?from=yesterday", "?from"),
		{name: "endpoint: source that is not there", method: "POST", target: "/v1/endpoints",
			body: `{"url":"https://a.example","source":"src_none"}`, status: 422,
			code: grapnel.CodeInvalid, pointer: "/source"},
		{name: "endpoint: source of another tenant", method: "POST", target: "/v1/endpoints",
			body: `{"url":"https://a.example","tenant":"acme","source":"SRC"}`, status: 422,
			code: grapnel.CodeInvalid, pointer: "/source"},
	}
}

// shop makes a source and returns its id.
func (w *world) shop(more string) string {
	w.t.Helper()
	return w.must(201, "POST", "/v1/sources",
		`{"name":"stripe-live","verify":{"scheme":"stripe","secret":"whsec_the_first"}`+more+`}`)["id"].(string)
}

func TestSecretsOfSourcesNeverComeBack(t *testing.T) {
	w := newWorld(t)
	id := w.shop("")
	for _, ask := range []struct{ method, target, body string }{
		{"GET", "/v1/sources/" + id, ""}, {"GET", "/v1/sources", ""}, {"PATCH", "/v1/sources/" + id, `{"description":"x"}`},
		{"POST", "/v1/sources/" + id + "/rotate-secret", `{"secret":"whsec_the_second"}`}, {"GET", "/v1/sources/" + id, ""},
		{"GET", "/v1/audit", ""},
	} {
		r := w.ask(admin, ask.method, ask.target, ask.body)
		if r.StatusCode != 200 || strings.Contains(string(r.body), "whsec_") {
			t.Errorf("%s %s: answered %d %s", ask.method, ask.target, r.StatusCode, r.body)
		}
	}
	if strings.Contains(w.logged.String(), "whsec_") {
		t.Errorf("a secret is in the log: %s", w.logged)
	}
}

func TestASourceHasDefaultsAndSaysHowLongItsProviderTries(t *testing.T) {
	w := newWorld(t)
	got := w.must(201, "POST", "/v1/sources", `{"name":"a","verify":{"scheme":"stripe","secret":"whsec_xx"}}`)
	if got["ingest_url"] != "/in/"+got["id"].(string) || got["on_unverified"] != "reject" || got["status"] != "enabled" {
		t.Errorf("made %v", got)
	}
	if d := cmp.Diff(map[string]any{"by": []any{"event_id", "delivery_id", "content"}, "window": "192h0m0s", "ignore": []any{}},
		got["dedupe"]); d != "" {
		t.Error(d)
	}
	provider := got["provider"].(map[string]any)
	if provider["retries_for"] == nil || provider["retries"] == "" || provider["title"] == "" {
		t.Errorf("of the provider it says %v", provider)
	}
	if tolerance := got["verify"].(map[string]any)["tolerance"]; tolerance != "5m0s" {
		t.Errorf("the tolerance is %v", tolerance)
	}
}

// secretsOf are the secrets that a source has at present, as the room of ingress sees them.
func (w *world) secretsOf(id string) (texts []string) {
	src, _ := w.engine.Source(store.Everyone(), id)
	for _, s := range src.Verify.Secrets {
		if s.Live(w.clock) {
			texts = append(texts, s.Text)
		}
	}
	return texts
}

func TestSecretsOverlap(t *testing.T) {
	w := newWorld(t)
	id := w.shop("")
	w.must(200, "POST", "/v1/sources/"+id+"/rotate-secret", `{"secret":"whsec_the_second","overlap":"1h"}`)
	if d := cmp.Diff([]string{"whsec_the_second", "whsec_the_first"}, w.secretsOf(id)); d != "" {
		t.Error(d)
	}
	w.clock = w.clock.Add(time.Hour)
	if d := cmp.Diff([]string{"whsec_the_second"}, w.secretsOf(id)); d != "" {
		t.Error(d)
	}
	if got := w.must(200, "GET", "/v1/sources/"+id, "")["verify"].(map[string]any)["secrets"].([]any); len(got) != 1 {
		t.Errorf("it shows %v", got)
	}
}

func TestPatchingASourceKeepsItsSecrets(t *testing.T) {
	w := newWorld(t)
	id := w.shop(`,"rate_limit":{"per_second":5},"dedupe":{"by":["content"],"window":"240h"}`)
	got := w.must(200, "PATCH", "/v1/sources/"+id,
		`{"verify":{"tolerance":"1m"},"rate_limit":null,"status":"paused","dedupe":{"ignore":["$.sent_at"]}}`)
	if got["rate_limit"] != nil || got["status"] != "paused" || got["verify"].(map[string]any)["tolerance"] != "1m0s" {
		t.Errorf("it is %v", got)
	}
	if entry := w.must(200, "GET", "/v1/audit?limit=1", "")["data"].([]any)[0].(map[string]any); entry["verb"] != "pause" ||
		entry["endpoint_id"] != id {
		t.Errorf("the audit says %v", entry)
	}
	if d := cmp.Diff(map[string]any{"by": []any{"content"}, "window": "240h0m0s", "ignore": []any{"$.sent_at"}}, got["dedupe"]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"whsec_the_first"}, w.secretsOf(id)); d != "" {
		t.Error(d)
	}
	w.must(200, "PATCH", "/v1/sources/"+id, `{"verify":{"secrets":["whsec_aa","whsec_bb"]}}`)
	if d := cmp.Diff([]string{"whsec_aa", "whsec_bb"}, w.secretsOf(id)); d != "" {
		t.Error(d)
	}
	// What one scheme was told means nothing to another.
	got = w.must(200, "PATCH", "/v1/sources/"+id, `{"verify":{"scheme":"github","secret":"hub-hub-hub"}}`)
	if v := got["verify"].(map[string]any); v["scheme"] != "github" || v["tolerance"] != nil {
		t.Errorf("it verifies by %v", v)
	}
	if d := cmp.Diff([]string{"hub-hub-hub"}, w.secretsOf(id)); d != "" {
		t.Error(d)
	}
	if got = w.must(200, "PATCH", "/v1/sources/"+id, `{"dedupe":{"by":[]},"status":null}`); got["status"] != "enabled" ||
		len(got["dedupe"].(map[string]any)["by"].([]any)) != 0 {
		t.Errorf("it is %v", got)
	}
	if got = w.must(200, "PATCH", "/v1/sources/"+id, `{"description":"d"}`); len(got["dedupe"].(map[string]any)["by"].([]any)) != 0 {
		t.Errorf("a patch of something else changed dedupe: %v", got["dedupe"])
	}
}

func TestASourceThatSomebodyReadsCannotBeDeleted(t *testing.T) {
	w := newWorld(t)
	id := w.shop("")
	ep := w.endpoint(admin, `,"source":"`+id+`"`)
	if got := w.must(200, "GET", "/v1/endpoints/"+ep, ""); got["source"] != id {
		t.Errorf("the endpoint says %v", got["source"])
	}
	w.must(409, "DELETE", "/v1/sources/"+id, "")
	w.must(200, "PATCH", "/v1/endpoints/"+ep, `{"source":null}`)
	w.must(204, "DELETE", "/v1/sources/"+id+"?reason=left", "")
	w.must(404, "GET", "/v1/sources/"+id, "")
	entry := w.must(200, "GET", "/v1/audit?limit=1", "")["data"].([]any)[0].(map[string]any)
	if entry["verb"] != "delete" || entry["reason"] != "left" || entry["endpoint_id"] != id {
		t.Errorf("the audit says %v", entry)
	}
}

// taker is a room that answers with what it got.
type taker struct {
	refused  *ingress.Refusal
	public   *url.URL
	released []string // sources
}

func (k *taker) Take(w http.ResponseWriter, r *http.Request, source string) {
	if k.refused != nil {
		Refuse(k.public, nil)(w, r, *k.refused)
		return
	}
	body := make([]byte, 100)
	n, _ := r.Body.Read(body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintf(w, `{"id":"%s %s %s %s","duplicate":false}`, source, r.URL.RawQuery, r.Header.Get("Content-Encoding"), body[:n])
}

func (k *taker) Release(_ context.Context, source string) (ingress.Released, error) {
	k.released = append(k.released, source)
	return ingress.Released{Events: 3, Duplicates: 2, Conflicts: 1, Left: 4}, nil
}

var refusedAt = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func (k *taker) Refusals(source string) ingress.Refusals {
	if k.refused == nil {
		return ingress.Refusals{}
	}
	return ingress.Refusals{LastAt: refusedAt, LastStatus: 401, LastReason: "by " + source, LastHour: 3}
}

// A source says what it refused, if it has refused anything.
func TestSourceTellsItsRefusals(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Ingest = &taker{} })
	id := w.shop("")
	if got, said := w.must(200, "GET", "/v1/sources/"+id, "")["refusals"]; said {
		t.Errorf("before any: %v", got)
	}
	w = newWorld(t, func(o *Options) { o.Ingest = &taker{refused: &ingress.Refusal{}} })
	id = w.shop("")
	want := map[string]any{"last_at": "2026-05-04T03:02:01.000000Z", "last_status": 401.0, "last_reason": "by " + id, "last_hour": 3.0}
	if d := cmp.Diff(want, w.must(200, "GET", "/v1/sources/"+id, "")["refusals"]); d != "" {
		t.Error(d)
	}
}

// TestASourceWithoutItsSecret: a source may be created before its provider shows the secret. Every
// answer says that it waits, and the one that sets the secret counts its requests.
func TestASourceWithoutItsSecret(t *testing.T) {
	in := &taker{}
	w := newWorld(t, func(o *Options) { o.Ingest = in })
	create := func(name, scheme string) string {
		made := w.must(201, "POST", "/v1/sources", fmt.Sprintf(`{"name":%q,"verify":{"scheme":%q}}`, name, scheme))
		id, _ := made["id"].(string)
		if got := w.must(200, "GET", "/v1/sources/"+id, ""); made["waits_for_secret"] != true || got["waits_for_secret"] != true {
			t.Errorf("%s: %v, then %v", scheme, made, got)
		}
		return id
	}
	counts := map[string]any{"events": 3.0, "duplicates": 2.0, "conflicts": 1.0, "quarantined": 4.0}
	first, second := create("a", "stripe"), create("b", "twilio")
	for id, set := range map[string]func() map[string]any{
		first: func() map[string]any {
			return w.must(200, "POST", "/v1/sources/"+first+"/rotate-secret", `{"secret":"whsec_of_stripe"}`)
		},
		second: func() map[string]any {
			return w.must(200, "PATCH", "/v1/sources/"+second, `{"verify":{"secret":"token_of_twilio"}}`)
		},
	} {
		in.released = nil
		if got := w.must(200, "PATCH", "/v1/sources/"+id, `{"description":"x"}`); got["released"] != nil || len(in.released) != 0 {
			t.Errorf("another change released: %v", got)
		}
		got := set()
		if d := cmp.Diff(counts, got["released"]); d != "" || got["waits_for_secret"] != false || !slices.Equal(in.released, []string{id}) {
			t.Errorf("%v: %s", got, d)
		}
		if got := w.must(200, "POST", "/v1/sources/"+id+"/rotate-secret", `{"secret":"a later secret"}`); got["released"] != nil {
			t.Errorf("a later rotation released: %v", got)
		}
	}
	for _, scheme := range []string{"slack", "api_key", "gitlab"} { // they are verified by more than a stored request has
		w.must(422, "POST", "/v1/sources", fmt.Sprintf(`{"name":"c","verify":{"scheme":%q}}`, scheme))
	}
}

// TestAnAddressThatProvidersCannotReach: without --public-url the server knows only how it was
// asked.
func TestAnAddressThatProvidersCannotReach(t *testing.T) {
	public, err := url.Parse("http://127.0.0.1:8420") // the operator says so
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		public       *url.URL
		host, member string
		want         bool
	}{
		"loopback": {host: "127.0.0.1:8420", want: true}, "a name": {host: "grapnel.example.com"},
		"said":          {public: public, host: "127.0.0.1:8420"},
		"of the source": {host: "127.0.0.1:8420", member: `,"public_url":"https://hooks.example.com"`},
	} {
		w := newWorld(t, func(o *Options) { o.PublicURL = c.public })
		r := w.ask(admin, "POST", "http://"+c.host+"/v1/sources", `{"name":"a","verify":{"scheme":"none"}`+c.member+`}`)
		text, said := r.object(t)["unreachable"].(string)
		if said != c.want || said && !strings.Contains(text, "--public-url") {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
		}
	}
}

// What a provider sends reaches the room as it came, whatever it is: no key is asked for, no query
// is judged and nothing is read before.
func TestIngestGetsTheRequestAsItCame(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Ingest = &taker{} })
	r := w.ask("", "POST", "/in/src_1?bodySHA256=x&y", "{{{", "Content-Encoding", "br", "Content-Type", "application/x-strange",
		"Idempotency-Key", "theirs")
	if r.StatusCode != 202 || r.object(t)["id"] != "src_1 bodySHA256=x&y br {{{" || r.Header.Get("X-Request-Id") == "" {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
	if r = w.ask("", "GET", "/in/src_1", ""); r.StatusCode != 405 || r.Header.Get("Allow") != "POST" {
		t.Errorf("GET: answered %d, Allow %q", r.StatusCode, r.Header.Get("Allow"))
	}
}

func TestRefusalsOfIngestAreProblems(t *testing.T) {
	for _, refused := range []ingress.Refusal{
		{Status: 401, Code: ingress.CodeUnverified, Detail: "no signature matches"},
		{Status: 408, Code: ingress.CodeSlow, Detail: "too slow"},
		{Status: 413, Code: grapnel.CodeTooLarge, Detail: "too large"},
		{Status: 429, Code: grapnel.CodeRateLimited, Detail: "too many", RetryAfter: 1500 * time.Millisecond},
		{Status: 503, Code: grapnel.CodeOverloaded, Detail: "too much", RetryAfter: time.Second},
	} {
		w := newWorld(t, func(o *Options) { o.Ingest = &taker{refused: &refused} })
		r := w.ask("", "POST", "/in/src_1", "{}")
		got := r.object(t)
		if r.StatusCode != refused.Status || got["code"] != string(refused.Code) || got["detail"] != refused.Detail ||
			got["request_id"] != r.Header.Get("X-Request-Id") ||
			r.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%+v: answered %d %s", refused, r.StatusCode, r.body)
		}
		if after := r.Header.Get("Retry-After"); (after != "") != (refused.RetryAfter > 0) || refused.RetryAfter > time.Second && after != "2" {
			t.Errorf("%+v: Retry-After is %q", refused, after)
		}
	}
}
