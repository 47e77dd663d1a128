package web

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// TestRetryOfASearch: all that match a search for pending deliveries are retried by one order;
// a search that takes finished ones too is not.
func TestRetryOfASearch(t *testing.T) {
	for q, whole := range map[string]bool{"status:held key:k1": true, "status:pending,held": true, "status:held,failed": false} {
		api := &watched{}
		s := newSite(t, func(o *Options) { api.Handler = o.API; o.API = api })
		s.signIn()
		form := url.Values{"token": {s.token("/deliveries")}, "all": {"1"}, "q": {q}, "back": {"/deliveries"}}
		api.all = nil
		w := s.ask("POST", "/deliveries/retry", form)
		ordered := slices.ContainsFunc(api.all, func(one seen) bool { return one.path == "/v1/deliveries/retry" })
		if w.Code != http.StatusSeeOther || ordered != whole {
			t.Errorf("%s: answered %d, asked %+v", q, w.Code, api.all)
		}
	}
}
