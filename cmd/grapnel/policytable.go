package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/cli"
	"github.com/grapnelhq/grapnel/policy"
)

// policyArgument is the policy that an argument means: a preset by its name, one that the server keeps by its id, or a
// document as JSON, @FILE or -.
func (s *session) policyArgument(ctx context.Context, argument string) (policy.Policy, error) {
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
		return rulesOf(kept.JSON())
	}
	text, err := s.text("the policy", argument)
	if err != nil {
		return policy.Policy{}, err
	}
	if text == argument && !strings.HasPrefix(text, "{") {
		f := cli.Usagef("%q is not the name of a preset", argument)
		f.Next = "Give one of them (grapnel policies list), the id of a policy, or a policy as JSON or @FILE."
		return policy.Policy{}, f
	}
	return rulesOf(json.RawMessage(text))
}

// rulesOf reads a policy, also in the form in which the API shows it, which is with fields that say whose it is.
func rulesOf(doc json.RawMessage) (policy.Policy, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc, &fields) == nil {
		for _, name := range []string{"id", "tenant", "preset", "created_at", "updated_at"} {
			delete(fields, name)
		}
		doc = cli.Encode(fields)
	}
	p, err := policy.Parse(doc)
	return p, fieldErrors("the policy", err)
}

// fieldErrors makes an error of policy's own kind one that names the fields and exits as what it is.
func fieldErrors(what string, err error) error {
	var wrong policy.Errors
	if !errors.As(err, &wrong) {
		return err
	}
	fields := make([]grapnel.Field, len(wrong))
	for i, e := range wrong {
		fields[i] = grapnel.Field(e)
	}
	return &grapnel.Error{Code: grapnel.CodeInvalid, Detail: what + " cannot be used", Fields: fields}
}

// reaches says how often and how long a policy tries; nothing for one that this version cannot read.
func reaches(doc json.RawMessage) (attempts, span string) {
	p, err := rulesOf(doc)
	if err != nil {
		return "", ""
	}
	r := p.Reach()
	return attemptsOf(r), policy.Duration(r.Nominal).String()
}

func attemptsOf(r policy.Reach) string {
	if r.Attempts == 0 {
		return "no limit"
	}
	return strconv.Itoa(r.Attempts)
}

// mostRows is how many rows of a schedule a person is shown.
const mostRows = 40

// policyParts is a policy for people: what it says, and when it attempts.
func policyParts(doc json.RawMessage) ([][]string, cli.Part) {
	p, err := rulesOf(doc)
	if err != nil {
		return [][]string{{"policy", compact(doc)}}, cli.Part{}
	}
	return policyForm(&p), policyTable(&p)
}

func policyForm(p *policy.Policy) [][]string {
	r := p.Reach()
	return [][]string{
		{"name", p.Name},
		{"attempts", attemptsOf(r)},
		{"reaches", policy.Duration(r.Nominal).String() + ", at most " + policy.Duration(r.Longest).String()},
		{"timeout", p.Timeout.String()},
		{"jitter", p.Jitter.String()},
		{"success", strings.Join(p.Success, ", ")},
		{"classify", compact(cli.Encode(p.Classify))},
		{"retry after", string(p.RetryAfter)},
		{"exhausted", string(p.OnExhausted) + ", then " + string(p.Then)},
	}
}

// policyTable says when attempts are made if each of them fails at once, without jitter.
func policyTable(p *policy.Policy) cli.Part {
	r := p.Reach()
	table := cli.Part{Title: "If every attempt fails", Head: []string{"ATTEMPT", "WAIT", "SINCE THE FIRST"}}
	previous := time.Duration(0)
	for i, at := range r.Table[:min(len(r.Table), mostRows)] {
		table.Rows = append(table.Rows, []string{strconv.Itoa(i + 1), policy.Duration(at - previous).String(), policy.Duration(at).String()})
		previous = at
	}
	if more := cmp.Or(r.Attempts, len(r.Table)) - mostRows; more > 0 {
		table.Rows = append(table.Rows, []string{"…", fmt.Sprintf("%d more", more)})
	}
	return table
}
