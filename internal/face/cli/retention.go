package cli

import (
	"fmt"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// KeepRules is a flag for the retention of a tenant's or type's deliveries:
// "tenant=acme,type=invoice.*,for=90d". Given again, it adds. Each rule ends with its for, so one
// text can hold several, as in a variable or a list of the config file.
type KeepRules []store.KeepRule

// Set reads the text form.
func (k *KeepRules) Set(text string) error {
	var rule store.KeepRule
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return fmt.Errorf("%s is given twice; a rule ends with its for", name)
		}
		seen[name] = true
		switch {
		case name == "tenant" && grapnel.ValidTenant(value):
			rule.Tenant = value
		case name == "type" && grapnel.ValidPattern(value):
			rule.Type = value
		case name == "for":
			d, err := policy.ParseDuration(value)
			if err != nil || d <= 0 {
				return fmt.Errorf("for takes a duration such as 90d")
			}
			rule.For = d
			*k = append(*k, rule)
			rule = store.KeepRule{}
			clear(seen)
		default:
			return fmt.Errorf("%q is not a part of a rule such as tenant=acme,type=invoice.*,for=90d", part)
		}
	}
	if len(seen) > 0 {
		return fmt.Errorf("a rule ends with its duration: for=90d")
	}
	return nil
}

func (k *KeepRules) String() string {
	var parts []string
	for _, r := range *k {
		if r.Tenant != "" {
			parts = append(parts, "tenant="+r.Tenant)
		}
		if r.Type != "" {
			parts = append(parts, "type="+r.Type)
		}
		parts = append(parts, "for="+policy.Duration(r.For).String())
	}
	return strings.Join(parts, ",")
}

// Type names the kind of value in help texts.
func (*KeepRules) Type() string { return "rule" }
