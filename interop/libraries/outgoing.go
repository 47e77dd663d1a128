package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	svix "github.com/svix/svix-webhooks/go"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/sign"
)

// bodies are the published bodies, each with its content type.
var bodies = []struct{ media, text string }{
	{"application/json", `{"amount": 1.50, "n":1e3 }`},
	{"application/json", `{"name":"Grüße, 世界 😀","escaped":"\u00fc\u2028"}`},
	{"application/json", `[1,"two",null]`},
	{"application/json", `"1.2.3"`},
	{"text/plain", "1.2.3\n"},
	{"text/plain; charset=utf-8", "Grüße\r\n\tTab"},
	{"application/x-www-form-urlencoded", "a=1&b=%20+&a=2"},
	{"application/xml", `<?xml version="1.0"?><a b="ü">c</a>`},
	{"application/octet-stream", ""},
	{"application/octet-stream", "\x00\xff\r\n "},
	{"text/plain; charset=iso-8859-1", "Gr\xfc\xdfe"},
}

// kind is a way to give secrets to an endpoint.
type kind struct {
	name          string
	first, second string   // second: the secret after the rotation
	hmac, public  []string // what receivers use to verify
}

func symmetric(size int, fill byte) string {
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = fill + byte(i)
	}
	return sign.SymmetricPrefix + base64.StdEncoding.EncodeToString(raw)
}

// kinds are made from public bytes.
func kinds() ([]kind, error) {
	seed := make([]byte, ed25519.SeedSize)
	key := sign.PrivatePrefix + base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed))
	public, err := sign.PublicKey(key)
	if err != nil {
		return nil, err
	}
	a, b, c := symmetric(24, 1), symmetric(32, 2), symmetric(64, 3)
	return []kind{
		{name: "24 bytes", first: a, hmac: []string{a}},
		{name: "32 bytes", first: b, hmac: []string{b}},
		{name: "64 bytes", first: c, hmac: []string{c}},
		{name: "Ed25519 key", first: key, public: []string{public}},
		{name: "Ed25519 seed", first: sign.PrivatePrefix + base64.StdEncoding.EncodeToString(seed), public: []string{public}},
		{name: "rotated", first: a, second: b, hmac: []string{a, b}},
		{name: "HMAC rotated to Ed25519", first: c, second: key, hmac: []string{c}, public: []string{public}},
	}, nil
}

// capture is a request as it arrived, with its receiver's secrets.
type capture struct {
	Headers map[string]string `json:"headers"` // names in lower case
	Body    []byte            `json:"body"`
	Secrets []string          `json:"secrets"`
	Public  []string          `json:"public"`
	Format  string            `json:"format"`
	Type    string            `json:"type"`
	Key     string            `json:"key"`
}

const (
	publishedType = "interop.sent"
	publishedKey  = "Schlüssel/17 %41" // a key may look as if it were already escaped
)

// receiver stores arriving requests, once for each path and id.
type receiver struct {
	mu   sync.Mutex
	got  map[string]map[string]capture // by path and id
	want int
	full chan struct{}
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c := capture{Headers: map[string]string{}, Body: body, Type: publishedType, Key: publishedKey}
	for name := range r.Header {
		c.Headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.got[r.URL.Path] == nil {
		v.got[r.URL.Path] = map[string]capture{}
	}
	id := c.Headers["webhook-id"]
	if _, repeated := v.got[r.URL.Path][id]; !repeated {
		if v.want--; v.want == 0 {
			defer close(v.full)
		}
	}
	v.got[r.URL.Path][id] = c
}

// outgoing makes the server send every body in every format, signed with every kind of secret, and
// lets the libraries verify them.
func (l *lab) outgoing(ctx context.Context, s *server) ([]section, error) {
	captures, err := l.captured(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	signatures := section{title: "Signatures that Grapnel makes",
		about: fmt.Sprintf("%d requests: 3 formats × 7 kinds of secrets (24, 32 and 64 bytes, an Ed25519 key and its seed, rotated, HMAC rotated to Ed25519) × %d bodies,\n"+
			"for endpoints without and with `\"signature_headers\":\"svix\"`. A check is one request and one secret; each request was also refused with another body and with\n"+
			"another id. *Not UTF-8*: a library that decodes bodies cannot accept such a body. *Throws*: it has verified the signature, and then the\n"+
			"body is not JSON.", len(captures), len(bodies))}
	events := section{title: "CloudEvents",
		about: "The requests of format `cloudevents` (binary mode), read by the official SDKs: attributes, an ordering key that needs escapes, and data."}
	add := func(language string, tallies map[string]tally) {
		for _, name := range slices.Sorted(maps.Keys(tallies)) {
			library, headers, _ := strings.Cut(name, " ")
			r := tallies[name].row()
			r.library, r.what = language+" `"+library+"`", "headers `"+headers+"`"
			r.version = l.version(strings.ToLower(language), library)
			switch {
			case library == "cloudevents":
				r.what = "binary mode"
				events.rows = append(events.rows, r)
				continue
			case library == "PyNaCl", library == "node:crypto":
				r.what = "`v1a`, by the specification: no library supports it"
			}
			signatures.rows = append(signatures.rows, r)
		}
	}
	add("Go", verifyInGo(captures))
	for language, script := range map[string]string{"Python": "python", "Node": "node"} {
		var tallies map[string]tally
		if err := l.script(ctx, script, "outgoing", captures, &tallies); err != nil {
			return nil, err
		}
		add(language, tallies)
	}
	for _, t := range toolchains {
		if tool := t.missing(); tool != "" {
			signatures.rows = append(signatures.rows, l.absent(t, tool)...)
			continue
		}
		tallies, err := t.tallies(ctx, l.cache, captures)
		if err != nil {
			return nil, err
		}
		add(t.language, tallies)
	}
	for _, rows := range [][]row{signatures.rows, events.rows} {
		slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.library, b.library) })
	}
	return []section{signatures, events}, nil
}

// captured are all requests, in the order of endpoints and bodies. The body of each is the one that
// the server shows afterwards, for a request to copy; it is the body that arrived. more are the
// settings of further endpoints.
func (l *lab) captured(ctx context.Context, s *server, more []map[string]any) (all []capture, err error) {
	kinds, err := kinds()
	if err != nil {
		return nil, err
	}
	formats, families := []string{"standard", "raw", "cloudevents"}, []string{"standard", "svix"}
	v := &receiver{got: map[string]map[string]capture{}, want: (len(kinds)*len(formats)*len(families) + len(more)) * len(bodies),
		full: make(chan struct{})}
	web := httptest.NewServer(v)
	defer web.Close()
	type place struct {
		path, format string
		kind         kind
	}
	var places []place
	for i, settings := range more {
		p := place{path: fmt.Sprint("/more/", i), kind: kinds[1]}
		with := map[string]any{"url": web.URL + p.path, "secret": p.kind.first, "event_types": []string{publishedType}}
		maps.Copy(with, settings)
		if err := s.Do(ctx, http.MethodPost, "/v1/endpoints", nil, with, nil); err != nil {
			return nil, fmt.Errorf("%v: %w", settings, err)
		}
		places = append(places, p)
	}
	for _, family := range families {
		for _, format := range formats {
			for i, k := range kinds {
				p := place{path: fmt.Sprintf("/%s/%s/%d", family, format, i), format: format, kind: k}
				var made struct{ ID string }
				if err := s.Do(ctx, http.MethodPost, "/v1/endpoints", nil, map[string]any{"url": web.URL + p.path, "format": format,
					"secret": k.first, "signature_headers": family, "event_types": []string{publishedType}}, &made); err != nil {
					return nil, fmt.Errorf("%s: %w", k.name, err)
				}
				if k.second != "" {
					if err := s.Do(ctx, http.MethodPost, "/v1/endpoints/"+made.ID+"/rotate-secret", nil,
						map[string]any{"secret": k.second, "overlap": "1h"}, nil); err != nil {
						return nil, fmt.Errorf("%s: %w", k.name, err)
					}
				}
				places = append(places, p)
			}
		}
	}
	var ids []string
	for _, b := range bodies {
		published, err := s.PublishRaw(ctx, client.RawEvent{Type: publishedType, Key: publishedKey, Data: []byte(b.text), ContentType: b.media})
		if err != nil {
			return nil, err
		}
		ids = append(ids, published.ID)
	}
	timer := time.NewTimer(2 * time.Minute)
	defer timer.Stop()
	select {
	case <-v.full:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, errors.New("not all events were delivered")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range places {
		for _, id := range ids {
			c, there := v.got[p.path][id]
			if !there {
				return nil, fmt.Errorf("%s has not got %s", p.path, id)
			}
			if c.Body, err = s.shown(ctx, c); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", p.path, id, err)
			}
			c.Secrets, c.Public, c.Format = append([]string{}, p.kind.hmac...), append([]string{}, p.kind.public...), p.format
			all = append(all, c)
		}
	}
	return all, nil
}

// shown is the body of a request as the server shows it, which is once the answer to the request is
// on record.
func (s *server) shown(ctx context.Context, c capture) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	is, err := s.SentBody(ctx, c.Headers["grapnel-delivery"], 1)
	for problem, absent := errors.AsType[*client.Error](err); absent && problem.Status == http.StatusNotFound; {
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
		is, err = s.SentBody(ctx, c.Headers["grapnel-delivery"], 1)
		problem, absent = errors.AsType[*client.Error](err)
	}
	if err != nil {
		return nil, err
	}
	body := is.BodyBase64
	if is.Body != nil {
		body = []byte(*is.Body)
	}
	if is.Verdict != "signed" || !bytes.Equal(body, c.Body) {
		return nil, fmt.Errorf("shown is %q (%s), sent was %q", body, is.Sentence, c.Body)
	}
	return body, nil
}

// tally counts the checks of one library.
type tally struct {
	Right    int    `json:"right"`
	Unparsed int    `json:"unparsed"` // verified, but its JSON parser failed
	Bytes    int    `json:"bytes"`    // not UTF-8
	Wrong    int    `json:"wrong"`
	Accepted int    `json:"accepted"` // although changed
	Says     string `json:"says"`     // of the first wrong one
}

func (t tally) row() row {
	right := t.Right + t.Unparsed
	r := row{result: fmt.Sprintf("%d of %d", right, right+t.Bytes+t.Wrong), failed: t.Wrong+t.Accepted > 0 || right == 0}
	if t.Bytes > 0 {
		r.result += fmt.Sprintf("; %d not UTF-8", t.Bytes)
	}
	if t.Unparsed > 0 {
		r.result += fmt.Sprintf("; throws at %d", t.Unparsed)
	}
	if t.Accepted > 0 {
		r.result += fmt.Sprintf("; accepted %d that were changed", t.Accepted)
	}
	if t.Says != "" {
		r.result += ": " + t.Says
	}
	return r
}

func (t *tally) count(verify func([]byte, http.Header) error, c capture) {
	h := http.Header{}
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	if err := verify(c.Body, h); err == nil {
		t.Right++
	} else {
		t.Wrong++
		t.Says = cmp.Or(t.Says, err.Error())
	}
	if verify(append([]byte("x"), c.Body...), h) == nil {
		t.Accepted++
	}
	for name := range c.Headers {
		if strings.HasSuffix(name, "-id") {
			h.Set(name, h.Get(name)+"0")
		}
	}
	if verify(c.Body, h) == nil {
		t.Accepted++
	}
}

const (
	goStandard = "github.com/standard-webhooks/standard-webhooks/libraries"
	goSvix     = "github.com/svix/svix-webhooks"
)

// verifyInGo does the same as outgoing.py and outgoing.mjs.
func verifyInGo(captures []capture) map[string]tally {
	tallies := map[string]tally{}
	count := func(name string, c capture, verify func([]byte, http.Header) error, err error) {
		t := tallies[name]
		if err != nil {
			verify = func([]byte, http.Header) error { return err }
		}
		t.count(verify, c)
		tallies[name] = t
	}
	for _, c := range captures {
		family := "webhook-*"
		if c.Headers["svix-id"] != "" {
			family = "svix-*"
		}
		for _, secret := range c.Secrets {
			standard, err := standardwebhooks.NewWebhook(secret)
			count(goStandard+" webhook-*", c, func(body []byte, h http.Header) error { return standard.Verify(body, h) }, err)
			other, err := svix.NewWebhook(secret)
			count(goSvix+" "+family, c, func(body []byte, h http.Header) error { return other.Verify(body, h) }, err)
		}
	}
	return tallies
}
