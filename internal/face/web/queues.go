package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// queuesModel is the list of queues.
type queuesModel struct {
	pager
	Verdict verdict
	Rows    []queueRow
}

// queueRow is one queue in a list.
type queueRow struct {
	Whose                                 whose
	Href, Name                            string
	Pill                                  pill
	Ready, Leased, Delayed, Waiting, Dead string
	Counts                                string // those that are not zero, for a phone
	Oldest                                moment
	Why                                   string
}

func queues(v *visit) (queuesModel, error) {
	m := queuesModel{Verdict: verdict{Acts: v.formLinks("/queues/", "new", "Add a queue")}}
	f := v.listed()
	found, err := v.client.Queues(v.Context(), f)
	if err != nil || len(found.Data) == 0 && v.unfound(&m.Verdict, "queue") {
		return m, err
	}
	if len(found.Data) == 0 && f.Cursor == "" {
		m.Verdict.Command = createQueueCommand
		m.Verdict.say("There is no queue yet.", "", "A queue holds events for programs that fetch them, so that they need no address of their own.")
		return m, nil
	}
	var ready, dead int64
	var oldest *client.Queue
	for i := range found.Data {
		q := &found.Data[i]
		if c := q.QueueCounts; c != nil {
			ready, dead = ready+c.Ready, dead+c.Dead
			if c.OldestAt != nil && (oldest == nil || c.OldestAt.Before(*oldest.OldestAt)) {
				oldest = q
			}
		}
		m.Rows = append(m.Rows, v.queueRow(q))
	}
	m.Verdict.say("No message waits for a consumer.", "", "")
	if ready > 0 {
		m.Verdict.say(say.Many(ready, "message waits", "messages wait")+" for a consumer.", "", "")
	}
	if oldest != nil {
		m.Verdict.Next = fmt.Sprintf("The oldest is in %s and was accepted %s.", oldest.Name, v.at(*oldest.OldestAt).Relative())
	}
	if dead > 0 {
		m.Verdict.Next += fmt.Sprintf(" %s; no consumer gets %s without a replay.", say.Many(dead, "is a dead letter", "are dead letters"),
			map[bool]string{true: "it", false: "them"}[dead == 1])
	}
	if m.pager = v.pager("/queues", f.Cursor, found.Next, "q", f.Search); m.here() != "" {
		m.Verdict.Next += " These are not all queues."
	}
	return m, nil
}

// countsOf are the numbers of a queue's messages; all 0, if the API has not counted them.
func countsOf(q *client.Queue) *client.QueueCounts {
	return cmp.Or(q.QueueCounts, new(client.QueueCounts))
}

func queuePill(q *client.Queue) pill {
	switch {
	case q.Status == grapnel.EndpointPaused:
		return pill{toneHold, "paused"}
	case q.Status == grapnel.EndpointDisabled:
		return pill{toneBad, "disabled"}
	case countsOf(q).Blocked > 0:
		return pill{toneBad, "blocked"}
	case countsOf(q).Dead > 0:
		return pill{toneBad, "dead letters"}
	case countsOf(q).Ready > 0:
		return pill{toneWait, "waiting"}
	}
	return pill{toneOK, "empty"}
}

func (v *visit) queueRow(q *client.Queue) queueRow {
	r := queueRow{Whose: v.whose(q.Tenant), Href: v.link("/queues/" + q.ID), Name: q.Name, Pill: queuePill(q), Why: q.Description}
	if c := q.QueueCounts; c != nil {
		r.Ready, r.Leased, r.Delayed = say.Count(c.Ready), say.Count(c.Leased), say.Count(c.Delayed)
		r.Waiting, r.Dead = say.Count(c.Waiting+c.Blocked), say.Count(c.Dead)
		var counts []string
		for _, part := range []struct {
			n    int64
			word string
		}{{c.Ready, "ready"}, {c.Leased, "leased"}, {c.Delayed, "delayed"}, {c.Waiting + c.Blocked, "behind a key"}, {c.Dead, "dead"}} {
			if part.n > 0 {
				counts = append(counts, say.Count(part.n)+" "+part.word)
			}
		}
		r.Counts, r.Oldest = strings.Join(counts, " · "), v.atOr(c.OldestAt)
		if r.Pill.Word == "empty" && c.Leased+c.Delayed+c.Waiting > 0 {
			r.Pill = pill{toneOK, "in work"}
		}
	}
	return r
}

// queueModel is one queue: its counts, its consumers, its next messages.
type queueModel struct {
	ID, Name  string
	Pill      pill
	Verdict   verdict
	Figures   []figure
	Consumers []consumerRow
	Next      []peekedRow
	Settings  facts
	Consume   string
	Snippets  []ownLine
	Links     []act // forms about it
	All       string
}

type consumerRow struct {
	Name   string
	Leased string
	Seen   moment
}

// peekedRow is a message that would be leased next.
type peekedRow struct {
	Href, Type, Key string
	Attempt         int
	Age             moment
	Body            []span
}

const mostPeeked = 5

func queue(v *visit, q *client.Queue) (queueModel, error) {
	next, err := v.client.Peek(v.Context(), q.ID, mostPeeked)
	if err != nil {
		return queueModel{}, err
	}
	v.title = q.Name
	m := queueModel{ID: q.ID, Name: q.Name, Pill: v.queueRow(q).Pill, Consume: "grapnel queues consume " + shellQuote(q.Name) + " -- ./handler.sh",
		All: v.link("/deliveries" + withQuery("q", "endpoint:"+q.ID))}
	c := countsOf(q)
	m.Verdict = v.queueVerdict(q, c)
	m.Figures = []figure{
		{Name: "Ready", Value: say.Count(c.Ready), Unit: "can be leased now"}, {Name: "Leased", Value: say.Count(c.Leased), Unit: "with consumers"},
		{Name: "Later", Value: say.Count(c.Delayed + c.Waiting), Unit: "delayed, or behind their key"}, {Name: "Dead", Value: say.Count(c.Dead + c.Blocked), Unit: map[bool]string{true: "needs an operator", false: "need an operator"}[c.Dead+c.Blocked == 1]},
	}
	for _, k := range q.Consumers {
		m.Consumers = append(m.Consumers, consumerRow{cmp.Or(k.Name, "without a name"), say.Count(k.Leased), v.at(k.SeenAt)})
	}
	for i := range next.Data {
		p := &next.Data[i]
		m.Next = append(m.Next, peekedRow{
			v.link("/deliveries/" + p.DeliveryID), p.Type, p.Key, p.Attempt, v.at(p.FirstSeenAt), v.readable(p.Body),
		})
	}
	m.settings(v, q)
	m.Snippets = v.snippets(q)
	m.Links = v.formLinks("/queues/{id}/", "edit", "Change", "purge", "Purge", "delete", "Delete")
	return m, nil
}

func (v *visit) queueVerdict(q *client.Queue, c *client.QueueCounts) (out verdict) {
	oldest := ""
	if c.OldestAt != nil {
		oldest = "The oldest was accepted " + v.at(*c.OldestAt).Relative() + "."
	}
	var active, holding int
	for _, k := range q.Consumers {
		if v.now.Sub(k.SeenAt) < 5*time.Minute {
			active++
		}
		if k.Leased > 0 {
			holding++
		}
	}
	switch {
	case q.Status == grapnel.EndpointPaused:
		out.say("It is paused. Nothing is leased.", toneHold, strings.TrimSpace(sentence(q.DisabledReason)+" Present leases can be settled. "+oldest))
	case q.Status == grapnel.EndpointDisabled:
		out.say("It is disabled.", toneBad, sentence(q.DisabledReason))
	case c.Blocked > 0:
		out.say(say.Many(c.Blocked, "key is blocked", "keys are blocked")+" by a message that failed.", toneBad, "Later messages of the key wait in order. "+oldest)
	case c.Ready > 0 && active == 0:
		out.say(say.Many(c.Ready, "message waits", "messages wait")+", and no consumer has asked in the last 5 min.", toneBad, oldest+" Nothing is lost.")
	case c.Ready > 0:
		out.say(say.Many(c.Ready, "message waits", "messages wait")+" for "+say.Many(active, "consumer", "consumers")+".", toneWait, oldest)
	case c.Leased > 0:
		out.say(say.Many(holding, "consumer works", "consumers work")+" on "+say.Many(c.Leased, "message", "messages")+".", "", oldest)
	case c.Delayed+c.Waiting > 0:
		out.say("No message can be leased now.", "", "The others are delayed, or wait behind an earlier one of their key. "+oldest)
	default:
		out.say("It is empty.", "", "Messages arrive with the next event that matches.")
	}
	if c.Dead > 0 {
		out.Next += fmt.Sprintf(" %s.", say.Many(c.Dead, "message is a dead letter", "messages are dead letters"))
	}
	v.offerPause(&out, "/queues/{id}", q.ID, q.Status == grapnel.EndpointPaused)
	if c.Dead > 0 {
		look := act{Label: "Look at the dead letters", Href: v.link(v.deadLetters(q.ID)), Main: q.Status != grapnel.EndpointPaused}
		if look.Main {
			out.Acts = slices.Insert(out.Acts, 0, look)
		} else {
			out.Acts = append(out.Acts, look)
		}
	}
	return out
}

func (m *queueModel) settings(v *visit, q *client.Queue) {
	m.Settings.subscription(q.EventTypes, q.Filter, q.Source, q.Ordering, words.Policy(q.Policy, q.PolicyChanges), v.policyLink(q.Policy))
	m.Settings.add("Lease", say.Spoken(time.Duration(q.Lease)), "Leases of one consumer", "at most "+say.Count(q.MaxLeased))
	if q.Quiet {
		m.Settings.add("Quiet", "no operational events, statistics or dead letters")
	}
	m.Settings.add("Description", q.Description, "Tenant", q.Tenant)
	m.Settings.at("Created", v.at(q.CreatedAt))
}
