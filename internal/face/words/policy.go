package words

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/policy"
)

// Policy is an endpoint's policy: its name; or, of a policy of its own, the base and the fields
// that differ from it.
func Policy(raw json.RawMessage, changes []string) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	var own struct{ Preset string }
	if json.Unmarshal(raw, &own) != nil || own.Preset == "" {
		return "its own"
	}
	return Base(own.Preset, changes)
}

// Base is what a policy was made from, and the fields in which it differs: "sent, except timeout".
func Base(preset string, changes []string) string {
	if len(changes) == 0 {
		return preset + ", unchanged"
	}
	return preset + ", except " + strings.Join(changes, ", ")
}

// Refused says what a policy does with answers that call the address wrong or the event unfit.
// more: it attempts some of them again.
func Refused(p *policy.Policy) (said string, more bool) {
	wrong, again := refused(p, 404)
	unfit, too := refused(p, 422)
	if wrong == unfit {
		return "Answered 404 or 422, a delivery " + wrong + ".", again
	}
	return "Answered 404, a delivery " + wrong + "; answered 422, it " + unfit + ".", again || too
}

func refused(p *policy.Policy, status int) (said string, more bool) {
	o := policy.Outcome{Status: status, Class: policy.ClassOf(status)}
	r := p.ReachAfter(o)
	switch decision := p.Decide(o); {
	case decision == policy.Deliver:
		return "counts as delivered", false
	case decision == policy.DisableEndpoint:
		return "fails at once and disables the endpoint", false
	case decision == policy.Fail || r.Attempts == 1:
		return "fails at once", false
	case r.Attempts == 0:
		return "is retried for " + policy.Duration(r.Nominal).String(), true
	}
	return fmt.Sprintf("is attempted %d times within %s", r.Attempts, policy.Duration(r.Nominal)), true
}

// FinalPolicy is a policy that is made from a named one, but without a second attempt after answers
// that call the event unfit or the address wrong.
func FinalPolicy(named *policy.Policy) string {
	classify := maps.Clone(named.Classify)
	for _, status := range []int{400, 404, 422} {
		classify[strconv.Itoa(status)] = policy.Fail
	}
	text, _ := json.Marshal(map[string]any{"preset": named.Name, "classify": classify}) // a map of texts
	return string(text)
}

// Request is what a preset says about requests, on one line.
func Request(headers map[string]string, transform, format, ordering string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		parts = append(parts, "header "+name+": "+headers[name])
	}
	for _, part := range [][2]string{{"transform", transform}, {"format", format}, {"ordering", ordering}} {
		if part[1] != "" {
			parts = append(parts, part[0]+" "+part[1])
		}
	}
	return strings.Join(parts, "; ")
}
