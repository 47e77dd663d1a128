package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel/internal/store"
)

func TestRetentionRules(t *testing.T) {
	acme := store.KeepRule{Tenant: "acme", Type: "invoice.*", For: 2160 * time.Hour}
	audit := store.KeepRule{Type: "audit.*", For: 87600 * time.Hour}
	for _, c := range []struct {
		given []string
		want  KeepRules
	}{
		{[]string{"tenant=acme,type=invoice.*,for=2160h", "type=audit.*,for=87600h"}, KeepRules{acme, audit}},
		// as a variable, or a list of the file
		{[]string{"tenant=acme,type=invoice.*,for=2160h, type=audit.*,for=87600h"}, KeepRules{acme, audit}},
		{[]string{"for=1h"}, KeepRules{{For: time.Hour}}},
	} {
		var got KeepRules
		for _, text := range c.given {
			if err := got.Set(text); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: %s", c.given, diff)
		}
		var again KeepRules
		if err := again.Set(got.String()); err != nil || cmp.Diff(got, again) != "" {
			t.Errorf("%q is shown as %q, which is not the same", c.given, got.String())
		}
	}
	for _, text := range []string{"", "for", "for=", "for=0s", "for=-1h", "for=2160", "tenant=acme", "type=invoice.*", "for=1h,tenant=acme", "tenant=a,tenant=b,for=1h",
		"kind=x,for=1h", "type=invoice..x,for=1h", "tenant=,for=1h", "type=,for=1h"} {
		var got KeepRules
		if err := got.Set(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}
