package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTenantsList(t *testing.T) {
	f := newFake(t, always(200, `{"data":[{"tenant":"acme"},{"tenant":"globex"}],"next":null}`))
	if got := invoke(t, f.env(), "", "tenants", "list"); got.code != 0 || got.out != "TENANT\nacme\nglobex\n" {
		t.Errorf("%+v", got)
	}
	if d := cmp.Diff([]request{{"GET", "/v1/tenants?limit=50", "", "grp_env"}}, f.seen); d != "" {
		t.Error(d)
	}
}
