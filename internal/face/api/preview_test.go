package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// TestPreview: it says of each endpoint whether it would get the event and why, a receiver accepts
// its signature, and nothing is stored.
func TestPreview(t *testing.T) {
	w := newWorld(t)
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	all := w.endpoint(admin, `,"secret":"`+secret+`","headers":{"X-Own":"{event.type}"}`)
	other := w.endpoint(admin, `,"event_types":["b.*"]`)
	filtered := w.endpoint(admin, `,"filter":"event.data.n > 5"`)
	paused := w.endpoint(admin, `,"status":"paused"`)
	before := len(w.all("/v1/events", 500))
	got := w.must(200, "POST", "/v1/events/preview?endpoint="+all, `{"type":"a","key":"k","data":{"n":1.00}}`)
	for id, want := range map[string]struct {
		wanted bool
		reason string
	}{
		all: {true, "It wants every type."}, other: {false, "It wants b.*."}, filtered: {false, "The filter is false."}, paused: {true, "It is paused, so the delivery is held."},
	} {
		found := false
		for _, one := range got["endpoints"].([]any) {
			e := one.(map[string]any)
			if e["id"] == id {
				found = true
				if e["wanted"] != want.wanted || !strings.Contains(e["reason"].(string), want.reason) {
					t.Errorf("%s: %v, want %v", id, e, want)
				}
			}
		}
		if !found {
			t.Errorf("%s is not in the answer", id)
		}
	}
	rq := got["request"].(map[string]any)
	headers, body := rq["headers"].(map[string]any), rq["body"].(string)
	if !strings.Contains(body, `"data":{"n":1.00}`) || headers["x-own"] != "a" {
		t.Errorf("the request is %v", rq)
	}
	verifier, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}, Now: func() time.Time { return w.clock }})
	if err != nil {
		t.Fatal(err)
	}
	header := map[string][]string{}
	for name, value := range headers {
		header[http.CanonicalHeaderKey(name)] = []string{value.(string)}
	}
	if _, err := verifier.Verify(header, []byte(body)); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if strings.Contains(fmt.Sprint(got), secret) {
		t.Error("the answer has the secret")
	}
	if after := len(w.all("/v1/events", 500)); after != before {
		t.Errorf("%d events were stored", after-before)
	}
}
