package torture

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tampered changes one part of a request after it was signed.
func tampered(ctx context.Context, t *trial) {
	e := t.forged(plain{label: "body changed"})
	signed, err := t.Scheme.Sign(e.ID, t.now(), e.header, e.body, t.Secret)
	if err != nil {
		t.stop(err)
		return
	}
	t.send(ctx, e, request{label: "body changed", forged: true, allowed: no, body: altered(e.body),
		change: func(h http.Header) {
			for name, values := range signed {
				h[name] = values
			}
		}})
	if t.Scheme.SignsID {
		e := t.forged(plain{label: "id changed"})
		t.send(ctx, e, request{label: "id changed", forged: true, allowed: no, change: func(h http.Header) {
			Replaced(h, e.ID, e.ID+"x")
			e.ID += "x" // its effects are looked for there
		}})
	}
	if t.Scheme.Timed {
		e := t.forged(plain{label: "time changed"})
		t.send(ctx, e, request{label: "time changed", forged: true, allowed: no, change: func(h http.Header) {
			at := t.now().Unix()
			for range 2 { // the second may have passed since it was signed
				if Replaced(h, strconv.FormatInt(at, 10), strconv.FormatInt(at-30, 10)) {
					return
				}
				at--
			}
			t.unjudged("the headers have no time in unix seconds")
		}})
	}
	t.settle(ctx)
}

// aside is farther from now than any receiver should tolerate.
const aside = 10 * time.Minute

func staleTime(ctx context.Context, t *trial) {
	if !t.Scheme.Timed {
		t.unjudged("the profile %s signs no time", t.Scheme.Name)
		return
	}
	for _, late := range []time.Duration{-aside, aside} {
		label := "signed " + map[bool]string{true: "10 minutes ago", false: "in 10 minutes"}[late < 0]
		t.send(ctx, t.forged(plain{label: label}), request{label: label, forged: true, allowed: no, late: late})
	}
	t.settle(ctx)
}

// rotation: signatures of a secret that the receiver does not have count for nothing, beside one
// that it has and alone.
func rotation(ctx context.Context, t *trial) {
	foreign := t.Scheme.Secret()
	set := func(value string) func(http.Header) { return func(h http.Header) { h.Set(t.Scheme.Signature, value) } }
	refused := []request{
		{label: "no signature", change: func(h http.Header) { h.Del(t.Scheme.Signature) }},
		{label: "empty signature", change: set("")},
		{label: "signed by another secret", secrets: []string{foreign}},
	}
	if t.Scheme.Several {
		refused = append(refused, request{label: "signature of an unknown version", change: func(h http.Header) {
			_, value, _ := strings.Cut(h.Get(t.Scheme.Signature), ",")
			h.Set(t.Scheme.Signature, "v9,"+value)
		}}, request{label: "signature of the right version and no content", change: set("v1,")})
	}
	for _, q := range refused {
		q.forged, q.allowed = true, no
		t.send(ctx, t.forged(plain{label: q.label}), q)
	}
	if t.Scheme.Several {
		label := "second of two signatures is good"
		t.send(ctx, t.event(plain{label: label}), request{label: label, secrets: []string{foreign, t.Secret}})
		label = "an unknown version beside a good signature"
		t.send(ctx, t.event(plain{label: label}), request{label: label, change: func(h http.Header) {
			h.Set(t.Scheme.Signature, "v9,"+base64.StdEncoding.EncodeToString([]byte("later"))+" "+h.Get(t.Scheme.Signature))
		}})
	}
	t.settle(ctx)
}

// forgedFirst: the forged request has the id of the genuine one, which comes after it.
func forgedFirst(ctx context.Context, t *trial) {
	e := t.event(plain{version: 1})
	t.send(ctx, e, request{label: "forged", forged: true, allowed: no, body: altered(e.body), secrets: []string{t.Scheme.Secret()}})
	t.send(ctx, e, request{label: "genuine"})
	t.settle(ctx, &State{Key: e.Key, Field: "amount", Want: "500", extra: true})
}
