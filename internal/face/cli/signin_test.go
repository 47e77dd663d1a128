package cli

import (
	"reflect"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
)

func TestRoleRules(t *testing.T) {
	var all RoleRules
	const text = "group=cn=ops,tenant=acme,role=operator,domain=example.com,payloads=show,role=viewer"
	for _, part := range []string{text, "anyone=yes,tenant=*,role=viewer"} {
		if err := all.Set(part); err != nil {
			t.Fatal(err)
		}
	}
	want := RoleRules{
		{Group: "cn=ops", Tenant: "acme", Role: grapnel.RoleOperator},
		{Domain: "example.com", Payloads: true, Role: grapnel.RoleViewer},
		{Anyone: true, Tenant: oidc.AllTenants, Role: grapnel.RoleViewer},
	}
	if !reflect.DeepEqual(all, want) || all.String() != text+",anyone=yes,tenant=*,role=viewer" {
		t.Errorf("%+v\n%s", all, all.String())
	}
	for _, wrong := range []string{"", "role=viewer", "group=ops", "group=,role=viewer", "group=ops,role=root", "anyone=yes,group=ops,role=viewer",
		"anyone=true,role=viewer", "group=a,group=b,role=viewer", "email=example.com,role=viewer", "domain=@example.com,role=viewer",
		"tenant=a b,group=ops,role=viewer", "payloads=maybe,group=ops,role=viewer", "groups=ops,role=viewer"} {
		if err := new(RoleRules).Set(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
