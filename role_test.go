package grapnel_test

import (
	"os"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestTheSignInPageListsTheRoles: docs/sign-in.md has the rows of the table, each with its scopes.
func TestTheSignInPageListsTheRoles(t *testing.T) {
	page, err := os.ReadFile("docs/sign-in.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range grapnel.Roles() {
		var scopes []string
		for _, s := range r.Scopes {
			scopes = append(scopes, "`"+string(s)+"`")
		}
		row := "| " + string(r.Role) + " | " + r.About + " | " + strings.Join(scopes, " ") + " |\n"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/sign-in.md lacks the row\n%s", row)
		}
	}
}

// TestRolesRise: each role may do whatever the one before it may, and only the first sees no
// payloads.
func TestRolesRise(t *testing.T) {
	all := grapnel.Roles()
	for i, r := range all {
		if got, known := grapnel.RightsOf(r.Role); !known || got.About != r.About {
			t.Errorf("%s is not found", r.Role)
		}
		if grapnel.May(r.Scopes, grapnel.ScopePayloadRead) != (i > 0) {
			t.Errorf("%s and payloads", r.Role)
		}
		for _, s := range all[max(0, i-1)].Scopes {
			if !grapnel.May(r.Scopes, s) {
				t.Errorf("%s lacks %s of the role before it", r.Role, s)
			}
		}
	}
	if _, known := grapnel.RightsOf("root"); known {
		t.Error("an unknown role has rights")
	}
}
