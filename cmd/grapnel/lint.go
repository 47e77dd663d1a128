package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/policy"
)

func policiesLint(s *session) *cobra.Command {
	var promise promises
	var claimsFile string
	c := &cobra.Command{
		Use: "lint [NAME|POLICY|@FILE|-|JSON]", Short: "Find contradictions between a policy and what its users are told",
		Long: "Print when a policy attempts, and find contradictions in the policy, and between it and what its users are told. " +
			"With --claims and no policy, find the contradictions in a document. Exits with 8 when it finds some.",
		Example: "grapnel policies lint @ours.json --says-attempts 8 --says-window 36h\n" +
			"grapnel policies lint standard --dedupe-window 72h\n" +
			"grapnel policies lint --claims @document.json",
		RunE: s.withPrinter(func(ctx context.Context, p *cli.Printer, args []string) error {
			result, parts, err := lint(ctx, s, args, claimsFile, promise)
			if err != nil {
				return err
			}
			n := len(result.Findings)
			var head []string
			if n > 0 {
				head = []string{"CODE", "WHAT", "HERE"}
			}
			view := list(cli.Encode(result), head, result.Findings, func(f *policy.Finding) []string {
				return []string{f.Code, f.Rule, f.Detail}
			})
			view.Parts[0].Title = fmt.Sprintf("Findings: %d", n)
			view.Parts = append(parts, view.Parts...)
			return cmp.Or(p.Print(view), cli.Findings("%d problems found", n).If(n > 0))
		}),
	}
	f := c.Flags()
	f.StringVar(&claimsFile, "claims", "", "claims of a document, as JSON, @FILE or -")
	f.IntVar(&promise.attempts, "says-attempts", 0, "number of attempts that users are told")
	cli.DurationVar(f, &promise.window, "says-window", 0, "time span of the attempts that users are told")
	cli.DurationVar(f, &promise.dedupe, "dedupe-window", 0, "how long receivers remember events")
	cli.DurationVar(f, &promise.kept, "dead-letters-kept", 0, "how long dead letters are retained, from acceptance on")
	return c
}

// promises are the figures that users are told about a policy.
type promises struct {
	attempts             int
	window, dedupe, kept time.Duration
}

// linted is the result of lint, for programs.
type linted struct {
	Policy   string            `json:"policy,omitempty"`
	Attempts int               `json:"attempts,omitempty"`
	Reaches  policy.Duration   `json:"reaches,omitempty"`
	Longest  policy.Duration   `json:"longest,omitempty"`
	Table    []policy.Duration `json:"table,omitempty"` // since the first attempt
	Findings []policy.Finding  `json:"findings"`
}

func lint(ctx context.Context, s *session, args []string, claimsFile string, promise promises) (linted, []cli.Part, error) {
	result := linted{Findings: []policy.Finding{}}
	var parts []cli.Part
	switch {
	case len(args) == 1:
		p, err := policyArgument(ctx, s, args[0])
		if err != nil {
			return result, nil, err
		}
		r := p.Reach()
		result.Policy, result.Attempts = p.Name, r.Attempts
		result.Reaches, result.Longest = policy.Duration(r.Nominal), policy.Duration(r.Longest)
		for _, at := range r.Table {
			result.Table = append(result.Table, policy.Duration(at))
		}
		parts = []cli.Part{{Rows: cli.PolicyForm(&p)}, cli.PolicyTable(&p)}
		result.Findings = append(result.Findings, policy.Lint(promise.added(p.Claims()))...)
	case claimsFile == "":
		return result, nil, cli.Usagef("nothing to check: give a policy, or the claims of a document with --claims")
	}
	if claimsFile != "" {
		doc, err := s.Content("--claims", claimsFile)
		if err != nil {
			return result, nil, err
		}
		claims, err := policy.ParseClaims(doc)
		if err != nil {
			return result, nil, cli.Usagef("--claims: %v", err)
		}
		result.Findings = append(result.Findings, policy.Lint(claims)...)
	}
	return result, parts, nil
}

// added puts the figures that users are told beside those of the policy.
func (p promises) added(c policy.Claims) policy.Claims {
	if p.attempts > 0 {
		c.Schedule.Attempts = p.attempts
	}
	if p.window > 0 {
		c.Schedule.Window = policy.Duration(p.window)
	}
	if p.dedupe > 0 {
		c.Receive = append(c.Receive, policy.ReceiveClaims{Name: "receivers", Window: policy.Duration(p.dedupe)})
	}
	if p.kept > 0 {
		c.Keeping = policy.KeepingClaims{DeadLetters: policy.Duration(p.kept), From: "dispatch"}
	}
	return c
}

// policyArgument is the policy that an argument gives: a preset's name, the id of a saved policy,
// or a policy as JSON, @FILE or -.
func policyArgument(ctx context.Context, s *session, argument string) (policy.Policy, error) {
	if p, ok := policy.Preset(argument); ok {
		return p, nil
	}
	if strings.HasPrefix(argument, "pol_") {
		r, err := s.reader()
		if err != nil {
			return policy.Policy{}, err
		}
		kept, err := r.Policy(ctx, argument)
		if err != nil {
			return policy.Policy{}, err
		}
		return cli.ReadPolicy(kept.JSON())
	}
	text, err := s.Text("the policy", argument)
	if err != nil {
		return policy.Policy{}, err
	}
	if text == argument && !strings.HasPrefix(text, "{") {
		return policy.Policy{}, cli.Usagef("%q is not the name of a preset", argument).
			Advise("Give one of them (grapnel policies list), the id of a policy, or a policy as JSON or @FILE.")
	}
	return cli.ParsePolicy(json.RawMessage(text))
}
