package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

func (d *delivery) original() bool { return d.final == nil || d.final.ReplayOf == "" }

// line identifies a lane: by key, or by delivery if the endpoint has no order.
type line struct{ endpoint, key, delivery string }

func index(h History) *checker {
	c := &checker{History: h,
		originals: map[pair][]*delivery{}, endpoint: map[string]*Endpoint{}, byID: map[string]*event{},
		byDelivery: map[string]*delivery{}, actions: map[string][]*Action{}, stopping: map[string][]*Action{},
		lived: map[*Endpoint][]time.Duration{}, took: map[*Endpoint][]time.Duration{}}
	c.Faults = slices.Clone(h.Faults)
	slices.SortStableFunc(c.Faults, func(a, b Fault) int { return cmp.Compare(a.End, b.End) })
	for i := range h.Endpoints {
		c.endpoint[h.Endpoints[i].ID] = &h.Endpoints[i]
	}
	for i := range h.Publishes {
		c.addPublish(&h.Publishes[i])
	}
	for i := range h.Finals {
		c.addFinal(&h.Finals[i])
	}
	for i := range h.Receipts {
		c.addReceipt(&h.Receipts[i])
	}
	for i := range h.Actions {
		a := &h.Actions[i]
		if a.Result == Failed {
			continue
		}
		if about := a.Kind == Skip || a.Kind == Retry; about && a.Result == OK && c.undone(a.Return, never) {
			lost := *a
			lost.Result = Unknown // it may be lost
			a = &lost
		}
		if a.Kind == Skip || a.Kind == Retry {
			c.actions[a.Delivery] = append(c.actions[a.Delivery], a)
		} else {
			c.stopping[a.Endpoint] = append(c.stopping[a.Endpoint], a)
		}
	}
	c.rewound()
	c.addLanes()
	for _, r := range h.Receipts {
		if ep := c.endpoint[r.Endpoint]; ep.Breaker && r.Status >= 200 && (r.Status < 500 || r.ends()) && !r.AnswerLost {
			c.lived[ep] = append(c.lived[ep], r.End)
			if r.Status < 300 {
				c.took[ep] = append(c.took[ep], r.End)
			}
		}
	}
	for _, ends := range c.took {
		slices.Sort(ends)
	}
	for _, ends := range c.lived {
		slices.Sort(ends)
	}
	return c
}

// addPublish combines all calls with one id. The commit may have happened in any call that was not
// refused. So the event exists from the first of those at the earliest, and certainly once one of
// them returned with success.
func (c *checker) addPublish(p *Publish) {
	e := c.byID[p.ID]
	if e == nil {
		e = &event{id: p.ID}
		c.byID[p.ID] = e
		c.events = append(c.events, e)
	}
	if p.Result == Failed {
		return
	}
	if !e.possible || p.Invoke < e.invoke {
		e.invoke = p.Invoke
	}
	e.later = max(e.later, p.NotBefore)
	if !e.possible || p.Result == OK && !e.ok {
		e.key, e.hash = p.Key, p.Hash
	}
	// With several calls it is unknown which one committed: only endpoints that all of them matched
	// are certain.
	for _, name := range slices.Concat(p.Endpoints, p.Perhaps) {
		if !slices.Contains(e.perhaps, name) {
			e.perhaps = append(e.perhaps, name)
		}
	}
	if e.possible {
		e.surely = slices.DeleteFunc(e.surely, func(name string) bool { return !slices.Contains(p.Endpoints, name) })
	} else {
		e.surely = slices.Clone(p.Endpoints)
	}
	e.possible = true
	if p.Result == OK && (!e.ok || p.Return < e.returned) {
		e.ok, e.returned = true, p.Return
	}
}

func (c *checker) addFinal(f *Final) {
	if c.byDelivery[f.Delivery] != nil {
		c.report(Conserve, c.byDelivery[f.Delivery], 0, "listed twice")
		return
	}
	d := c.addDelivery(f.Delivery, f.Event, f.Endpoint)
	d.final, d.position = f, f.Position
	if f.ReplayOf == "" {
		at := pair{f.Event, f.Endpoint}
		c.originals[at] = append(c.originals[at], d)
	}
}

func (c *checker) addReceipt(r *Receipt) {
	id := r.Delivery
	if d := c.byDelivery[id]; d != nil && (d.eventID != r.Event || d.endpoint.ID != r.Endpoint) && c.Rewound(*r) {
		// A lost past gave the id to another delivery, which is compared with its own event.
		id += " in a lost past, of " + r.Event + " at " + r.Endpoint
	}
	d := c.byDelivery[id]
	if d == nil {
		d = c.addDelivery(id, r.Event, r.Endpoint)
	}
	d.receipts = append(d.receipts, r)
	if d.position == 0 {
		d.position = r.Position
	}
}

func (c *checker) addDelivery(id, eventID, endpoint string) *delivery {
	if c.endpoint[endpoint] == nil {
		c.endpoint[endpoint] = &Endpoint{ID: endpoint}
	}
	d := &delivery{id: id, eventID: eventID, event: c.byID[eventID], endpoint: c.endpoint[endpoint]}
	if d.event != nil {
		d.event.seen = true
	}
	c.byDelivery[id] = d
	c.deliveries = append(c.deliveries, d)
	return d
}

func (c *checker) addLanes() {
	lanes := map[line]*lane{}
	for _, d := range c.deliveries {
		if d.final == nil && len(d.receipts) == 0 {
			continue // all its receipts are set aside
		}
		slices.SortStableFunc(d.receipts, func(a, b *Receipt) int { return cmp.Compare(a.Start, b.Start) })
		at := line{endpoint: d.endpoint.ID}
		ordered := d.event != nil && d.event.key != "" && !d.endpoint.Unordered
		if ordered {
			at.key = d.event.key
		} else {
			at.delivery = d.id
		}
		l := lanes[at]
		if l == nil {
			l = &lane{endpoint: d.endpoint, ordered: ordered}
			lanes[at] = l
			c.lanes = append(c.lanes, l)
		}
		l.deliveries = append(l.deliveries, d)
	}
}

func (c *checker) report(rule Rule, d *delivery, at time.Duration, format string, args ...any) {
	c.found = append(c.found, Violation{Rule: rule, Event: d.eventID, Endpoint: d.endpoint.ID, Delivery: d.id, At: at,
		Detail: fmt.Sprintf(format, args...)})
}

// unheard says whether the sender may not have received the answer, so that a retry is right.
func (c *checker) unheard(r *Receipt, ep *Endpoint) bool {
	return r.AnswerLost || ep.Timeout > 0 && r.End-r.Start+c.Limits.Transit >= ep.Timeout
}

// quit is the earliest moment at which the sender may have ended the request: when it had the
// answer, when its receiver noticed that it had gone, or at its timeout. A receiver notices a
// disconnected peer late, and one that is busy with the request does not notice it at all.
func (c *checker) quit(r *Receipt, ep *Endpoint) time.Duration {
	end, left := r.End, r.Status == 0
	if ep.Timeout > 0 && r.Start+ep.Timeout < end {
		end, left = r.Start+ep.Timeout, true
	}
	if !left {
		return end
	}
	return max(r.Start, end-c.Limits.Transit)
}

// explains says whether the fault may have kept this receipt's outcome from becoming durable.
func (c *checker) explains(f *Fault, r *Receipt) bool {
	return f.repeats() && (f.Node == "" || f.Node == r.Node) && f.overlaps(r.Start-c.Limits.Transit, r.End+c.Limits.Commit)
}

// excused says whether any fault explains the loss of this receipt's outcome.
func (c *checker) excused(r *Receipt) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool { return c.explains(&f, r) })
}

const never = time.Duration(math.MaxInt64)
