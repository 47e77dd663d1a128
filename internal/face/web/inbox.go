package web

import (
	"cmp"
	"net/url"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/wire"
)

// inboxModel is a list of requests to sources.
type inboxModel struct {
	pager
	Verdict verdict
	Views   []savedView
	Rows    []requestRow
	Empty   string
}

// requestRow is one request in a list.
type requestRow struct {
	Href, What string
	Key        string
	Pill       pill
	Why        string
	Size       string
	At         moment
}

// requestPills are the outcomes of requests.
var requestPills = map[client.IntakeOutcome]pill{
	wire.IntakeAccepted: {toneOK, "accepted"}, wire.IntakeUnverified: {toneBad, "quarantined"},
	wire.IntakeConflict: {toneWait, "conflict"}, wire.IntakeRefused: {toneBad, "refused"},
}

// requestNext is what follows from an outcome.
var requestNext = map[client.IntakeOutcome]string{
	wire.IntakeAccepted:   "It became an event, which is delivered to every endpoint that matches.",
	wire.IntakeUnverified: "It is in quarantine: it is stored and never delivered. If the provider is genuine, compare the secret of the source with the provider's.",
	wire.IntakeConflict:   "An earlier request has the same id and another body. The earlier one counts; this one is not delivered.",
	wire.IntakeRefused:    "It could not become an event and is not delivered.",
}

// inboxViews are the lists by outcome.
var inboxViews = []struct {
	name    string
	outcome client.IntakeOutcome
}{
	{"All", ""}, {"Accepted", wire.IntakeAccepted}, {"Quarantined", wire.IntakeUnverified}, {"Conflicts", wire.IntakeConflict},
	{"Refused", wire.IntakeRefused},
}

func inbox(v *visit) (inboxModel, error) {
	var m inboxModel
	q := v.URL.Query()
	f := client.InboxFilter{Source: q.Get("source"), Outcome: client.IntakeOutcome(q.Get("outcome")), Cursor: q.Get("cursor"),
		Limit: v.web.Bounds.Page}
	for _, w := range inboxViews {
		at := v.link("/inbox" + withQuery("source", f.Source, "outcome", string(w.outcome)))
		m.Views = append(m.Views, savedView{w.name, at, w.outcome == f.Outcome})
	}
	found, err := v.client.Inbox(v.Context(), f)
	if err != nil {
		return m, err
	}
	aside := 0
	for i := range found.Data {
		if found.Data[i].Outcome != wire.IntakeAccepted {
			aside++
		}
		m.Rows = append(m.Rows, v.requestRow(&found.Data[i]))
	}
	m.pager = v.pager("/inbox", f.Cursor, found.Next, "source", f.Source, "outcome", string(f.Outcome))
	number := say.Many(len(m.Rows), "request", "requests") + m.here()
	switch {
	case len(m.Rows) == 0:
		m.Verdict.say("No requests.", "", "")
		m.Empty = "No stored request matches. Refused requests of a source that rejects are counted on its page, not stored."
	case aside == 0:
		m.Verdict.say(number+", all accepted.", "", "")
	default:
		m.Verdict.say(number+"; "+say.Many(aside, "was", "were")+" not delivered.", "",
			"A quarantined request could not be verified, a conflict has the id of an earlier request and another body, and a refused one could not become an event.")
	}
	if f.Source == "" {
		return m, nil
	}
	s, err := v.client.Source(v.Context(), f.Source)
	if err != nil {
		return m, err
	}
	v.offerQuarantine(&m.Verdict, s)
	return m, nil
}

func (v *visit) requestRow(r *client.Request) requestRow {
	row := requestRow{Href: v.link("/inbox/" + r.ID), What: cmp.Or(r.Type, r.ID), Key: r.Key, Pill: pillIn(requestPills, r.Outcome),
		Why:  words.Instants(r.Reason),
		Size: say.Many(r.Size, "byte", "bytes"), At: v.at(r.ReceivedAt)}
	if r.Outcome == wire.IntakeAccepted {
		row.Why = ""
	}
	return row
}

// requestModel is one request to a source: its verification step by step, and what it was.
type requestModel struct {
	ID      string
	Pill    pill
	Verdict verdict
	Checks  []check
	Message message
	Facts   facts
}

// check is one step of the verification.
type check struct {
	Pill pill
	Text string
}

func inboxRequest(v *visit, r *client.Request) (requestModel, error) {
	src, err := optional(v.client.Source(v.Context(), r.SourceID))
	if err != nil {
		return requestModel{}, err
	}
	v.title = "Request " + r.ID
	m := requestModel{ID: r.ID, Pill: pillIn(requestPills, r.Outcome)}
	tone := m.Pill.Tone
	if tone == toneOK {
		tone = ""
	}
	m.Verdict.Pieces = []piece{{sentence(r.Reason), tone}}
	if r.Reason == "" {
		m.Verdict.Pieces = []piece{{"The request was " + m.Pill.Word + ".", tone}}
	}
	m.Verdict.Next = requestNext[r.Outcome]
	if src != nil && src.Waits && r.Outcome == wire.IntakeUnverified {
		m.Verdict.Next = "It waits for the secret of its source, which makes an event of it if the provider is genuine."
	}
	if r.EventID != "" {
		m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Look at the event", Href: v.link("/events/" + url.PathEscape(r.EventID))})
	}
	for _, c := range r.Checks {
		p := pill{toneOK, "passed"}
		if !c.Passed {
			p = pill{toneBad, "failed"}
		}
		m.Checks = append(m.Checks, check{p, c.Text})
	}
	m.Message = message{First: r.Method + " " + r.Path, Body: v.readable(r.Content())}
	if r.PayloadHidden {
		m.Message.Note = hiddenNote
	}
	if r.Erased {
		m.Message.Note = erasedNote
	}
	for _, h := range r.Headers {
		m.Message.Headers = append(m.Message.Headers, header{h.Name, h.Value})
	}
	m.facts(v, r, src)
	return m, nil
}

func (m *requestModel) facts(v *visit, r *client.Request, src *client.Source) {
	m.Facts.at("Received", v.at(r.ReceivedAt))
	name := r.SourceID
	if src != nil {
		name = src.Name
	}
	m.Facts.link("Source", name, v.link("/sources/"+url.PathEscape(r.SourceID)))
	turnedAway := r.Outcome == wire.IntakeUnverified || r.Outcome == wire.IntakeRefused
	if src != nil && src.Provider.RetriesFor != nil && turnedAway {
		m.Facts.add("Provider repeats", src.Provider.Retries)
	}
	m.Facts.add("From", r.Remote, "Event", r.EventID, "Type", r.Type, "Ordering key", r.Key)
	if r.KnownBy != nil {
		m.Facts.add("Duplicates have the same", string(r.KnownBy.By)+" "+r.KnownBy.Value)
	} else {
		m.Facts.add("Duplicates", "not recognised: a repeated request becomes another event")
	}
	m.Facts.add("Content type", r.ContentType, "Size", say.Many(r.Size, "byte", "bytes"), "Tenant", r.Tenant)
}
