package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// deadLettersModel lists deliveries that failed and need a decision, under a search.
type deadLettersModel struct {
	listing
	Groups  []deadGroup
	Counted string // what the counts are of
	Rows    []deadRow
	Replay  string // where selected ones are replayed; empty: the session may not
	Set     string // where they are noted on
	Bulk    bulk
}

// deadGroup counts dead letters of one endpoint with one reason.
type deadGroup struct {
	Endpoint, At string
	Reason       string
	Count        string
	Results      string // what the last attempts ended in
	Oldest       moment
	Left         string // time until retention deletes the first one
	Soon         bool
	Href, Replay string
	Discard      string // where the dead letters that Search finds are discarded; empty: the session may not
	Search       string

	n       int
	days    *int
	results tally[string]
}

// deadRow is one dead letter.
type deadRow struct {
	deliveryRow
	Reason string
	Note   string
	Left   string
	Soon   bool
}

const (
	soonDays   = 3 // retention deletes it so soon that it is marked
	mostGroups = 12
)

var deadViews = []namedSearch{
	{"All", ""}, {"Attempts used up", "reason:exhausted"}, {"Permanent errors", "reason:permanent"}, {"Expired", "reason:expired"},
	{"Rejected", "reason:rejected"}, {"Timed out", "error:timeout"}, {"Server errors", "code:5xx"},
}

func deadLetters(v *visit) (deadLettersModel, error) {
	s, err := v.listSearch()
	if err != nil {
		return deadLettersModel{}, err
	}
	m, f := deadLettersModel{listing: listing{Search: s, Views: v.searches("/dead-letters", deadViews, s.Text)}}, s.Filter
	if f.Status != nil {
		m.Search.Faults = append(m.Search.Faults, "Every dead letter has the status failed; status: changes nothing here.")
	}
	if len(s.Faults) > 0 {
		m.Verdict.Pieces = []piece{{"The search cannot be read.", toneBad}}
		m.Hint, m.Clear = "Nothing is selected while a word of the search cannot be read. Correct it in the box above.", v.link("/dead-letters")
		return m, nil
	}
	cursor := v.URL.Query().Get("cursor")
	counted, found, err := v.letters(f, cursor)
	if err != nil {
		return m, err
	}
	m.groups(v, counted.Data)
	seen := seenIn(found.Data)
	delete(seen, "status") // they all failed
	seen["since"] = nil    // there is no chart with times
	m.filters = v.filters("/dead-letters", &s, seen)
	switch {
	case cursor != "":
		m.Counted = "on this page"
	case counted.Next != "":
		m.Counted = "of the newest " + say.Count(len(counted.Data))
	}
	for i := range found.Data {
		d := &found.Data[i]
		row := deadRow{deliveryRow: v.deliveryRow(d), Reason: words.Reason(d.ReasonCode), Note: d.Note}
		row.Left, row.Soon = left(d.DaysLeft)
		m.Rows = append(m.Rows, row)
	}
	m.pager = v.pager("/dead-letters", cursor, found.Next, "q", s.Text)
	if v.mayDo("/dead-letters/replay") {
		m.Replay, m.Set = v.link("/dead-letters/replay"), v.link("/dead-letters/note")
	}
	m.Bulk = v.bulk("/dead-letters", &s, len(m.Rows), found.Next != "" || cursor != "")
	var exact *client.Overview
	if s.Text == "" && len(counted.Data) > 0 {
		if exact, err = v.client.Overview(v.Context(), ""); err != nil {
			return m, err
		}
	}
	m.answer(v, counted, exact)
	return m, nil
}

// letters are the dead letters that are counted and those of the page. The newest are counted if
// the first page is full; else those of the page: they are all, or a search has read its share.
func (v *visit) letters(f client.DeliveryFilter, cursor string) (counted, found *client.Page[client.Delivery], err error) {
	f.Limit, f.Cursor = v.web.Bounds.Page, cursor
	found, err = v.client.DeadLetters(v.Context(), f)
	if err != nil || f.Text != "" || cursor != "" || found.Next == "" || len(found.Data) < f.Limit {
		return found, found, err
	}
	f.Limit = v.web.Bounds.Letters
	counted, err = v.client.DeadLetters(v.Context(), f)
	return counted, found, err
}

// left is how long retention keeps a delivery.
func left(days *int) (text string, soon bool) {
	switch {
	case days == nil:
		return "never", false
	case *days <= 0:
		return "today", true
	}
	return say.Many(*days, "day", "days"), *days <= soonDays
}

// purgedIn is when retention deletes a delivery, as a sentence ends.
func purgedIn(days *int) string {
	text, _ := left(days)
	if *days > 0 {
		text = "in " + text
	}
	return text
}

// groups counts by endpoint and reason.
func (m *deadLettersModel) groups(v *visit, all []client.Delivery) {
	type place struct {
		endpoint string
		reason   grapnel.ReasonCode
	}
	by := map[place]*deadGroup{}
	var order []*deadGroup
	for i := range all {
		d := &all[i]
		g := by[place{d.EndpointID, d.ReasonCode}]
		if g == nil {
			q := search{Text: m.Search.with("endpoint", d.EndpointID)}.with("reason", string(d.ReasonCode))
			g = &deadGroup{Endpoint: cmp.Or(d.EndpointName, d.EndpointID), At: v.ownerLink(d.EndpointID),
				Reason: words.Reason(d.ReasonCode), Href: v.link("/dead-letters" + withQuery("q", q)), Search: q}
			if m.mayStart(v) {
				g.Replay = v.link("/replays/new" + withQuery("q", q))
			}
			if v.mayDo("/dead-letters/discard") && d.ReasonCode != "" { // without it the search would find those of all reasons
				g.Discard = v.link("/dead-letters/discard")
			}
			by[place{d.EndpointID, d.ReasonCode}] = g
			order = append(order, g)
		}
		g.n++
		g.Oldest = v.at(d.CreatedAt)
		if d.DaysLeft != nil && (g.days == nil || *d.DaysLeft < *g.days) {
			g.days = d.DaysLeft
		}
		said := "no attempt"
		if d.Last != nil {
			said = words.Result(d.Last.StatusCode, d.Last.ErrorClass)
		}
		g.results.add(said)
	}
	slices.SortStableFunc(order, func(a, b *deadGroup) int { return b.n - a.n })
	for _, g := range order[:min(len(order), mostGroups)] {
		results := g.results.often()
		parts := slices.Clone(results[:min(len(results), 3)])
		if more := len(results) - len(parts); more > 0 {
			parts = append(parts, say.Many(more, "other", "others"))
		}
		g.Results, g.Count = say.List(parts), say.Count(g.n)
		g.Left, g.Soon = left(g.days)
		m.Groups = append(m.Groups, *g)
	}
}

func (m *deadLettersModel) mayStart(v *visit) bool { return v.mayDo("/replays/start") }

// answer is the sentence above the list, and what to do. exact counts all dead letters; nil: the
// list is of a search.
func (m *deadLettersModel) answer(v *visit, counted *client.Page[client.Delivery], exact *client.Overview) {
	n := len(counted.Data)
	if n == 0 {
		m.Hint, m.Clear = "Retention may have deleted older ones; a successful replay takes them off this list too.", v.link("/dead-letters")
		m.Verdict.Pieces = []piece{{"No dead letters match.", ""}}
		switch {
		case counted.Next != "":
			m.Hint = "A search looks at one part of the dead letters at a time; older ones may match."
			m.Clear = ""
		case m.Search.Text == "":
			m.Verdict.Pieces = []piece{{"There are no dead letters.", ""}}
			m.Hint = "A delivery that fails for good is stored here until it is replayed with success, discarded, or deleted by retention."
			m.Clear = ""
		}
		return
	}
	endpoints := map[string]bool{}
	var first *int
	for i := range counted.Data {
		d := &counted.Data[i]
		endpoints[d.EndpointID] = true
		if d.DaysLeft != nil && (first == nil || *d.DaysLeft < *first) {
			first = d.DaysLeft
		}
	}
	number := say.AtLeast(n, counted.Next != "" || m.Newest != "", "delivery has", "deliveries have") // a search that goes on need not find more
	m.Verdict.Pieces = []piece{{number + " failed for good", toneBad}, {" at " + say.Many(len(endpoints), "endpoint", "endpoints") + ".", ""}}
	if exact != nil {
		m.Verdict.Pieces = []piece{{words.DeadLetters(exact), toneBad}}
	}
	if counted.Next == "" && first != nil {
		m.Verdict.Next = "Retention deletes the first one " + purgedIn(first) + "."
	}
	m.Verdict.Next = strings.TrimSpace("They are stored with their original bytes. " + m.Verdict.Next)
	m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Issues", Href: v.link("/issues")})
	if m.mayStart(v) {
		label := "Replay All Failed"
		if m.Search.Text != "" {
			label = "Replay all that match"
		}
		replay := act{Label: label, Href: v.link("/replays/new" + withQuery("q", m.Search.Text)), Main: true}
		m.Verdict.Acts = append([]act{replay}, m.Verdict.Acts...)
	}
}

// replayLetters leads to the preview of a replay of the ticked ones.
func replayLetters(v *visit) (string, error) {
	if v.PostForm.Get("all") != "" {
		v.goTo("/replays/new" + withQuery("q", v.PostForm.Get("q")))
		return "", nil
	}
	ids, _, err := v.picked()
	if err != nil || len(ids) == 0 {
		return nothingSelected, err
	}
	if _, err := v.named(ids); err != nil {
		return "", err
	}
	v.goTo("/replays/new?" + url.Values{"id": ids}.Encode())
	return "", nil
}

func discardLetters(v *visit) (string, error) {
	reason := cmp.Or(strings.TrimSpace(v.PostForm.Get("note")), byDashboard)
	return v.eachPicked("delivery was", "deliveries were", "discarded", func(id string) error {
		_, err := v.client.Discard(v.Context(), id, reason)
		return err
	})
}

func noteLetters(v *visit) (string, error) {
	note := strings.TrimSpace(v.PostForm.Get("note"))
	return v.eachPicked("dead letter was", "dead letters were", "noted on", func(id string) error {
		_, err := v.client.Note(v.Context(), id, note)
		return err
	})
}

// filterFlags are the conditions of a filter, but for the statuses, as flags of the command line.
func filterFlags(f client.DeliveryFilter) (words []string) {
	flag := func(name, value string) {
		if value != "" {
			words = append(words, "--"+name+" "+shellQuote(value))
		}
	}
	flag("endpoint", f.Endpoint)
	flag("type", f.Type)
	flag("event-key", f.Key)
	flag("tenant", f.Tenant)
	flag("error-class", string(f.ErrorClass))
	flag("reason-code", string(f.ReasonCode))
	if f.StatusCode != 0 {
		flag("status-code", fmt.Sprint(f.StatusCode))
	}
	flag("text", f.Text)
	if !f.From.IsZero() {
		flag("from", f.From.UTC().Format(time.RFC3339))
	}
	if !f.To.IsZero() {
		flag("to", f.To.UTC().Format(time.RFC3339))
	}
	return words
}
