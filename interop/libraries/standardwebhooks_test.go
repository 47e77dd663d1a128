package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/grapnelhq/grapnel/sign"
)

// message is one signed request; its fields take many shapes in the tests below.
type message struct {
	id     string
	body   []byte
	secret string
}

func messages(t *testing.T) []message {
	t.Helper()
	bodies := [][]byte{
		{}, []byte(`{}`), []byte(`{"test": 2432232314}`), []byte("1.2.3"), []byte("."), []byte("\x00\xff\r\n "), []byte("ünïcode"),
		make([]byte, 256<<10),
	}
	var all []message
	for _, body := range bodies {
		for _, n := range []int{24, 32, 64} {
			raw := make([]byte, n)
			if _, err := rand.Read(raw); err != nil {
				t.Fatal(err)
			}
			all = append(all, message{"evt_0123456789abcdefghjkmnpqrs", body, "whsec_" + base64.StdEncoding.EncodeToString(raw)})
		}
	}
	return all
}

func carry(id string, at time.Time, signature string) http.Header {
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("webhook-signature", signature)
	return h
}

func TestTheOfficialLibraryVerifiesWhatWeSign(t *testing.T) {
	for _, m := range messages(t) {
		now := time.Now()
		old, err := sign.NewSecret(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := sign.Sign(m.id, now, m.body, old, m.secret) // as during a rotation
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{m.secret, old} {
			official, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			if err := official.Verify(m.body, carry(m.id, now, signature)); err != nil {
				t.Errorf("body of %d bytes: %v", len(m.body), err)
			}
			if err := official.Verify(append([]byte("x"), m.body...), carry(m.id, now, signature)); err == nil {
				t.Error("the oracle accepts everything")
			}
		}
	}
}

func TestWeVerifyWhatTheOfficialLibrarySigns(t *testing.T) {
	for _, m := range messages(t) {
		now := time.Now()
		official, err := standardwebhooks.NewWebhook(m.secret)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := official.Sign(m.id, now, m.body)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := sign.Sign(m.id, now, m.body, m.secret)
		if err != nil || ours != signature {
			t.Errorf("we sign %s, the library %s (%v)", ours, signature, err)
		}
		v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{m.secret}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(carry(m.id, now, signature), m.body); err != nil {
			t.Errorf("body of %d bytes: %v", len(m.body), err)
		}
		if _, err := v.Verify(carry(m.id, now, signature), append([]byte("x"), m.body...)); !errors.Is(err, sign.ErrNoMatch) {
			t.Errorf("another body: %v", err)
		}
	}
}

// TestWhereWeAreStricter lists requests that the library accepts and Grapnel refuses, so that every
// difference is intended.
func TestWhereWeAreStricter(t *testing.T) {
	now := time.Now()
	secret, err := sign.NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	official, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(http.Header){
		"another spelling of the timestamp": func(h http.Header) { h.Set("webhook-timestamp", "+0"+h.Get("webhook-timestamp")) },
		"a second timestamp":                func(h http.Header) { h.Add("webhook-timestamp", "1") },
		"an eleventh signature": func(h http.Header) {
			for range 10 {
				h.Set("webhook-signature", h.Get("webhook-signature")+" v1,AAAA")
			}
		},
	} {
		signature, err := official.Sign("evt_1", now, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := carry("evt_1", now, signature)
		change(h)
		if err := official.Verify(nil, h); err != nil {
			t.Errorf("%s: the library refuses it as well: %v", name, err)
		}
		if _, err := v.Verify(h, nil); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
