package mcp

import (
	"cmp"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

// The facts are the parts of answers. They have what an agent needs of an object of the API, with
// the texts of others cut and marked.

type deliveryFact struct {
	ID        string        `json:"id"`
	Event     quoted        `json:"event_id"`
	Type      quoted        `json:"type"`
	Key       quoted        `json:"key,omitempty"`
	Endpoint  string        `json:"endpoint_id"`
	Name      quoted        `json:"endpoint_name,omitempty"`
	Tenant    string        `json:"tenant,omitempty"`
	Status    string        `json:"status"`
	Code      string        `json:"reason_code,omitempty"`
	Reason    quoted        `json:"reason,omitempty"`
	Made      int           `json:"attempts_made"`
	Created   string        `json:"created_at"`
	Finished  string        `json:"finished_at,omitempty"`
	Next      string        `json:"next_attempt_at,omitempty"`
	ReplayOf  string        `json:"replay_of,omitempty"`
	LastCode  int           `json:"last_status_code,omitempty"`
	LastClass string        `json:"last_error_class,omitempty"`
	Attempts  []attemptFact `json:"attempts,omitempty"`
	Planned   []plannedFact `json:"planned,omitempty" jsonschema:"the attempts that follow if each of them fails"`
}

type attemptFact struct {
	Number   int    `json:"number"`
	Trigger  string `json:"trigger"`
	Started  string `json:"started_at"`
	Took     string `json:"duration"`
	Status   int    `json:"status_code,omitempty"`
	Class    string `json:"error_class"`
	Error    quoted `json:"error,omitempty"`
	Answer   quoted `json:"response_body,omitempty"`
	Hidden   bool   `json:"payload_hidden,omitempty" jsonschema:"the API key may not see bodies"`
	Decision string `json:"decision"`
}

type plannedFact struct {
	Number int    `json:"number"`
	At     string `json:"at"`
}

// delivery is a delivery without its attempts.
func (r *room) delivery(d *client.Delivery) deliveryFact {
	f := deliveryFact{ID: d.ID, Event: r.text(d.EventID), Type: r.text(d.Type), Key: r.text(d.Key), Endpoint: d.EndpointID,
		Name:   r.text(d.EndpointName),
		Tenant: d.Tenant, Status: string(d.Status), Code: string(d.ReasonCode), Reason: r.text(d.Reason), Made: d.AttemptsMade,
		Created: at(&d.CreatedAt), Finished: at(d.FinishedAt), Next: at(d.NextAttemptAt)}
	if d.ReplayOf != nil {
		f.ReplayOf = *d.ReplayOf
	}
	if d.Last != nil {
		f.LastCode, f.LastClass = d.Last.StatusCode, string(d.Last.ErrorClass)
	}
	return f
}

// tried is a delivery with its last attempts and those that are planned.
func (r *room) tried(d *client.Delivery) deliveryFact {
	f := r.delivery(d)
	for i := range d.Attempts[max(0, len(d.Attempts)-r.Bounds.Rows):] {
		a := &d.Attempts[max(0, len(d.Attempts)-r.Bounds.Rows)+i]
		f.Attempts = append(f.Attempts, attemptFact{Number: a.Number, Trigger: string(a.Trigger), Started: at(&a.StartedAt),
			Took: say.Took(a.Duration.Std()), Status: a.StatusCode, Class: string(a.ErrorClass), Error: r.text(a.Error),
			Answer: r.payload(a.ResponseBody), Hidden: a.PayloadHidden, Decision: string(a.Decision)})
	}
	for _, p := range d.Planned[:min(len(d.Planned), 3)] {
		f.Planned = append(f.Planned, plannedFact{p.Number, at(&p.At)})
	}
	return f
}

func (f *deliveryFact) say(p *prose) {
	p.say("Delivery %s of event %s (type %s) to endpoint %s (%s): %s after %s.", f.ID, f.Event, f.Type, f.Endpoint, f.Name, f.Status,
		say.Many(f.Made, "attempt", "attempts"))
	p.told("  The server says", f.Reason)
	if f.ReplayOf != "" {
		p.say("  It delivers %s again.", f.ReplayOf)
	}
	for i := range f.Attempts {
		a := &f.Attempts[i]
		p.say("  Attempt %d (%s) at %s took %s and ended with %s; decision: %s.", a.Number, a.Trigger, a.Started, a.Took,
			words.Result(a.Status, policy.Class(a.Class)), a.Decision)
		p.told("    Error", a.Error)
		p.told("    Answer of the receiver", a.Answer)
		if a.Hidden {
			p.say("    The API key may not see bodies.")
		}
	}
	if f.Next != "" {
		p.say("  The next attempt is at %s.", f.Next)
	}
}

// shorten leaves out half of the attempts, the oldest first.
func (f *deliveryFact) shorten() bool {
	n := len(f.Attempts)
	f.Attempts, f.Planned = f.Attempts[n-n/2:], nil
	return n > 0
}

type issueFact struct {
	ID         string   `json:"id"`
	Endpoint   string   `json:"endpoint_id"`
	Name       quoted   `json:"endpoint_name,omitempty"`
	Tenant     string   `json:"tenant,omitempty"`
	Sentence   quoted   `json:"sentence"`
	State      string   `json:"state"`
	Class      string   `json:"error_class"`
	Status     int      `json:"status_code,omitempty"`
	Answer     quoted   `json:"answer,omitempty"`
	Failures   int64    `json:"failures"`
	Deliveries int      `json:"deliveries"`
	First      string   `json:"first_seen"`
	Last       string   `json:"last_seen"`
	IDs        []string `json:"delivery_ids,omitempty" jsonschema:"its newest deliveries"`
	Owner      quoted   `json:"owner,omitempty"`
	Note       quoted   `json:"note,omitempty"`
}

func (r *room) issue(i *client.Issue) issueFact {
	return issueFact{ID: i.ID, Endpoint: i.EndpointID, Name: r.text(i.EndpointName), Tenant: i.Tenant, Sentence: r.text(i.Sentence),
		State: i.State,
		Class: string(i.ErrorClass), Status: i.StatusCode, Answer: r.text(i.Answer), Failures: i.Failures, Deliveries: i.Deliveries,
		First: at(&i.FirstSeen), Last: at(&i.LastSeen), IDs: i.DeliveryIDs, Owner: r.text(i.Owner), Note: r.text(i.Note)}
}

func (f *issueFact) say(p *prose) {
	p.say("Issue %s (%s) of endpoint %s (%s): %s of %s, the last at %s: %s", f.ID, f.State, f.Endpoint, f.Name,
		say.Many(f.Failures, "failed attempt", "failed attempts"), say.Many(f.Deliveries, "delivery", "deliveries"), f.Last, f.Sentence)
	p.told("  Answer of the receiver", f.Answer)
	p.told("  Owner", f.Owner)
	p.told("  Note", f.Note)
}

type causesFact struct {
	Endpoint  string      `json:"endpoint_id"`
	Sentence  quoted      `json:"sentence"`
	Failures  int         `json:"failures" jsonschema:"deliveries that were looked at and whose first attempt failed"`
	Successes int         `json:"successes"`
	Causes    []causeFact `json:"causes,omitempty" jsonschema:"what failures have in common and successes have not; the best explanation first"`
	Groups    []groupFact `json:"groups,omitempty" jsonschema:"failures that look alike"`
}

type causeFact struct {
	Kind      string `json:"kind"`
	Sentence  quoted `json:"sentence"`
	Failures  int    `json:"failures"`
	Successes int    `json:"successes"`
	Filter    quoted `json:"filter,omitempty" jsonschema:"a search for these deliveries"`
}

type groupFact struct {
	Count    int    `json:"count"`
	Class    string `json:"error_class"`
	Status   int    `json:"status_code,omitempty"`
	Answer   quoted `json:"answer,omitempty"`
	Last     string `json:"last"`
	Delivery string `json:"delivery_id" jsonschema:"its last delivery"`
}

func (r *room) causes(c *client.Causes) causesFact {
	f := causesFact{Endpoint: c.EndpointID, Sentence: r.text(c.Sentence), Failures: c.Failures, Successes: c.Successes}
	for i := range c.Causes[:min(len(c.Causes), r.Bounds.Rows)] {
		one := &c.Causes[i]
		f.Causes = append(f.Causes, causeFact{one.Kind, r.text(one.Sentence), one.Failures, one.Successes, r.text(one.Filter)})
	}
	for i := range c.Groups[:min(len(c.Groups), r.Bounds.Rows)] {
		g := &c.Groups[i]
		f.Groups = append(f.Groups, groupFact{g.Count, string(g.ErrorClass), g.StatusCode, r.text(g.Answer), at(&g.Last), g.DeliveryID})
	}
	return f
}

func (f *causesFact) say(p *prose) {
	p.say("Why deliveries to endpoint %s fail: %s", f.Endpoint, f.Sentence)
	for i := range f.Causes[min(1, len(f.Causes)):] {
		p.say("  Also: %s", f.Causes[i+1].Sentence)
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		p.say("  %s with %s, the last at %s in %s.", say.Many(g.Count, "failure", "failures"), words.Result(g.Status, policy.Class(g.Class)),
			g.Last,
			g.Delivery)
		p.told("    Answer of the receiver", g.Answer)
	}
}

func (f *causesFact) shorten() bool {
	n := len(f.Causes) + len(f.Groups)
	f.Causes, f.Groups = f.Causes[:len(f.Causes)/2], f.Groups[:len(f.Groups)/2]
	return n > 0
}

type endpointFact struct {
	ID      string `json:"id"`
	Name    quoted `json:"name"`
	Tenant  string `json:"tenant,omitempty"`
	Status  string `json:"status,omitempty"`
	State   string `json:"health"`
	Reason  quoted `json:"reason,omitempty"`
	Since   string `json:"since,omitempty"`
	Held    int    `json:"held,omitempty" jsonschema:"deliveries that are held"`
	AtLeast bool   `json:"held_more,omitempty" jsonschema:"held is a lower bound"`
}

func (f *endpointFact) say(p *prose) {
	line := "Endpoint %s (%s): " + f.State
	if f.Since != "" {
		line += " since " + f.Since
	}
	if f.Held > 0 {
		line += "; " + say.Capped(f.Held, f.AtLeast) + " deliveries are held"
	}
	p.say(line+".", f.ID, f.Name)
	p.told("  The server says", f.Reason)
}

func (r *room) endpointOf(e *client.Endpoint) endpointFact {
	return endpointFact{ID: e.ID, Name: r.text(nameOf(e)), Tenant: e.Tenant, Status: string(e.Status), State: string(e.Health.State),
		Reason: r.text(cmp.Or(e.DisabledReason, e.Health.Reason)), Since: at(e.Health.Since), Held: e.Health.Held, AtLeast: e.Health.HeldMore}
}
