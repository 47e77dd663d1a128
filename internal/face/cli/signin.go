package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
)

// RoleRules is a flag for the roles of people: "group=ops,tenant=acme,role=operator". Given again,
// it adds. Each rule ends with its role, so one text can hold several, as in a variable or a list
// of the config file.
type RoleRules []oidc.Rule

const roleRule = "group=ops,tenant=acme,role=operator"

// Set reads the text form.
func (all *RoleRules) Set(text string) error {
	var rule oidc.Rule
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return fmt.Errorf("%s is given twice; a rule ends with its role", name)
		}
		seen[name] = true
		switch {
		case name == "group" && value != "":
			rule.Group = value
		case name == "email" && strings.Count(value, "@") == 1:
			rule.Email = value
		case name == "domain" && value != "" && !strings.Contains(value, "@"):
			rule.Domain = value
		case name == "anyone" && value == "yes":
			rule.Anyone = true
		case name == "tenant" && (value == oidc.AllTenants || grapnel.BindsTenant(value)):
			rule.Tenant = value
		case name == "payloads" && (value == "show" || value == "hide"):
			rule.Payloads = value == "show"
		case name == "role":
			if err := all.end(rule, grapnel.Role(value)); err != nil {
				return err
			}
			rule = oidc.Rule{}
			clear(seen)
		default:
			return fmt.Errorf("%q is not a part of a rule such as %s", part, roleRule)
		}
	}
	if len(seen) > 0 {
		return fmt.Errorf("a rule ends with its role: role=viewer")
	}
	return nil
}

// end adds a rule that has all its parts.
func (all *RoleRules) end(rule oidc.Rule, role grapnel.Role) error {
	if _, known := grapnel.RightsOf(role); !known {
		var names []string
		for _, r := range grapnel.Roles() {
			names = append(names, string(r.Role))
		}
		return fmt.Errorf("%q is not a role; use %s", string(role), strings.Join(names, ", "))
	}
	narrow := rule.Group != "" || rule.Email != "" || rule.Domain != ""
	if narrow == rule.Anyone {
		return fmt.Errorf("a rule needs a condition: group=, email=, domain=, or else anyone=yes")
	}
	rule.Role = role
	*all = append(*all, rule)
	return nil
}

func (all *RoleRules) String() string {
	var parts []string
	for _, r := range *all {
		for _, part := range [][2]string{{"group", r.Group}, {"email", r.Email}, {"domain", r.Domain}, {"anyone", map[bool]string{true: "yes"}[r.Anyone]}, {"tenant", r.Tenant}} {
			if part[1] != "" {
				parts = append(parts, part[0]+"="+part[1])
			}
		}
		if r.Payloads {
			parts = append(parts, "payloads=show")
		}
		parts = append(parts, "role="+string(r.Role))
	}
	return strings.Join(parts, ",")
}

// Type names the kind of value in help texts.
func (*RoleRules) Type() string { return "rule" }

// Words is a flag for several words, separated by commas or spaces.
type Words []string

// Set reads the text form. It replaces the default.
func (w *Words) Set(text string) error {
	found := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
	if len(found) == 0 {
		return fmt.Errorf("the list is empty")
	}
	*w = slices.Clone(found)
	return nil
}

func (w *Words) String() string { return strings.Join(*w, ",") }

// Type names the kind of value in help texts.
func (*Words) Type() string { return "words" }
