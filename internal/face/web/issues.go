package web

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// issuesModel lists issues, the one that failed last first.
type issuesModel struct {
	pager
	Verdict verdict
	Views   []savedView
	Rows    []issueRow
	Hint    string // why there are no rows
}

// issueRow is one issue.
type issueRow struct {
	Whose          whose
	Pill           pill
	Endpoint, Href string
	Result, Answer string
	Owner          string
	Spark          template.HTML
	Failures       string
	Last           moment
}

const mostOfAnswer = 80 // bytes of an issue's answer in a list

// issueViews are the states that the list can show, the usual one first.
var issueViews = []struct{ name, state string }{
	{"Unresolved", "open,acknowledged"}, {"Muted", "muted"}, {"Resolved", "resolved"}, {"All", "open,acknowledged,muted,resolved"},
}

func issues(v *visit) (issuesModel, error) {
	q := v.URL.Query()
	state, endpoint, cursor := cmp.Or(q.Get("state"), issueViews[0].state), q.Get("endpoint"), q.Get("cursor")
	var m issuesModel
	for _, view := range issueViews {
		at := v.link("/issues" + withQuery("state", view.state, "endpoint", endpoint))
		m.Views = append(m.Views, savedView{view.name, at, view.state == state})
	}
	found, err := v.client.Issues(v.Context(), client.IssueFilter{States: []string{state}, Endpoint: endpoint,
		Limit: v.web.Bounds.Page, Cursor: cursor})
	if err != nil {
		return m, err
	}
	for i := range found.Data {
		m.Rows = append(m.Rows, v.issueRow(&found.Data[i]))
	}
	m.pager = v.pager("/issues", cursor, found.Next, "state", state, "endpoint", endpoint)
	m.answer(found, state)
	return m, nil
}

// answer is the sentence above the list.
func (m *issuesModel) answer(found *client.Page[client.Issue], state string) {
	n, open := len(found.Data), 0
	for i := range found.Data {
		if found.Data[i].State == "open" {
			open++
		}
	}
	more := found.Next != "" || m.Newest != "" // other pages may have open ones
	switch {
	case n == 0 && state == issueViews[0].state:
		m.Verdict.Pieces = []piece{{"No issue is open.", ""}}
		m.Hint = "Failures that look alike become an issue a few seconds after the first one."
	case n == 0:
		m.Verdict.Pieces = []piece{{"There are no such issues.", ""}}
		m.Hint = "Choose another view above."
	case open > 0:
		m.Verdict.say(say.AtLeast(open, more, "issue is open", "issues are open")+".", toneBad,
			"Acknowledge an issue that you take care of. It is resolved by itself once its endpoint delivers again.")
	case more:
		m.Verdict.Pieces = []piece{{say.Many(n, "issue", "issues") + " on this page, none open.", ""}}
	default:
		m.Verdict.Pieces = []piece{{say.Many(n, "issue", "issues") + ", none open.", ""}}
	}
}

func (v *visit) issueRow(i *client.Issue) issueRow {
	row := issueRow{Whose: v.whose(i.Tenant), Pill: issuePill(i), Endpoint: cmp.Or(i.EndpointName, i.EndpointID), Href: v.link("/issues/" + url.PathEscape(i.ID)),
		Result: words.Result(i.StatusCode, i.ErrorClass), Answer: say.Cut(i.Answer, mostOfAnswer), Owner: i.Owner, Failures: say.Count(i.Failures), Last: v.at(i.LastSeen)}
	if i.Regressions > 0 {
		row.Result += ", came back " + say.Many(i.Regressions, "time", "times")
	}
	row.Spark = issueSpark(i)
	return row
}

func issuePill(i *client.Issue) pill {
	tone := map[string]string{"open": toneBad, "acknowledged": toneWait, "muted": toneHold, "resolved": toneOK}[i.State]
	return pill{tone, i.State}
}

// issueSpark is the line of the failures by the hour.
func issueSpark(i *client.Issue) template.HTML {
	values := make([]float64, len(i.Hours))
	for n, failed := range i.Hours {
		values[n] = float64(failed)
	}
	return drawn(picture.Spark(values, toneBad, "Failures in each of the last 48 hours, at most "+say.Count(slices.Max(append(i.Hours, 0)))+" in one."))
}

func issuesTwin(v *visit) (string, url.Values) {
	q := v.URL.Query()
	return "/v1/issues", given("state", cmp.Or(q.Get("state"), issueViews[0].state), "endpoint", q.Get("endpoint"), "cursor", q.Get("cursor"))
}

func issuesCommand(v *visit) string {
	_, q := issuesTwin(v)
	return flagged("grapnel issues list --state "+shellQuote(q.Get("state")), "endpoint")(v)
}

// issueModel is one issue.
type issueModel struct {
	Pill       pill
	Name, At   string
	Verdict    verdict
	Spark      template.HTML
	Causes     []causeRow
	Deliveries []deliveryRow
	Facts      []fact
	Owner      string
	Note       string
	Set        string // where owner and note are set; empty: the session may not
}

func issuePage(v *visit, i *client.Issue) (issueModel, error) {
	m := issueModel{Pill: issuePill(i), Name: cmp.Or(i.EndpointName, i.EndpointID),
		At:    v.link("/endpoints/" + url.PathEscape(i.EndpointID)),
		Spark: issueSpark(i), Owner: i.Owner, Note: i.Note}
	v.title = "Issue of " + m.Name
	m.Verdict.Pieces = []piece{{i.Sentence, ""}}
	if i.State == "open" {
		m.Verdict.Pieces[0].Tone = toneBad
	}
	if w := i.Why; w != nil {
		m.Verdict.Next = w.Sentence
		for n := range w.Causes {
			m.Causes = append(m.Causes, v.causeRow(w, &w.Causes[n]))
		}
	}
	for _, id := range i.DeliveryIDs {
		d, err := v.client.Delivery(v.Context(), id)
		if err != nil {
			continue // retention has deleted it
		}
		m.Deliveries = append(m.Deliveries, v.deliveryRow(d))
	}
	m.facts(v, i)
	return m, m.acts(v, i)
}

func (m *issueModel) facts(v *visit, i *client.Issue) {
	about := ""
	if i.Approximate {
		about = "about "
	}
	m.Facts = []fact{
		{Name: "Result", Value: words.Result(i.StatusCode, i.ErrorClass)}, {Name: "Answer", Value: i.Answer}, {Name: "Failed attempts", Value: say.Count(i.Failures)},
		{Name: "Deliveries", Value: about + say.Count(i.Deliveries)}, {Name: "Ordering keys", Value: about + say.Count(i.Keys)},
		{Name: "First", At: v.at(i.FirstSeen)}, {Name: "Last", At: v.at(i.LastSeen)},
	}
	if i.Regressions > 0 {
		m.Facts = append(m.Facts, fact{Name: "Came back", Value: say.Many(i.Regressions, "time", "times") + ", last", At: v.atOr(i.ReopenedAt)})
	}
	if i.ChangedBy != "" {
		m.Facts = append(m.Facts, fact{Name: sentenceCase(i.State), Value: "by " + i.ChangedBy, At: v.atOr(i.ChangedAt)})
	}
	if i.State != "resolved" {
		m.Facts = append(m.Facts, fact{Name: "Resolved by itself after", Value: say.Many(i.ResolvesIn, "success", "successes") + " since the last failure"})
	}
	m.Facts = slices.DeleteFunc(m.Facts, func(f fact) bool { return f.Value == "" && !f.At.Set() })
}

// acts are the buttons that the session may press in the issue's state.
func (m *issueModel) acts(v *visit, i *client.Issue) error {
	add := func(verb, label string, main bool) {
		v.offer(&m.Verdict, "/issues/{id}/"+verb, i.ID, act{Label: label, Main: main})
	}
	if i.State == "resolved" {
		add("reopen", "Open again", false)
	} else {
		if i.State != "acknowledged" {
			add("acknowledge", "Acknowledge", true)
		}
		if i.State != "muted" {
			add("mute", "Mute 24 h", false)
		}
		add("resolve", "Resolve", false)
	}
	m.Set = v.ifMay("/issues/{id}/set")
	return v.offerIssue(&m.Verdict, i)
}

// issueSearch finds the dead letters that ended as the issue's failures did.
func issueSearch(i *client.Issue) string {
	s := search{Text: "endpoint:" + i.EndpointID + " status:failed"}
	if i.EventsFrom != nil {
		s.Text = s.with("from", i.EventsFrom.UTC().Format(time.RFC3339Nano))
	}
	if i.ErrorClass == "other" {
		return s.Text
	}
	s.Text = s.with("error", string(i.ErrorClass))
	if i.StatusCode > 0 {
		s.Text = s.with("code", strconv.Itoa(i.StatusCode))
	}
	return s.Text
}

// setIssue makes the action that gives an issue a state.
func setIssue(state, notice string) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		changes := client.IssueChanges{State: state}
		if state == "muted" {
			until := v.now.Add(24 * time.Hour)
			changes.MutedUntil = &until
		}
		_, err := v.client.ChangeIssue(v.Context(), v.PathValue("id"), changes)
		return notice, err
	}
}

// noteIssue sets owner and note, or removes them: those that differ from what the form showed.
func noteIssue(v *visit) (string, error) {
	changes := map[string]any{}
	for _, name := range []string{"owner", "note"} {
		text := strings.TrimSpace(v.PostForm.Get(name))
		if !v.PostForm.Has("was-"+name) || text != strings.TrimSpace(v.PostForm.Get("was-"+name)) {
			changes[name] = text
		}
	}
	if len(changes) == 0 {
		return "Nothing was changed.", nil
	}
	return "Saved.", v.patch("/v1/issues/{id}", changes)
}

// offerIssue offers to retry the pending deliveries of an issue, and to replay its dead letters.
func (v *visit) offerIssue(to *verdict, i *client.Issue) error {
	f := client.DeliveryFilter{Endpoint: i.EndpointID, StatusCode: i.StatusCode, Limit: mostCounted}
	if i.ErrorClass != "other" {
		f.ErrorClass = i.ErrorClass
	}
	if i.EventsFrom != nil {
		f.From = *i.EventsFrom
	}
	if v.mayDo("/replays/start") {
		n, err := counted(v.client.DeadLetters(v.Context(), f))
		if err != nil {
			return err
		}
		if n != "" {
			to.Acts = append(to.Acts, act{Label: "Replay these " + n, Href: v.link("/replays/new" + withQuery("q", issueSearch(i)))})
		}
	}
	if v.mayDo("/issues/{id}/retry") {
		f.From, f.Status = time.Time{}, waitingStatuses
		n, err := counted(v.client.Deliveries(v.Context(), f))
		if err != nil {
			return err
		}
		if n != "" {
			v.offer(to, "/issues/{id}/retry", i.ID, act{Label: "Retry the " + n + " that wait"})
		}
	}
	return nil
}
