package alert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// Recipient is an endpoint that gets messages, such as a channel.
type Recipient struct {
	ID     string
	Quiet  time.Time     // end of its quiet hours, if they are now; zero: they are not
	Gather time.Duration // messages below the severity page are gathered for this long; 0: sent at once
	Closes bool          // it has an incident for each alert, which only a message about that alert closes
}

// Message is one event to send.
type Message struct {
	Event string // its id
	Type  string
	Data  Data
	To    []string // endpoints
}

// Data is the data of a message's event.
type Data struct {
	AlertID        string    `json:"alert_id"` // empty in a digest
	Rule           string    `json:"rule"`     // DigestRule in a digest
	State          string    `json:"state"`
	Severity       string    `json:"severity"`
	Tenant         string    `json:"tenant"`
	Subject        Subject   `json:"subject"`
	Title          string    `json:"title"`
	Text           string    `json:"text"`
	Since          time.Time `json:"since"`
	URL            string    `json:"url"`
	AcknowledgeURL string    `json:"acknowledge_url"`
	Count          int       `json:"count"`
	Alerts         []string  `json:"alerts"` // titles, in a digest
}

// Encode is the data as an event has them.
func (d *Data) Encode() []byte { return encode(d) }

// Post decides how the transitions of one tenant reach its recipients, and adds to each alert the
// messages that carry its transition. wants returns the recipients of a change, and all returns
// every recipient that exists, by its id; a box whose recipient does not exist any more is dropped.
func (b *Boxes) Post(now time.Time, bounds Bounds, tenant string, changes []Change, all map[string]Recipient,
	wants func(*Change) []string) []Message {
	if b.Recipients == nil {
		b.Recipients = map[string]*Box{}
	}
	post := posting{now: now, bounds: bounds, tenant: tenant, by: map[string][]*Change{}}
	for i := range changes {
		if changes[i].Transition == Ease {
			continue
		}
		for _, id := range wants(&changes[i]) {
			if r, exists := all[id]; exists && (r.Closes || !changes[i].Silent) {
				post.by[id] = append(post.by[id], &changes[i])
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		box := b.Recipients[id]
		if box == nil {
			if len(post.by[id]) == 0 {
				continue
			}
			box = &Box{}
			b.Recipients[id] = box
		}
		post.to(all[id], box)
	}
	maps.DeleteFunc(b.Recipients, func(id string, box *Box) bool {
		_, exists := all[id]
		return !exists || box.Count == 0 && len(box.Open) == 0 && now.Sub(box.Window) >= bounds.Window
	})
	return post.messages
}

// posting is a call of Post.
type posting struct {
	now      time.Time
	bounds   Bounds
	tenant   string
	by       map[string][]*Change // by recipient
	messages []Message
	single   map[*Change]int // index of the message that carries the change alone
}

// to posts to one recipient.
func (p *posting) to(r Recipient, box *Box) {
	if now := p.now; now.Sub(box.Window) >= p.bounds.Window || now.Before(box.Window) {
		box.Window, box.Sent = time.Time{}, 0
	}
	var at []*Change // to be sent at once
	for _, c := range p.by[r.ID] {
		switch {
		case r.Closes && c.Transition == Resolve:
			p.ended(r, box, c.Alert)
			p.alone(r, c)
		case c.Gathered && r.Gather <= 0 && r.Quiet.IsZero():
			p.hold(r, box, c, p.now)
		case c.Alert.Severity == grapnel.SeverityPage || r.Gather <= 0 && r.Quiet.IsZero():
			at = append(at, c)
		default:
			p.hold(r, box, c, later(r.Quiet, p.now.Add(r.Gather)))
		}
	}
	if len(at) > 0 && box.Sent == 0 {
		box.Window = p.now
	}
	end := box.Window.Add(p.bounds.Window)
	switch n := len(at); {
	case n == 0:
	case box.Sent+n <= p.bounds.Burst:
		box.Sent += n
		for _, c := range at {
			p.alone(r, c)
		}
	case n > p.bounds.Burst && box.Sent <= p.bounds.Burst:
		// A storm begins: all of it is one digest, and the rest of the window another.
		end = p.now
		fallthrough
	default:
		box.Sent = p.bounds.Burst + 1
		for _, c := range at {
			p.hold(r, box, c, end)
		}
	}
	if p.now.Before(box.Began) {
		box.Until = p.now // the clock was ahead
	}
	if box.Count > 0 && box.Severity != grapnel.SeverityPage {
		box.Until = later(box.Until, r.Quiet) // quiet hours may have begun since
	}
	if box.Count > 0 && !p.now.Before(box.Until) {
		p.digest(r, box)
	}
}

// alone sends a change to a recipient in a message of its own. The recipients of a change share the
// message.
func (p *posting) alone(r Recipient, c *Change) {
	if i, there := p.single[c]; there {
		p.messages[i].To = append(p.messages[i].To, r.ID)
		return
	}
	m := c.Alone(p.now)
	m.To = []string{r.ID}
	if p.single == nil {
		p.single = map[*Change]int{}
	}
	p.single[c] = len(p.messages)
	p.messages = append(p.messages, m)
	c.Alert.sent(Sent{Transition: c.Transition, Event: m.Event, At: p.now})
}

// Alone is the message that carries the change and no other, without recipients and links.
func (c *Change) Alone(now time.Time) Message {
	a := c.Alert
	m := Message{Event: EventID(a.ID, c.Transition, now), Type: grapnel.EventAlertFired, Data: Data{
		AlertID: a.ID, Rule: a.Rule, State: string(a.State), Severity: a.Severity, Tenant: a.Tenant, Subject: a.Subject, Title: headline(c),
		Text: a.Text, Since: a.Since, Count: 1, Alerts: []string{headline(c)}}}
	switch c.Transition {
	case Resolve:
		m.Type = grapnel.EventAlertResolved
		if m.Data.Text = "It has ended."; !a.ResolvedAt.Before(a.Since) { // else the clock was set back since
			m.Data.Text = "It lasted " + say.Spoken(a.ResolvedAt.Sub(a.Since)) + "."
		}
	case Repeat:
		m.Data.Text = "No person has acknowledged it. At first: " + a.Text
		if !now.Before(a.Since) {
			m.Data.Text = "For " + say.Spoken(now.Sub(a.Since)) + ", and no person has acknowledged it. At first: " + a.Text
		}
	}
	return m
}

// hold puts a change into the box until a time. A page may make the digest earlier, but nothing
// makes it later.
func (p *posting) hold(r Recipient, box *Box, c *Change, until time.Time) {
	if box.Count == 0 {
		box.Began, box.Until, box.Severity = p.now, until, c.Alert.Severity
		box.Event = digestID(p.tenant, p.now, r.ID, c.Alert.ID, string(c.Transition))
		box.Titles, box.Fired, box.Goes = nil, 0, 0
		if r.Closes {
			box.counts(p.bounds.Digests)
		}
	}
	box.Count++
	switch c.Transition {
	case Resolve:
	case Repeat:
		box.Goes++
	default:
		box.Fired++
	}
	if until.Before(box.Until) {
		box.Until = until
	}
	if rank(c.Alert.Severity) < rank(box.Severity) {
		box.Severity = c.Alert.Severity
	}
	if len(box.Titles) < p.bounds.Titles {
		box.Titles = append(box.Titles, headline(c))
	}
	event := box.Event
	if _, counted := box.Open[event]; counted && !c.Alert.inside(event) {
		box.Open[event]++
	}
	c.Alert.sent(Sent{Transition: c.Transition, Event: event, At: p.now})
}

// inside says whether a message carried a transition of the alert.
func (a *Alert) inside(event string) bool {
	return slices.ContainsFunc(a.Messages, func(s Sent) bool { return s.Event == event })
}

// ended closes the incidents of digests whose last alert ends with this one. A digest that is held
// is not sent then.
func (p *posting) ended(r Recipient, box *Box, a *Alert) {
	for _, id := range slices.Sorted(maps.Keys(box.Open)) {
		if !a.inside(id) {
			continue
		}
		box.Open[id]--
		if box.Open[id] > 0 || box.Count > 0 && id == box.Event {
			continue
		}
		delete(box.Open, id)
		p.messages = append(p.messages, Message{Event: digestID(p.tenant, p.now, r.ID, id, string(Resolve)), Type: grapnel.EventAlertResolved,
			To: []string{r.ID}, Data: Data{AlertID: id, Rule: DigestRule, State: string(Resolved), Severity: a.Severity, Tenant: p.tenant,
				Subject: about(p.tenant), Title: "Resolved: all alerts of a digest", Text: "The last was: " + a.Title, Since: p.now}})
	}
}

// digest sends what the box has, unless it would open an incident for alerts that have all ended.
func (p *posting) digest(r Recipient, box *Box) {
	event, held := box.Event, *box
	*box = Box{Window: box.Window, Sent: box.Sent, Open: box.Open}
	if open, counted := box.Open[event]; counted && open == 0 {
		delete(box.Open, event)
		return
	}
	state, resolved := string(Firing), held.Count-held.Fired-held.Goes
	var parts []string
	if held.Fired > 0 {
		parts = append(parts, say.Many(held.Fired, "alert fired", "alerts fired"))
	}
	if held.Goes > 0 {
		parts = append(parts, say.Many(held.Goes, "alert goes on", "alerts go on"))
	}
	if parts == nil {
		state = string(Resolved)
	}
	if resolved > 0 {
		parts = append(parts, say.Many(resolved, "alert was resolved", "alerts were resolved"))
	}
	text := strings.Join(held.Titles, "\n")
	if more := held.Count - len(held.Titles); more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	p.messages = append(p.messages, Message{Event: event, Type: grapnel.EventAlertDigest, To: []string{r.ID},
		Data: Data{Rule: DigestRule, State: state, Severity: held.Severity, Tenant: p.tenant, Subject: about(p.tenant),
			Title: strings.Join(parts, ", "), Text: text, Since: held.Began, Count: held.Count, Alerts: held.Titles}})
}

// DigestRule is the rule that digests name, and the ends of their incidents.
const DigestRule = "digest"

// headline is the title of a change.
func headline(c *Change) string {
	switch c.Transition {
	case Resolve:
		return "Resolved: " + c.Alert.Title
	case Repeat:
		if c.Gathered {
			return cut(c.Alert.Title+": "+c.Alert.Text, mostTitle)
		}
		return "Still: " + c.Alert.Title
	case Worsen:
		return "Worse: " + c.Alert.Title
	}
	return c.Alert.Title
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// QuietUntil is the end of quiet hours that a time is in, in their time zone; zero: it is in none.
// Broken text of hours means no quiet hours, so that nothing is held for ever.
func QuietUntil(q *grapnel.QuietHours, zone *time.Location, now time.Time) time.Time {
	if q == nil {
		return time.Time{}
	}
	from, err1 := time.Parse("15:04", q.From)
	to, err2 := time.Parse("15:04", q.To)
	if err1 != nil || err2 != nil || q.From == q.To {
		return time.Time{}
	}
	local := now.In(zone)
	for _, day := range []int{-1, 0} { // those that began yesterday, and today
		begin := time.Date(local.Year(), local.Month(), local.Day()+day, from.Hour(), from.Minute(), 0, 0, zone)
		next := 0
		if to.Before(from) {
			next = 1
		}
		end := time.Date(local.Year(), local.Month(), local.Day()+day+next, to.Hour(), to.Minute(), 0, 0, zone)
		if !now.Before(begin) && now.Before(end) {
			return end
		}
	}
	return time.Time{}
}
