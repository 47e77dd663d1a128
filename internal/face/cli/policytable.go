package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

// ReadPolicy reads a policy as the API answers it: with every field, and with a base that may be
// known to the server alone.
func ReadPolicy(doc json.RawMessage) (policy.Policy, error) {
	var p policy.Policy
	err := json.Unmarshal(rulesOf(doc), &p)
	return p, invalidFields(err)
}

// ParsePolicy reads a policy that a person has written, or copied from an answer.
func ParsePolicy(doc json.RawMessage) (policy.Policy, error) {
	p, err := policy.Parse(rulesOf(doc))
	return p, invalidFields(err)
}

// rulesOf is a policy's document without the owner and the times that answers have besides.
func rulesOf(doc json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc, &fields) != nil {
		return doc
	}
	for _, name := range []string{"id", "tenant", "changes", "created_at", "updated_at", "revision"} {
		delete(fields, name)
	}
	return Encode(fields)
}

// invalidFields turns an error of package policy into one that names the fields and exits as a
// usage error.
func invalidFields(err error) error {
	var wrong policy.Errors
	if !errors.As(err, &wrong) {
		return err
	}
	fields := make([]grapnel.Field, len(wrong))
	for i, e := range wrong {
		fields[i] = grapnel.Field(e)
	}
	return &grapnel.Error{Code: grapnel.CodeInvalid, Detail: "the policy is not valid", Fields: fields}
}

// Reach is how often and how long a policy attempts; empty for one that this version cannot read.
func Reach(doc json.RawMessage) (attempts, span string) {
	p, err := ReadPolicy(doc)
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

// mostRows limits the rows of a schedule in a table.
const mostRows = 40

// PolicyForm is what a policy says.
func PolicyForm(p *policy.Policy) [][]string {
	r, shape := p.Reach(), p.RequestShape()
	return [][]string{
		{"name", p.Name},
		{"attempts", attemptsOf(r)},
		{"reaches", policy.Duration(r.Nominal).String() + ", at most " + policy.Duration(r.Longest).String()},
		{"timeout", p.Timeout.String()},
		{"jitter", p.Jitter.String()},
		{"success", strings.Join(p.Success, ", ")},
		{"classify", Compact(Encode(p.Classify))},
		{"limits", limits(p)},
		{"retry after", string(p.RetryAfter)},
		{"exhausted", string(p.OnExhausted) + ", then " + string(p.Then)},
		{"requests", words.Request(shape.Headers, shape.Transform, shape.Format, shape.Ordering)},
	}
}

// limits are a policy's limits for some answers.
func limits(p *policy.Policy) string {
	var parts []string
	for _, l := range p.Limits {
		parts = append(parts, l.String())
	}
	return strings.Join(parts, "; ")
}

// PolicyTable is when a policy attempts if each attempt fails at once, without jitter.
func PolicyTable(p *policy.Policy) Part {
	r := p.Reach()
	table := Part{Title: "If every attempt fails", Head: []string{"ATTEMPT", "WAIT", "SINCE THE FIRST"}}
	previous := time.Duration(0)
	for i, at := range r.Table[:min(len(r.Table), mostRows)] {
		row := []string{strconv.Itoa(i + 1), policy.Duration(at - previous).String(), policy.Duration(at).String()}
		table.Rows = append(table.Rows, row)
		previous = at
	}
	if more := cmp.Or(r.Attempts, len(r.Table)) - mostRows; more > 0 {
		table.Rows = append(table.Rows, []string{"…", fmt.Sprintf("%d more", more)})
	}
	return table
}
