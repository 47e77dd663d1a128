// Package statuspage makes the public status page from the last report of package promise and the
// incidents that operators wrote: as HTML, JSON, RSS and an SVG badge.
//
// What holds here: a request reads bytes in memory and nothing else, so strangers cost no access to
// a store, and the page is served while the store fails. The bytes have shares and times, never
// counts, and nothing of a tenant: no name, no endpoint, no URL. Text of incidents is escaped
// wherever it stands.
//
// What it does not promise: that the page is up when the server is not. A copy on another machine
// (grapnel status export) is for that.
package statuspage

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

// Page is everything that the page says, and its JSON.
type Page struct {
	Status     string      `json:"status" enum:"ok,unavailable"`
	Events     string      `json:"events" enum:"accepted,refused" doc:"new ones"`
	Detail     string      `json:"detail"`
	Version    string      `json:"version"`
	State      State       `json:"state" enum:"operational,maintenance,degraded,outage,unknown"`
	Verdict    string      `json:"verdict"`
	At         time.Time   `json:"at" nullable:"true"` // of the sample; zero: nothing was measured yet
	Components []Component `json:"components" nullable:"false"`
	Promises   []Promise   `json:"promises" nullable:"false"`
	Latency    []Latency   `json:"latency" nullable:"false"`
	Incidents  []Incident  `json:"incidents" nullable:"false" doc:"the newest first"`
	Planned    []Incident  `json:"maintenance" nullable:"false" doc:"planned or under way, the next first"`
}

// State is how something does, from best to worst.
type State string

// The states.
const (
	Operational State = "operational"
	Maintenance State = "maintenance"
	Degraded    State = "degraded"
	Outage      State = "outage"
	Unknown     State = "unknown" // not measured
)

// Component is a part of the server as its users see it.
type Component struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Says  string `json:"says"`
	State State  `json:"state" enum:"operational,maintenance,degraded,outage,unknown"`
	Good  string `json:"good" doc:"share of 28 days; empty: nothing was measured"`
	Days  []Day  `json:"days" nullable:"false"`
}

// Day is one bar.
type Day struct {
	Date  string `json:"date"`
	State State  `json:"state" enum:"operational,maintenance,degraded,outage,unknown"`
	Says  string `json:"says"`
}

// Promise is a promise with its budget in words.
type Promise struct {
	Title     string  `json:"title"`
	Objective string  `json:"objective"`
	Says      string  `json:"says"`
	Kept      string  `json:"kept"`
	Budget    string  `json:"budget"`
	Left      float64 `json:"left" doc:"part of the budget that is left"`
	State     State   `json:"state" enum:"operational,maintenance,degraded,outage,unknown"`
}

// Latency are durations in words over the last day.
type Latency struct {
	Title string `json:"title"`
	P50   string `json:"p50"`
	P95   string `json:"p95"`
	P99   string `json:"p99"`
}

// Incident is one incident or maintenance.
type Incident struct {
	ID         string    `json:"id"`
	Title      string    `json:"title"`
	Impact     string    `json:"impact"`
	Components []string  `json:"components" nullable:"false"`
	Status     string    `json:"status"`
	Open       bool      `json:"open"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to,omitzero"`
	Updates    []Update  `json:"updates" nullable:"false"`
}

// Update is one message.
type Update struct {
	At     time.Time `json:"at"`
	Status string    `json:"status"`
	Text   string    `json:"text"`
}

// Limits of what a page shows, so that its size has a bound.
const (
	mostIncidents = 15
	mostUpdates   = 10
)

// components are the parts, with the indicator of each and the share of failures that is nothing to
// see.
var components = []struct {
	id, name, says string
	days           func(*promise.Report) []promise.Day
	budget         float64
}{
	{"accepting", "Accepting events", "publishes through the API", func(r *promise.Report) []promise.Day { return r.Accept }, .0005},
	{"delivering", "Delivering", "first attempts within two seconds", func(r *promise.Report) []promise.Day {
		if v := r.Of(promise.Freshness); v != nil {
			return v.Days
		}
		return nil
	}, .01},
	{"receiving", "Receiving webhooks", "requests from providers", func(r *promise.Report) []promise.Day { return r.Receive }, .0005},
	{"dashboard", "Dashboard and API", "everything else", func(r *promise.Report) []promise.Day { return r.Serve }, .001},
}

// Names are the components' names by id.
func Names() map[string]string {
	all := map[string]string{}
	for _, c := range components {
		all[c.id] = c.name
	}
	return all
}

// New makes a page of a server that accepts events; Refusing changes that.
func New(r promise.Report, all []wire.Incident) Page {
	p := Page{Status: "ok", Events: "accepted", Version: grapnel.Version, At: r.At.UTC().Truncate(time.Second),
		Components: []Component{}, Promises: []Promise{}, Latency: []Latency{}, Incidents: []Incident{}, Planned: []Incident{}}
	p.addIncidents(r.At, all)
	for i := range components {
		p.Components = append(p.Components, p.component(i, &r))
	}
	for i := range r.Promises {
		if v := &r.Promises[i]; v.Share > 0 {
			p.Promises = append(p.Promises, promised(v, r.At))
		}
	}
	titles := map[promise.Indicator]string{promise.Accept: "Answering a publish", promise.Receive: "Answering a provider",
		promise.Dispatch: "From commit to attempt", promise.Arrive: "From commit to receipt"}
	for _, l := range r.Latency {
		if l.Known {
			p.Latency = append(p.Latency, Latency{titles[l.Of], say.Took(l.P50), say.Took(l.P95), say.Took(l.P99)})
		}
	}
	p.judge(&r)
	return p
}

// judge says in a sentence how the server does.
func (p *Page) judge(r *promise.Report) {
	p.State, p.Verdict, p.Detail = Operational, "Grapnel accepts events and delivers them.", "All parts work now."
	for _, kept := range p.Promises {
		if kept.State == Outage {
			p.Detail += " " + kept.Title + " of these 28 days is below its promise."
		}
	}
	if len(p.Planned) > 0 {
		p.Detail += " Maintenance is planned for " + clock(p.Planned[0].From) + "."
	}
	for i := range r.Promises {
		if v := &r.Promises[i]; v.Fires() == "page" || v.Share >= 1 && v.Broken() {
			p.State, p.Verdict = Degraded, "Grapnel accepts events, but more goes wrong than it promises."
			p.Detail = "Grapnel accepts and delivers, slower or with more failures than promised. Accepted events are stored."
		}
	}
	for _, m := range p.Planned {
		if m.Status == "underway" {
			p.State, p.Verdict = Maintenance, "Maintenance is under way: "+m.Title
			p.Detail = "It is planned to end at " + m.To.Format("15:04 UTC on 2 January") + ". Grapnel accepts events unless the maintenance says otherwise."
		}
	}
	for i, in := range p.Incidents { // the open ones come first
		if in.Open && i == 0 {
			p.State, p.Verdict = Degraded, "We are working on an incident: "+in.Title
			p.Detail = "Grapnel accepts events. See the messages below."
		}
		if in.Open && in.Impact == "outage" {
			p.State = Outage
		}
	}
}

// Refusing is the page of a server that refuses new events; detail says why, for the public.
func (p Page) Refusing(detail string) Page {
	p.Status, p.Events, p.Detail, p.State, p.Verdict = "unavailable", "refused", detail, Outage, "Grapnel refuses new events right now."
	p.Components = slices.Clone(p.Components)
	for i := range p.Components {
		if c := &p.Components[i]; c.ID == "accepting" || c.ID == "receiving" {
			c.State = Outage
		}
	}
	return p
}

// component makes one component: its days, and its state now from incidents and from today.
func (p *Page) component(at int, r *promise.Report) Component {
	is := &components[at]
	c := Component{ID: is.id, Name: is.name, Says: is.says, State: Operational, Days: []Day{}}
	var sum promise.Count
	days := is.days(r)
	for i := range days {
		d := days[i]
		if d.All() == 0 && i < len(r.Ready) { // without traffic the samples of readiness say more than nothing
			d.Count = r.Ready[i].Count
		}
		sum.Good, sum.Bad = sum.Good+d.Good, sum.Bad+d.Bad
		c.Days = append(c.Days, day(&d, is.budget))
	}
	if sum.All() > 0 {
		c.Good = promise.Percent(float64(sum.Good) / float64(sum.All()))
	}
	for _, open := range slices.Concat(p.Planned, p.Incidents) {
		if open.Open && slices.Contains(open.Components, is.id) {
			c.State = worse(c.State, map[string]State{"outage": Outage, "degraded": Degraded}[open.Impact])
			if open.Status == "underway" {
				c.State = worse(c.State, Maintenance)
			}
		}
	}
	return c
}

// DayOf is a bar of counts; Date is like 2026-11-23.
func DayOf(date string, good, bad int64, budget float64) Day {
	at, _ := time.Parse(time.DateOnly, date)
	return day(&promise.Day{Date: at, Count: promise.Count{Good: good, Bad: bad}}, budget)
}

// day is one bar. Its colour is its share of failures: within the budget it is good.
func day(d *promise.Day, budget float64) Day {
	out := Day{Date: d.Date.Format(time.DateOnly), State: Unknown}
	date := d.Date.Format("2 January") + ": "
	if d.All() == 0 {
		out.Says = date + "not measured"
		return out
	}
	bad := float64(d.Bad) / float64(d.All())
	out.State = Operational
	switch {
	case bad > .05:
		out.State = Outage
	case bad > budget:
		out.State = Degraded
	}
	out.Says = date + promise.Percent(1-bad) + " good"
	if d.Slots > 0 {
		out.Says += ", failures in " + say.Spoken(time.Duration(d.Slots)*promise.Slot)
	}
	if d.Gaps > 0 {
		out.Says += ", not measured for " + say.Spoken(time.Duration(d.Gaps)*promise.Slot)
	}
	return out
}

var ranks = []State{Operational, Unknown, Maintenance, Degraded, Outage}

func worse(a, b State) State {
	if slices.Index(ranks, b) > slices.Index(ranks, a) {
		return b
	}
	return a
}

func promised(v *promise.Verdict, now time.Time) Promise {
	p := Promise{Title: v.Title, Objective: promise.Percent(v.Share), Says: v.Says, Kept: v.Kept(), Budget: v.Budget(now),
		Left: min(max(v.Left, 0), 1), State: Operational}
	switch {
	case v.Broken():
		p.State = Outage
	case v.Fires() != "":
		p.State = Degraded
	case !v.Judged:
		p.State = Unknown
	}
	return p
}

// addIncidents puts incidents of the last 28 days and maintenance that is not over on the page.
func (p *Page) addIncidents(now time.Time, all []wire.Incident) {
	for i := range all {
		in := &all[i]
		status := StatusAt(in, now)
		out := Incident{ID: in.ID, Title: in.Title, Impact: in.Impact, Components: in.Components, Status: status, From: in.StartsAt.UTC(),
			Open: status != "resolved" && status != "finished" && status != "planned", Updates: []Update{}}
		if in.EndsAt != nil {
			out.To = in.EndsAt.UTC()
		}
		if out.Components == nil {
			out.Components = []string{}
		}
		for _, u := range in.Updates[:min(len(in.Updates), mostUpdates)] {
			out.Updates = append(out.Updates, Update{u.At.UTC(), u.Status, u.Text})
		}
		over := status == "resolved" || status == "finished"
		switch {
		case in.Kind == "maintenance" && !over:
			p.Planned = append(p.Planned, out)
		case !over || out.To.After(now.Add(-promise.Window)):
			p.Incidents = append(p.Incidents, out)
		}
	}
	slices.SortStableFunc(p.Incidents, func(a, b Incident) int {
		if a.Open != b.Open {
			return map[bool]int{true: -1, false: 1}[a.Open]
		}
		return b.From.Compare(a.From)
	})
	slices.SortStableFunc(p.Planned, func(a, b Incident) int { return a.From.Compare(b.From) })
	p.Incidents = p.Incidents[:min(len(p.Incidents), mostIncidents)]
	p.Planned = p.Planned[:min(len(p.Planned), mostIncidents)]
}

// StatusAt is an incident's status at a time: that of maintenance follows the clock until an update
// ends it.
func StatusAt(in *wire.Incident, now time.Time) string {
	switch {
	case in.Kind != "maintenance" || in.Status == "finished":
		return in.Status
	case in.EndsAt != nil && !in.EndsAt.After(now):
		return "finished"
	case !in.StartsAt.After(now):
		return "underway"
	}
	return "planned"
}

func clock(at time.Time) string { return at.UTC().Format("2 January, 15:04 UTC") }
