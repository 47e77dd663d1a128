package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTenantsList(t *testing.T) {
	f := newFake(t, always(200, `{"data":[{"tenant":"acme","publish_rate":{"per_second":5,"burst":9},"max_events_per_day":7,
		"numbers":{"endpoints":{"all":3,"healthy":2,"open":1},"pending":12,"dead_letters":4,"dead_letters_more":true}},
		{"tenant":"globex"}],"next":null}`))
	const want = "TENANT  ENDPOINTS                      PENDING  DEAD  ACTIVE  MAX RATE          MAX PER DAY   MAX PENDING\n" +
		"acme    1 circuit open of 3 endpoints  12       4+            5/s, bursts of 9  7             the server's\n" +
		"globex  no endpoint                    0        0             the server's      the server's  the server's\n"
	if got := invoke(t, f.env(), "", "tenants", "list"); got.code != 0 || got.out != want {
		t.Errorf("%+v", got)
	}
	if d := cmp.Diff([]request{{"GET", "/v1/tenants?limit=50&numbers=true", "", "grp_env"}}, f.seen); d != "" {
		t.Error(d)
	}
}
