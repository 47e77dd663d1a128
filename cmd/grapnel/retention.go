package main

import (
	"fmt"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// keepRules is a flag for how long deliveries of a tenant or type are kept: "tenant=acme,type=invoice.*,for=90d". Given again, it adds to
// what was given. Each rule ends with its for, so several can stand in one text, as in a variable or a list of the config file.
type keepRules []store.KeepRule

// Set reads the text form.
func (k *keepRules) Set(text string) error {
	var rule store.KeepRule
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return fmt.Errorf("%s is there twice; a rule ends with its for", name)
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
			return fmt.Errorf("%q is no part of a rule such as tenant=acme,type=invoice.*,for=90d", part)
		}
	}
	if len(seen) > 0 {
		return fmt.Errorf("a rule ends with how long it keeps: for=90d")
	}
	return nil
}

func (k *keepRules) String() string {
	var parts []string
	for _, r := range *k {
		if r.Tenant != "" {
			parts = append(parts, "tenant="+r.Tenant)
		}
		if r.Type != "" {
			parts = append(parts, "type="+r.Type)
		}
		parts = append(parts, "for="+r.For.String())
	}
	return strings.Join(parts, ",")
}

// Type names the kind of value in help texts.
func (*keepRules) Type() string { return "rule" }
