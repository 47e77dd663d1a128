package web

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/policy"
)

// laneModel is one key at one endpoint: its first delivery, those behind it, and the ways on.
type laneModel struct {
	Key, Endpoint, At string
	Verdict           verdict
	Head              *deliveryRow
	Rule              string // what the policy does when the first delivery has no attempts left
	Ways              []way
	Behind            []deliveryRow
	More              bool
	All               string
}

// way is something that can be done about a stuck key, with what it means for those behind.
type way struct {
	Act   act
	Means string
}

func stuckKey(v *visit) (laneModel, error) {
	id, key := v.PathValue("id"), v.URL.Query().Get("key")
	name, then, err := v.laneOwner(id)
	if err != nil {
		return laneModel{}, err
	}
	if key == "" { // the first one that is stuck there
		found, err := v.client.Lanes(v.Context(), id, 1, "")
		if err != nil {
			return laneModel{}, err
		}
		if len(found.Data) > 0 {
			key = found.Data[0].Key
		}
	}
	v.title = "Ordering key " + key
	v.steps = []crumb{{name, v.link("/ordering-keys" + withQuery("endpoint", id))}, {key, ""}}
	m := laneModel{Key: key, Endpoint: name, At: v.ownerLink(id),
		All: v.link("/deliveries" + withQuery("q", token{"endpoint", id}.String()+" "+token{"key", key}.String()))}
	waiting, err := v.client.Deliveries(v.Context(), client.DeliveryFilter{Endpoint: id, Key: key, Status: waitingStatuses,
		Limit: v.web.Bounds.Page})
	if err != nil {
		return m, err
	}
	all := waiting.Data
	slices.SortStableFunc(all, func(a, b client.Delivery) int { return int(a.Sequence - b.Sequence) })
	if key == "" || len(all) == 0 {
		m.Verdict.say("This key is not stuck.", "", "None of its deliveries is pending here.")
		return m, nil
	}
	head := &all[0]
	if waiting.Next != "" { // the newest are listed first, so the first one is on a later page
		if head, err = v.headOf(id, key); err != nil {
			return m, err
		}
	} else {
		all = all[1:]
	}
	m.More = waiting.Next != ""
	for i := range all {
		m.Behind = append(m.Behind, v.deliveryRow(&all[i]))
	}
	m.say(v, head, then)
	return m, nil
}

// keysAtOnce is how many stuck keys headOf asks for at once: each takes some 70 µs to read, and the
// one that it looks for is often among the first.
const keysAtOnce = 100

// headOf finds the first delivery of a key that has many.
func (v *visit) headOf(endpoint, key string) (*client.Delivery, error) {
	for cursor, left := "", mostEmptyPages*mostPending/keysAtOnce; left > 0; left-- {
		found, err := v.client.Lanes(v.Context(), endpoint, keysAtOnce, cursor)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(found.Data, func(l client.Lane) bool { return l.Key == key }); i >= 0 {
			return &found.Data[i].Head, nil
		}
		if cursor = found.Next; cursor == "" {
			break
		}
	}
	return nil, nil
}

// say puts the answer, the reason and the ways on together.
func (m *laneModel) say(v *visit, head *client.Delivery, then policy.Then) {
	number := say.Many(len(m.Behind), "delivery waits", "deliveries wait")
	if m.More {
		number = "More than " + number
	}
	switch then {
	case policy.Block:
		m.Rule = "block: once the first delivery has no attempts left, the key waits for an operator. No later event overtakes it."
	case "":
		m.Rule = "unknown to this page."
	default:
		m.Rule = "advance: once the first delivery has no attempts left, it is a dead letter and the key goes on with the next one. A later event may then arrive without the earlier one."
	}
	if head == nil {
		m.Verdict.say(number+" for this key.", "", "Its first delivery has not failed, so the key is not stuck.")
		return
	}
	row := v.deliveryRow(head)
	m.Head, m.Verdict.Next = &row, whyStuck(head)
	switch {
	case isBlocked(head):
		m.Verdict.Pieces = []piece{{"The key waits for an operator", toneBad}, {": its first delivery has no attempts left. " + number + " behind it.", ""}}
	case head.AttemptsMade == 0:
		m.Verdict.Pieces = []piece{{"The key is not stuck: its first delivery was not attempted yet. " + number + " behind it.", ""}}
	case head.NextAttemptAt.After(v.now):
		m.Verdict.Pieces = []piece{{"The key is stuck", toneWait}, {fmt.Sprintf(": its first delivery is attempted again in %s. %s behind it.", say.Spoken(head.NextAttemptAt.Sub(v.now)), number), ""}}
	default:
		m.Verdict.Pieces = []piece{{"The key is stuck", toneWait}, {": its first delivery is due now. " + number + " behind it.", ""}}
	}
	m.ways(v, head)
}

func (m *laneModel) ways(v *visit, head *client.Delivery) {
	at := "/deliveries/" + url.PathEscape(head.ID)
	for _, w := range []struct{ verb, label, sure, means string }{
		{"retry", "Retry the first one now", "", "If it arrives, the others follow at once, in order."},
		{"skip", "Skip the first one", "It will not be delivered.", "It ends as skipped. The others follow at once; the receiver never gets this event, unless you replay it later."},
		{"discard", "Discard the first one", "It will not be delivered, and is in no list of dead letters.",
			"It ends as discarded: in no list of dead letters, and left out of replays. The others follow at once."},
	} {
		if v.mayDo("/deliveries/{id}/"+w.verb) && (w.verb != "retry" || !isQueue(head.EndpointID)) {
			m.Ways = append(m.Ways, way{act{Label: w.label, Post: v.link(at + "/" + w.verb), Sure: w.sure, Main: w.verb == "retry"}, w.means})
		}
	}
}
