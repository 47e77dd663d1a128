package receive_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/receive"
)

// TestAChallengeIsAnswered: a verified request for consent gets its token back, without the
// handler; one that is not verified gets nothing, and an event that only mentions the type is an
// event.
func TestAChallengeIsAnswered(t *testing.T) {
	k, _ := kit(t, receive.Options{})
	ran := 0
	h := k.Claim(func(context.Context, *receive.Delivery) error { ran++; return nil })
	const asks = `{"id":"evt_1","type":"webhook_endpoint.consent","data":{"challenge":"t0ken","endpoint_id":"ep_1"}}`
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t, "evt_1", asks))
	if w.Code != 200 || w.Body.String() != `{"challenge":"t0ken"}` || ran != 0 {
		t.Errorf("%d %s, and the handler ran %d times", w.Code, w.Body, ran)
	}
	forged := request(t, "evt_1", asks)
	forged.Header.Set("webhook-signature", "v1,AAAA")
	w = httptest.NewRecorder()
	h.ServeHTTP(w, forged)
	if w.Code != 401 || strings.Contains(w.Body.String(), "t0ken") {
		t.Errorf("a forged request: %d %s", w.Code, w.Body)
	}
	want(t, h, request(t, "evt_2", `{"type":"note","data":{"text":"webhook_endpoint.consent","challenge":"t0ken"}}`), receive.Processed)
	if ran != 1 {
		t.Errorf("the handler ran %d times", ran)
	}
}
