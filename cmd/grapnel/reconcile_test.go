package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// hooked is GitHub's API, as far as a webhook's deliveries go: three events, of which one did not
// arrive, and one arrived at its second delivery.
func hooked(t *testing.T) (api *httptest.Server, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	delivery := func(id int, guid, at string, code int) string {
		return fmt.Sprintf(`{"id":%d,"guid":%q,"delivered_at":%q,"redelivery":false,"status":"x","status_code":%d,"event":"push"}`,
			id, guid, at, code)
	}
	api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hub-token" {
			t.Errorf("it came with %q", r.Header.Get("Authorization"))
		}
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		_, _ = fmt.Fprintf(w, "[%s,%s,%s,%s,%s]", delivery(5, "c", "2026-01-02T02:00:00Z", 200), delivery(4, "b", "2026-01-02T01:30:00Z", 502),
			delivery(3, "a", "2026-01-02T01:00:00Z", 200), delivery(2, "a", "2026-01-02T00:30:00Z", 502),
			delivery(1, "old", "2025-12-01T00:00:00Z", 502))
	}))
	t.Cleanup(api.Close)
	return api, asked
}

func TestReconcileFindsWhatDidNotArriveAndAsksForIt(t *testing.T) {
	api, asked := hooked(t)
	srv := newFake(t, always(200, `{"id":"src_1","verify":{"scheme":"github"}}`))
	args := []string{"reconcile", "src_1", "--hook", "repos/acme/shop/hooks/1", "--token", "-", "--api", api.URL, "--since", "2026-01-01T00:00:00Z"}
	got := invoke(t, srv.env(), "hub-token\n", append(args, "-o", "name")...)
	if got.code != 8 || got.out != "b\n" || !strings.Contains(got.errs, "1 of the 3") {
		t.Errorf("exit code %d: %q %s", got.code, got.out, got.errs)
	}
	got = invoke(t, srv.env(), "hub-token\n", append(args, "--resend", "-o", "name")...)
	if got.code != 0 || got.out != "b\n" {
		t.Errorf("exit code %d: %q %s", got.code, got.out, got.errs)
	}
	want := []string{"GET /repos/acme/shop/hooks/1/deliveries", "GET /repos/acme/shop/hooks/1/deliveries", "POST /repos/acme/shop/hooks/1/deliveries/4/attempts"}
	if !slices.Equal(*asked, want) {
		t.Errorf("it asked for %q, want %q", *asked, want)
	}
	for _, r := range srv.seen {
		if strings.Contains(r.Body+r.Target, "hub-token") || r.Key != "grp_env" {
			t.Errorf("the provider's token went to the server: %+v", r)
		}
	}
}

func TestReconcileSaysWhoCannotBeAsked(t *testing.T) {
	srv := newFake(t, always(200, `{"id":"src_1","verify":{"scheme":"shopify"},"provider":{"title":"Shopify","retries":"8 times within 4 hours"}}`))
	if got := invoke(t, srv.env(), "x", "reconcile", "src_1", "--token", "-"); got.code != 2 || !strings.Contains(got.errs, "8 times within 4 hours") {
		t.Errorf("exit code %d: %s", got.code, got.errs)
	}
	srv = newFake(t, always(200, `{"id":"src_1","verify":{"scheme":"github"}}`))
	if got := invoke(t, srv.env(), "x", "reconcile", "src_1", "--token", "-"); got.code != 2 || !strings.Contains(got.errs, "--hook") {
		t.Errorf("exit code %d: %s", got.code, got.errs)
	}
}
