package web

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/policy"
)

// lanesModel is the list of ordering keys that are stuck.
type lanesModel struct {
	pager
	Verdict  verdict
	Command  string // of the command line, when there are no keys to show
	Rows     []stuckRow
	Endpoint string // the only one of the list; empty: all
	All      string
}

// stuckRow is a key whose first delivery keeps the others waiting.
type stuckRow struct {
	Key, Href    string
	Endpoint, At string
	Pill         pill
	Why          string
	Waiting      string
	Since        moment
	Then         pill // what happens to the key once the first delivery has no attempts left
}

func stuckKeys(v *visit) (lanesModel, error) {
	q := v.URL.Query()
	m := lanesModel{Endpoint: q.Get("endpoint"), All: v.link("/ordering-keys")}
	found, alone, err := v.stuck(m.Endpoint, q.Get("cursor"))
	if err != nil {
		return m, err
	}
	names, policies, behind := map[string]string{}, map[string]policy.Then{}, map[string]int{}
	blocked, waiting, more := 0, 0, found.Next != ""
	for i := range found.Data {
		l := &found.Data[i]
		at := l.Head.EndpointID
		if _, known := names[at]; !known {
			if names[at], policies[at], err = v.laneOwner(at); err != nil {
				return m, err
			}
		}
		r := stuckRow{Key: l.Key, Href: v.keyHref(at, l.Key), Endpoint: names[at], At: v.ownerLink(at), Why: briefly(whyStuck(&l.Head)),
			Waiting: say.Capped(l.Waiting, l.WaitingMore), Since: v.atOr(l.Since), Pill: lanePill(&l.Head), Then: thenPill(policies[at])}
		more = more || l.WaitingMore
		if isBlocked(&l.Head) {
			blocked++
		}
		waiting += l.Waiting
		m.Rows = append(m.Rows, r)
		behind[r.Href] = l.Waiting
	}
	slices.SortStableFunc(m.Rows, func(a, b stuckRow) int { return behind[b.Href] - behind[a.Href] }) // within the page
	if len(m.Rows) == 0 && q.Get("cursor") == "" && found.Next == "" {
		_, m.Command = v.teach("", lanesCommand)
	}
	m.answer(blocked, waiting, more)
	if alone > 0 {
		m.Verdict.Next += " " + say.Many(alone, "other key has", "other keys have") + " a delivery that fails and none behind it."
	}
	m.pager = v.pager("/ordering-keys", "", found.Next, "endpoint", m.Endpoint)
	return m, nil
}

// mostEmptyPages bounds the pages without a key that a look goes through.
const mostEmptyPages = 5

// mostPassedOver bounds the pages of keys that keep nothing waiting.
const mostPassedOver = 12

// stuck asks for keys that keep later deliveries waiting, and counts those that it passes over
// because nothing waits behind them. A page of all endpoints may be empty although others follow.
// If no key keeps any waiting, it is the first page with keys.
func (v *visit) stuck(endpoint, cursor string) (found *client.Page[client.Lane], alone int, err error) {
	var first *client.Page[client.Lane]
	for range mostPassedOver {
		if found, err = v.client.Lanes(v.Context(), endpoint, v.web.Bounds.Page, cursor); err != nil {
			return nil, 0, err
		}
		if first == nil && (len(found.Data) > 0 || found.Next == "") {
			first = found
		}
		holding := slices.DeleteFunc(slices.Clone(found.Data), func(l client.Lane) bool { return l.Waiting == 0 && !isBlocked(&l.Head) })
		if alone += len(found.Data) - len(holding); len(holding) > 0 {
			return &client.Page[client.Lane]{Data: holding, Next: found.Next}, alone, nil
		}
		if cursor = found.Next; cursor == "" {
			break
		}
	}
	if first == nil {
		return found, 0, nil
	}
	return first, 0, nil
}

func (m *lanesModel) answer(blocked, waiting int, more bool) {
	n := len(m.Rows)
	number := say.AtLeast(n, more, "key is", "keys are")
	switch {
	case n == 0:
		m.Verdict.say("No key is stuck.", "",
			"Events of one key go out one after the other. A key is stuck while its first delivery fails; the later ones wait behind it, and other keys go on.")
		return
	case blocked == 1 && n == 1 && !more:
		m.Verdict.Pieces = []piece{{"One key is stuck; ", ""}, {"it waits for an operator", toneBad}, {".", ""}}
	case blocked > 0:
		m.Verdict.Pieces = []piece{{number + " stuck; ", ""}, {of(blocked, n) + " for an operator", toneBad}, {".", ""}}
	default:
		m.Verdict.Pieces = []piece{{number + " stuck", toneWait}, {"; their first deliveries are attempted again.", ""}}
	}
	if waiting == 0 {
		m.Verdict.Next = "No later delivery waits behind " + map[bool]string{true: "it", false: "them"}[n == 1] + ". Other keys go on."
		return
	}
	m.Verdict.Next = say.Many(waiting, "later delivery waits", "later deliveries wait") + " behind them, in order. Nothing is lost, and other keys go on."
}

// of is a part of the keys as the subject of a sentence: "1 of them waits", "all of them wait".
func of(part, all int) string {
	if part == all {
		return "all of them wait"
	}
	return say.Many(part, "of them waits", "of them wait")
}

// laneOwner is the name of the endpoint or queue that a lane belongs to, and what its policy does
// with a key whose first delivery has no attempts left.
func (v *visit) laneOwner(id string) (name string, then policy.Then, err error) {
	var rules json.RawMessage
	name = id
	if isQueue(id) {
		if v.session.portal { // it may not ask for one queue
			name, err = v.nameOf(id)
			return name, "", err
		}
		q, err := optional(v.client.Queue(v.Context(), id))
		if err != nil || q == nil {
			return name, "", err
		}
		name, rules = q.Name, q.Policy
	} else {
		e, err := optional(v.client.Endpoint(v.Context(), id))
		if err != nil || e == nil {
			return name, "", err
		}
		name, rules = endpointName(e), e.Policy
	}
	then, err = v.thenOf(rules)
	return name, then, err
}

// thenOf is what a policy does with a key; empty: it is unknown.
func (v *visit) thenOf(raw json.RawMessage) (policy.Then, error) {
	var named string
	if json.Unmarshal(raw, &named) != nil {
		var rules policy.Policy
		if json.Unmarshal(raw, &rules) != nil {
			return "", nil
		}
		return rules.Then, nil
	}
	if preset, known := policy.Preset(named); known {
		return preset.Then, nil
	}
	found, err := v.client.Policies(v.Context(), client.ListFilter{Limit: mostOptions})
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(found.Data, func(p client.Policy) bool { return p.Name == named })
	if i < 0 {
		return "", nil
	}
	rules, err := policyRules(&found.Data[i])
	if err != nil {
		return "", nil
	}
	return rules.Then, nil
}

// isBlocked says whether a first delivery has no attempt left, and its key waits for an operator.
func isBlocked(head *client.Delivery) bool { return head.NextAttemptAt == nil && !head.Status.Final() }

func lanePill(head *client.Delivery) pill {
	if isBlocked(head) {
		return pill{toneBad, "waits for you"}
	}
	return pill{toneWait, "retrying"}
}

func thenPill(then policy.Then) pill {
	switch then {
	case policy.Block:
		return pill{toneHold, "then it waits for you"}
	case "":
		return pill{}
	}
	return pill{toneNone, "then the key goes on"}
}

// whyStuck is the reason in a sentence.
func whyStuck(head *client.Delivery) string {
	reason := head.Reason
	for _, lead := range []string{"held: ", "pending: "} {
		reason = strings.TrimPrefix(reason, lead)
	}
	return sentence(reason)
}

// briefly is the first part of a reason: the page of the key has all of it.
func briefly(reason string) string {
	first, _, cut := strings.Cut(reason, "; ")
	if cut {
		first += "."
	}
	return first
}

func stuckTwin(v *visit) (string, url.Values) {
	path, q := cursored("/v1/lanes")(v)
	if e := v.URL.Query().Get("endpoint"); e != "" {
		path = "/v1/endpoints/" + url.PathEscape(e) + "/lanes"
	}
	return path, q
}

func stuckCommand(v *visit) string {
	if e := v.URL.Query().Get("endpoint"); e != "" {
		return lanesCommand + " " + shellQuote(e)
	}
	return lanesCommand
}
