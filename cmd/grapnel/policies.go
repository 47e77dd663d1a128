package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

var policies = resource[client.Policy]{
	path: "/v1/policies", plural: "policies", id: "POLICY", document: true,
	settings: cli.PolicySettings, filters: cli.OnlyTenant,
	head: []string{"NAME", "ID", "TENANT", "ATTEMPTS", "REACHES", "MADE FROM"},
	row: func(_ reader, p *client.Policy) []string {
		attempts, reach := cli.Reach(p.JSON())
		return []string{p.Name, p.ID, p.Tenant, attempts, reach, madeFrom(p)}
	},
	view: func(_ reader, p *client.Policy) cli.View {
		rules, table := policyParts(p.JSON())
		return object(p.Name, p.JSON(), append(rules, []string{"made from", madeFrom(p)}, []string{"tenant", p.Tenant}), table)
	},
	created: func(_ reader, p *client.Policy) cli.View {
		rules, table := policyParts(p.JSON())
		return object(p.ID, p.JSON(), append(append([][]string{{"id", p.ID}}, rules...), []string{"made from", madeFrom(p)}), table)
	},
	verbs: []verb{
		{"list", "List presets and saved policies", ""},
		{"get", "Show a policy and when it attempts", "grapnel policies get standard"},
		{"create", "Save a named policy", "grapnel policies create --name patient @patient.json"},
		{"update", "Change a saved policy: the fields of the document replace its own",
			"grapnel policies update pol_… '{\"max_attempts\":12}'"},
		{"delete", "Delete saved policies that no endpoint uses", ""},
	},
}

func (s *session) policiesCommand() *cobra.Command {
	return group("policies", "Look at policies, check and save them", append(policies.commands(s), policiesLint(s))...)
}

// madeFrom is the base of a saved policy, and the fields in which it differs.
func madeFrom(p *client.Policy) string {
	if p.ID == "" {
		return ""
	}
	return words.Base(p.Preset, p.Changes)
}

// policyParts is a policy for people: its rules, and when it attempts.
func policyParts(doc json.RawMessage) ([][]string, cli.Part) {
	p, err := cli.ReadPolicy(doc)
	if err != nil {
		return [][]string{{"policy", cli.Compact(doc)}}, cli.Part{}
	}
	return cli.PolicyForm(&p), cli.PolicyTable(&p)
}
