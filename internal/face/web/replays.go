package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// replaysModel lists replays.
type replaysModel struct {
	pager
	Verdict verdict
	Views   []savedView
	Rows    []replayRow
	Empty   string
}

// replayRow is one replay and how far it is.
type replayRow struct {
	ID, Href     string
	Pill         pill
	Endpoint, At string
	What         string // its selection
	Progress     string
	Bar          template.HTML
	Failed       string
	Started      moment
	ETA          moment
}

// replayPill is the state of a replay.
func replayPill(r *client.Replay) pill {
	switch r.Status {
	case grapnel.ReplayRunning:
		return pill{toneWait, "running"}
	case grapnel.ReplayPaused:
		return pill{toneHold, "paused"}
	case grapnel.ReplayCompleted:
		if r.Failed > 0 {
			return pill{toneBad, "completed"}
		}
		return pill{toneOK, "completed"}
	case grapnel.ReplayStopped:
		return pill{toneBad, "stopped"}
	}
	return pill{toneNone, string(r.Status)}
}

func replays(v *visit) (replaysModel, error) {
	query := v.URL.Query()
	var m replaysModel
	f := client.ReplayFilter{Endpoint: query.Get("endpoint"), Active: query.Get("active") != "", Limit: v.web.Bounds.Page, Cursor: query.Get("cursor")}
	ids := query["id"]
	m.Views = []savedView{{"All", v.link("/replays"), !f.Active && len(ids) == 0 && f.Endpoint == ""}, {"Not finished", v.link("/replays?active=1"), f.Active}}
	found := &client.Page[client.Replay]{}
	var err error
	if len(ids) > 0 {
		m.Views = append(m.Views, savedView{"Started together", v.link(v.here()), true})
		found.Data, err = v.together(ids)
	} else {
		found, err = v.client.Replays(v.Context(), f)
	}
	if err != nil {
		return m, err
	}
	for i := range found.Data {
		m.Rows = append(m.Rows, v.replayRow(&found.Data[i]))
	}
	m.pager = v.pager("/replays", f.Cursor, found.Next, "endpoint", f.Endpoint, "active", query.Get("active"))
	m.answer(v, found.Data)
	return m, nil
}

// together are replays that were started by one button.
func (v *visit) together(ids []string) ([]client.Replay, error) {
	if len(ids) > v.web.Bounds.Plans {
		return nil, refused(http.StatusBadRequest, "Too many replays are named.", "Name at most "+say.Count(v.web.Bounds.Plans)+".")
	}
	return allOf(v, (*client.Client).Replay, ids)
}

func (v *visit) replayRow(r *client.Replay) replayRow {
	row := replayRow{
		ID: r.ID, Href: v.link("/replays/" + url.PathEscape(r.ID)), Pill: replayPill(r), Endpoint: cmp.Or(r.EndpointName, r.EndpointID),
		At: v.ownerLink(r.EndpointID), What: selected(&r.Selection), Progress: say.Count(r.Done) + " of " + say.Count(r.Total),
		Started: v.at(r.StartedAt), Bar: progress(r),
	}
	if r.Failed > 0 {
		row.Failed = say.Count(r.Failed) + " failed"
	}
	if !r.Status.Final() {
		row.ETA = v.atOr(r.ETA)
	}
	return row
}

func progress(r *client.Replay) template.HTML {
	return drawn(picture.Progress(r.Delivered, r.Failed, r.Made-r.Done, r.Total,
		fmt.Sprintf("%d of %d delivered, %d failed, %d on their way.", r.Delivered, r.Total, r.Failed, r.Made-r.Done)))
}

// selected says in words which deliveries a replay is about.
func selected(s *client.Selection) string {
	if s.Deliveries > 0 {
		return say.Many(s.Deliveries, "delivery", "deliveries") + " picked by name"
	}
	parts := []string{strings.TrimSuffix(sentence(strings.TrimSpace(say.List(texts(s.Status))+" deliveries")), ".")}
	if len(s.EventTypes) > 0 {
		parts = append(parts, "of type "+say.List(s.EventTypes))
	}
	if len(s.Keys) > 0 {
		parts = append(parts, "with the key "+say.List(s.Keys))
	}
	if s.ErrorClass != "" {
		parts = append(parts, "whose last attempt ended with "+words.Result(0, s.ErrorClass))
	}
	if s.StatusCode != 0 {
		parts = append(parts, fmt.Sprintf("answered with %d", s.StatusCode))
	}
	if s.From != nil {
		parts = append(parts, "accepted from "+s.From.UTC().Format("2 Jan 15:04 UTC"))
	}
	if s.To != nil {
		parts = append(parts, "until "+s.To.UTC().Format("2 Jan 15:04 UTC"))
	}
	if s.Again {
		parts = append(parts, "also those delivered again or discarded already")
	}
	return strings.Join(parts, ", ")
}

// answer is the sentence above the list: what runs now, else what became of the last one.
func (m *replaysModel) answer(v *visit, all []client.Replay) {
	if v.mayDo("/replays/start") {
		m.Verdict.Acts = []act{{Label: "Replay deliveries", Href: v.link("/replays/new")}}
	}
	if len(all) == 0 {
		m.Verdict.Pieces = []piece{{"No replay is listed here.", ""}}
		m.Empty = "A replay delivers finished deliveries again, as a job that survives restarts."
		m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Look at the dead letters", Href: v.link("/dead-letters"), Main: true})
		return
	}
	active, done, total, failed, paused := 0, 0, 0, 0, 0
	for i := range all {
		if r := &all[i]; !r.Status.Final() {
			active++
			done, total, failed = done+r.Delivered, total+r.Total, failed+r.Failed
			if r.Status == grapnel.ReplayPaused {
				paused++
			}
		}
	}
	here := m.here()
	switch {
	case active == 0 && len(v.URL.Query()["id"]) > 0:
		for i := range all {
			done, total, failed = done+all[i].Delivered, total+all[i].Total, failed+all[i].Failed
		}
		m.Verdict.Pieces = []piece{{say.Many(len(all), "replay has", "replays have") + " finished: " + say.Count(done) + " of " + say.Many(total, "delivery", "deliveries") + " arrived", ""}}
	case active == 0:
		m.Verdict.Pieces = []piece{{"No replay" + here + " is running", ""}}
	case paused == active:
		m.Verdict.Pieces = []piece{{say.Many(paused, "replay"+here+" is paused", "replays"+here+" are paused"), toneHold}, {" after " + say.Count(done) + " of " + say.Many(total, "delivery", "deliveries"), ""}}
	default:
		m.Verdict.Pieces = []piece{{say.Many(active-paused, "replay"+here+" is running", "replays"+here+" are running") + ": " +
			say.Count(done) + " of " + say.Many(total, "delivery has", "deliveries have") + " arrived", ""}}
	}
	if failed > 0 {
		m.Verdict.Pieces = append(m.Verdict.Pieces, piece{"; ", ""}, piece{say.Count(failed) + " failed", toneBad})
	}
	m.Verdict.Pieces = append(m.Verdict.Pieces, piece{".", ""})
	stopped := 0
	for i := range all {
		if all[i].Status == grapnel.ReplayStopped {
			stopped++
		}
	}
	if stopped > 0 {
		m.Verdict.Next = say.Many(stopped, "replay in this list has", "replays in this list have") + " stopped after failures; the page of each says why."
	}
}

func replaysTwin(v *visit) (string, url.Values) {
	path, q := cursored("/v1/replays", "endpoint")(v)
	if v.URL.Query().Get("active") != "" {
		q.Set("active", "true")
	}
	return path, q
}

func replaysCommand(v *visit) string {
	command := flagged("grapnel replay list", "endpoint")(v)
	if v.URL.Query().Get("active") != "" {
		command += " --active"
	}
	return command
}
