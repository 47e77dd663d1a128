package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTenantsList(t *testing.T) {
	f := newFake(t, always(200, `{"data":[{"tenant":"acme","publish_rate":{"per_second":5,"burst":9},"max_events_per_day":7},{"tenant":"globex"}],"next":null}`))
	if got := invoke(t, f.env(), "", "tenants", "list"); got.code != 0 || got.out != "TENANT  RATE              PER DAY       PENDING\n"+
		"acme    5/s, bursts of 9  7             the server's\n"+"globex  the server's      the server's  the server's\n" {
		t.Errorf("%+v", got)
	}
	if d := cmp.Diff([]request{{"GET", "/v1/tenants?limit=50", "", "grp_env"}}, f.seen); d != "" {
		t.Error(d)
	}
}
