package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// replayModel is one replay: how far it is, what failed, and what it is about.
type replayModel struct {
	pager
	ID           string
	Pill         pill
	Endpoint, At string
	Verdict      verdict
	Bar          template.HTML
	Figures      []fact
	Failed       []itemRow
	FailedOf     string // what the failed ones were looked for in
	Items        []itemRow
	Facts        []fact
}

// itemRow is a delivery that a replay made.
type itemRow struct {
	ID, Href     string
	Name, Key    string // of the event
	Pill         pill
	Original, At string // the delivery that it repeats
	Made         moment
}

const mostItems = 20

func replayPage(v *visit, r *client.Replay) (replayModel, error) {
	m := replayModel{ID: r.ID, Pill: replayPill(r), Endpoint: cmp.Or(r.EndpointName, r.EndpointID),
		At:  v.ownerLink(r.EndpointID),
		Bar: progress(r)}
	v.title = "Replay to " + m.Endpoint
	cursor := v.URL.Query().Get("cursor")
	items, err := v.client.ReplayItems(v.Context(), r.ID, mostItems, cursor)
	if err != nil {
		return m, err
	}
	for i := range items.Data {
		m.Items = append(m.Items, v.itemRow(&items.Data[i]))
	}
	m.pager = v.pager("/replays/"+url.PathEscape(r.ID), cursor, items.Next)
	if err := m.failures(v, r); err != nil {
		return m, err
	}
	m.answer(v, r)
	m.facts(v, r)
	return m, nil
}

// itemRow names the delivery by its event's type and key, or by its id if retention has deleted it.
func (v *visit) itemRow(i *client.ReplayItem) itemRow {
	to := func(id string) string { return v.link("/deliveries/" + url.PathEscape(id)) }
	return itemRow{ID: i.DeliveryID, Name: cmp.Or(i.Type, i.DeliveryID), Key: i.Key, Href: to(i.DeliveryID), Pill: deliveryPill(i.Status, 0),
		Original: i.OriginalID, At: to(i.OriginalID), Made: v.at(i.MadeAt)}
}

// failures finds what failed among the first items of a replay. The API lists items in the order of
// their creation only.
func (m *replayModel) failures(v *visit, r *client.Replay) error {
	if r.Failed == 0 {
		return nil
	}
	items, err := v.client.ReplayItems(v.Context(), r.ID, v.web.Bounds.Letters, "")
	if err != nil {
		return err
	}
	for i := range items.Data {
		if status := items.Data[i].Status; status.Final() && status != grapnel.Delivered && len(m.Failed) < v.web.Bounds.Page {
			m.Failed = append(m.Failed, v.itemRow(&items.Data[i]))
		}
	}
	if len(m.Failed) < r.Failed {
		m.FailedOf = fmt.Sprintf("the first %s of %s", say.Count(len(m.Failed)), say.Count(r.Failed))
	}
	return nil
}

// answer is the sentence of the page, what follows, and what can be done.
func (m *replayModel) answer(v *visit, r *client.Replay) {
	of := say.Count(r.Delivered) + " of " + say.Many(r.Total, "delivery", "deliveries")
	underway, rest := r.Made-r.Done, max(r.Total-r.Made, 0)
	add := func(text, tone string) { m.Verdict.Pieces = append(m.Verdict.Pieces, piece{text, tone}) }
	switch {
	case r.Status == grapnel.ReplayPaused:
		add("Paused", toneHold)
		add(": "+of+" arrived", "")
	case r.Status == grapnel.ReplayStopped:
		add("Stopped", toneBad)
		add(": "+of+" arrived", "")
	case r.Status == grapnel.ReplayCancelled:
		add("Cancelled: "+of+" arrived", "")
	case r.Status == grapnel.ReplayCompleted && r.Delivered == r.Total:
		add(number(r.Total)+" arrived", "")
	default:
		add(of+" arrived", "")
	}
	if r.Failed > 0 {
		add("; ", "")
		add(say.Count(r.Failed)+" failed", toneBad)
	}
	add(".", "")
	var next []string
	if r.Reason != "" {
		next = append(next, sentence(r.Reason))
	}
	if underway > 0 {
		next = append(next, say.Many(underway, "delivery is on its way or waits", "deliveries are on their way or wait")+" for the next attempt.")
	}
	switch {
	case r.Status.Final() && rest > 0 && r.Status != grapnel.ReplayCompleted:
		next = append(next, say.Many(rest, "delivery was", "deliveries were")+" not repeated; their originals are unchanged.")
	case !r.Status.Final() && r.ETA != nil && r.ETA.After(v.now):
		next = append(next, "At this pace it is finished in "+say.Spoken(r.ETA.Sub(v.now))+".")
	case r.Status == grapnel.ReplayRunning && r.Reason == "" && r.Made < r.Total:
		next = append(next, "Its pace is being measured, so no end is named yet. It goes on after a restart of the server; this page may be closed.")
	case !r.Status.Final():
		next = append(next, "It goes on after a restart of the server; this page may be closed.")
	}
	m.Verdict.Next = strings.Join(next, " ")
	m.acts(v, r)
}

// number is all of several.
func number(n int) string {
	if n == 1 {
		return "The delivery has"
	}
	return "All " + say.Count(n) + " deliveries have"
}

func (m *replayModel) acts(v *visit, r *client.Replay) {
	switch r.Status {
	case grapnel.ReplayRunning, grapnel.ReplayPaused:
		v.offerPause(&m.Verdict, "/replays/{id}", r.ID, r.Status == grapnel.ReplayPaused)
		v.offer(&m.Verdict, "/replays/{id}/cancel", r.ID, act{Label: "Cancel", Sure: "It repeats nothing more. What it has made goes on."})
	default:
		q := selection(r)
		if r.Made < r.Total && q != "" && v.mayDo("/replays/start") {
			m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Replay the rest", Href: v.link("/replays/new" + withQuery("q", q)), Main: true})
		}
		if len(m.Failed) > 0 && v.mayDo("/replays/start") {
			ids := url.Values{}
			for _, f := range m.Failed {
				ids.Add("id", f.ID)
			}
			m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Replay what failed", Href: v.link("/replays/new?" + ids.Encode()),
				Main: len(m.Verdict.Acts) == 0})
		}
	}
}

// selection is what a replay is about as a search; empty if a search cannot say it.
func selection(r *client.Replay) string {
	s := &r.Selection
	unknown := s.ErrorClass != "" && !slices.Contains(grammar.Classes(), s.ErrorClass)
	if s.Deliveries > 0 || len(s.EventTypes) > 1 || len(s.Keys) > 1 || unknown {
		return ""
	}
	all := []token{{"endpoint", r.EndpointID}, {"status", strings.Join(texts(s.Status), ",")}, {"type", strings.Join(s.EventTypes, "")},
		{"key", strings.Join(s.Keys, "")}, {"error", string(s.ErrorClass)}}
	if s.StatusCode != 0 {
		all = append(all, token{"code", strconv.Itoa(s.StatusCode)})
	}
	if s.From != nil {
		all = append(all, token{"from", s.From.UTC().Format(time.RFC3339Nano)})
	}
	if s.To != nil {
		all = append(all, token{"to", s.To.UTC().Format(time.RFC3339Nano)})
	}
	var words []string
	for _, t := range all {
		if t.value != "" {
			words = append(words, t.String())
		}
	}
	return strings.Join(words, " ")
}

func (m *replayModel) facts(v *visit, r *client.Replay) {
	rest := "To come"
	if r.Status.Final() {
		rest = "Not repeated"
	}
	m.Figures = append(m.Figures, fact{Name: "Arrived", Value: say.Count(r.Delivered)}, fact{Name: "Failed", Value: say.Count(r.Failed)},
		fact{Name: "On their way", Value: say.Count(r.Made - r.Done)}, fact{Name: rest, Value: say.Count(max(r.Total-r.Made, 0))})
	guard := "never"
	if r.StopAfter > 0 {
		guard = "after " + say.Many(r.StopAfter, "failure", "failures") + " in a row"
	}
	canary := "no"
	if r.Canary {
		canary = "yes"
	}
	m.Facts = []fact{{Name: "Selection", Value: selected(&r.Selection)}, {Name: "Rate", Value: fmt.Sprintf("at most %g per second", r.Rate)},
		{Name: "Stops by itself", Value: guard}, {Name: "One first", Value: canary},
		{Name: "Started", At: v.at(r.StartedAt)}, {Name: "By the key", Value: r.StartedBy}}
	if r.FinishedAt != nil {
		m.Facts = append(m.Facts, fact{Name: "Finished", At: v.at(*r.FinishedAt)})
	}
	m.Facts = append(m.Facts, fact{Name: "Tenant", Value: r.Tenant})
}
