package api

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
)

// TestRefusalsWaitBeyondTheirRate: one tenant's refused requests are answered at once up to the
// burst, and one more in each pause; the others wait. Accepted requests of that tenant do not wait,
// nor does anything of another tenant, and the tenant's rate is whole again as time passes.
func TestRefusalsWaitBeyondTheirRate(t *testing.T) {
	const burst, pause, wait = 5, 10 * time.Millisecond, 700 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		refusing := &taker{refused: &ingress.Refusal{Status: 401, Code: ingress.CodeUnverified}}
		w := newWorld(t, func(o *Options) {
			o.Clock, o.Ingest = time.Now, refusing
			o.Bounds.RefusalBurst, o.Bounds.RefusalPause, o.Bounds.RefusalWait = burst, pause, wait
		})
		acme, other := scoped(grapnel.ScopePublish)+"_acme", scoped(grapnel.ScopePublish)
		took := func(want int, key, path, body string) time.Duration {
			began := time.Now()
			if got := w.ask(key, "POST", path, body); got.StatusCode != want {
				t.Errorf("POST %s is answered %d, want %d", path, got.StatusCode, want)
			}
			return time.Since(began)
		}
		for _, c := range []struct {
			name, key, path string
			status          int
		}{
			{"a tenant's invalid request", acme, "/v1/events", 422},
			{"a request without a key", "", "/v1/events", 401},
			{"a source's unverified request", "", "/in/src_one", 401},
			{"another source's", "", "/in/src_two", 401},
		} {
			at := 0
			for took(c.status, c.key, c.path, `{"data":{}}`) == 0 {
				if at++; at > 2*burst {
					t.Fatalf("%s never waits", c.name)
				}
			}
			if at != burst+1 {
				t.Errorf("%s: %d are answered at once, want the burst of %d and the one that ends it", c.name, at, burst)
			}
		}
		// Each of the four has waited once since the first one's debt began, so the first one's is paid.
		for range burst + 1 {
			took(422, acme, "/v1/events", `{"data":{}}`)
		}
		if d := took(422, acme, "/v1/events", `{"data":{}}`); d != wait {
			t.Errorf("beyond the rate a refusal waits %s, want %s", d, wait)
		}
		for range burst + 1 {
			took(422, acme, "/v1/events", `{"data":{}}`)
		}
		if d := took(202, acme, "/v1/events", `{"type":"a.b","data":{}}`); d != 0 {
			t.Errorf("an accepted request of the tenant waits %s", d)
		}
		if d := took(422, other, "/v1/events", `{"data":{}}`); d != 0 {
			t.Errorf("another tenant's refusal waits %s", d)
		}
		refusing.refused = &ingress.Refusal{Status: 404, Code: grapnel.CodeNotFound}
		waits := 0
		for range 20 * burst { // each under another id: they are one caller's all the same
			if took(404, "", "/in/"+grapnel.NewID("src", time.Now(), w.options.Random), `{}`) > 0 {
				waits++
			}
		}
		if waits == 0 {
			t.Error("ids that no source has never wait")
		}
	})
}
