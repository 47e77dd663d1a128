package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// wizardModel is the preview of a replay: which deliveries are delivered again, which are left out,
// and the form that starts it. Each endpoint has a replay of its own; they are started together.
type wizardModel struct {
	Search  search
	IDs     []string // deliveries that were picked by hand; empty: the search selects
	Again   bool
	Wider   string // the same search with all statuses; empty: it names its statuses
	Verdict verdict
	Rows    []planRow
	Notes   []string // what to know before it is started
	Preview string   // where the selection is changed
	Start   string   // where it is started; empty: there is nothing to start
	Button  string
	Count   string // where everything is counted, if the time was too short; empty: it is
	How     form   // how it runs
}

// planRow is what a replay of one endpoint would do.
type planRow struct {
	ID, Name, At string
	Where        string // its address, if the name is another
	Pill         pill
	Chosen       bool
	Total        string
	Keys, Chain  string
	Out          string // excluded deliveries, with reasons
	Problem      string // why it cannot be replayed
	Order        string // the request that starts it
}

const (
	usualRate = 20
	usualStop = 10
)

var wizardBlank = blank{of: reflect.TypeFor[wire.NewReplay](), rows: []input{
	{at: "rate", label: "Per second", help: "at most 10,000"},
	{at: "stop_after", label: "Stop after failures in a row", help: "Empty: never"},
	{at: "reason", label: "Reason", help: "for the audit"},
	{at: "canary", label: "Send one first", help: "and wait until it has arrived"},
}}

func wizard(v *visit) (wizardModel, error) {
	s, err := v.listSearch()
	if err != nil {
		return wizardModel{}, err
	}
	query := v.URL.Query()
	m := wizardModel{Search: s, IDs: query["id"], Again: query.Get("again") != "",
		Preview: v.link("/replays/new")}
	if m.How = v.form(&wizardBlank, nil, nil); !v.again() {
		m.How.set("rate", strconv.Itoa(usualRate))
		m.How.set("stop_after", strconv.Itoa(usualStop))
		m.How.find("/canary").On = true
	}
	if len(s.Faults) > 0 && len(m.IDs) == 0 { // a condition that is misspelt must not select everything
		m.Verdict = verdict{Pieces: []piece{{"The search cannot be read.", toneBad}}, Next: "Nothing is selected until it can be."}
		return m, nil
	}
	var c choice
	if len(s.Filter.Status) == 0 && len(m.IDs) == 0 {
		m.Wider = v.link("/replays/new" + withQuery("q", s.with("status", "failed,delivered,dropped")))
	}
	if len(m.IDs) > 0 {
		c, err = v.chooseNamed(m.IDs, m.Again)
	} else {
		c, err = v.choose(s.Filter, m.Again, query.Get("count") == "all")
	}
	if err != nil {
		return m, err
	}
	if m.Notes = c.notes; c.more {
		m.countAll(v, query)
	}
	if len(c.orders) > v.web.Bounds.Plans {
		m.Notes = append(m.Notes, fmt.Sprintf("These are the first %d of %d endpoints. Replay the others afterwards.",
			v.web.Bounds.Plans, len(c.orders)))
		c.orders = c.orders[:v.web.Bounds.Plans]
	}
	if err := m.plan(v, c.orders, query); err != nil || m.Start != "" || !v.again() {
		return m, err
	}
	m.How.Problems = []string{sentence(v.refusal.Error())} // the form is not drawn
	return m, nil
}

// plan asks the API what each order would do. One that is refused says so and is left out; the
// query names the endpoints that are ticked, or none. All plans together are counted for Counting,
// so that the page comes at once however much matches.
func (m *wizardModel) plan(v *visit, orders []order, query url.Values) error {
	only := query["endpoint"]
	var total client.ReplayPlan
	started, longest, waiting := 0, 0, 0
	var ill []string
	states := map[string]*client.Endpoint{}
	ids := make([]string, len(orders))
	for i := range orders {
		ids[i] = orders[i].Endpoint
	}
	all, err := v.endpointsOf(ids)
	if err != nil {
		return err
	}
	for i := range all {
		states[all[i].ID] = &all[i]
	}
	short := query.Get("count") != "all"
	for _, o := range orders {
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		named := len(o.Replay.Deliveries)
		if short {
			o.Replay.CountFor = policy.Duration(max(v.web.Bounds.Counting/time.Duration(len(orders)), time.Millisecond))
			o.Replay.Deliveries = o.Replay.Deliveries[:min(named, max(v.web.Bounds.Sample/len(orders), 1))]
		}
		row := planRow{ID: o.Endpoint, Name: o.Endpoint, At: v.ownerLink(o.Endpoint),
			Chosen: len(only) == 0 || slices.Contains(only, o.Endpoint)}
		if e := states[o.Endpoint]; e != nil {
			row.Name, row.Pill = endpointName(e), healthPill(e.Health.State)
			if at := words.Where(e.URL); at != row.Name {
				row.Where = at
			}
		}
		plan, err := v.client.PlanReplay(v.Context(), o.Endpoint, o.Replay)
		told, ok := err.(*client.Error) //nolint:errorlint // the client returns it as it is
		if ok && told.Status < 500 && told.Status != http.StatusUnauthorized && told.Status != http.StatusForbidden {
			row.Problem, row.Chosen = sentence(cmp.Or(told.Detail, told.Title)), false
			m.Rows = append(m.Rows, row)
			continue
		}
		if err != nil {
			return err
		}
		plan.Partial = plan.Partial || len(o.Replay.Deliveries) < named
		row.Total, row.Keys, row.Chain, row.Out = say.Capped(plan.Total, plan.Partial), say.Count(plan.Keys), say.Count(plan.LongestChain), leftOut(&plan.Excluded)
		if plan.Partial {
			m.countAll(v, query)
		}
		if row.Chosen && plan.Total > 0 {
			row.Order = string(text)
			started++
			if row.Pill.Tone == toneBad || row.Pill.Word == "failing" {
				ill = append(ill, row.Name)
			}
			total.Total, total.Keys, total.Overtaken = total.Total+plan.Total, total.Keys+plan.Keys, total.Overtaken+plan.Overtaken
			total.LongestChain, longest = max(total.LongestChain, plan.LongestChain), max(longest, plan.Total)
			total.Partial = total.Partial || plan.Partial
			total.ByStatus.Delivered += plan.ByStatus.Delivered
			total.ByStatus.Failed += plan.ByStatus.Failed
			total.ByStatus.Dropped += plan.ByStatus.Dropped
			total.ByStatus.Discarded += plan.ByStatus.Discarded
			total.ByStatus.Skipped += plan.ByStatus.Skipped
		}
		m.Rows = append(m.Rows, row)
		waiting += plan.Waiting
	}
	if waiting > 0 {
		m.Notes = append(m.Notes, say.Many(waiting, "pending or held delivery matches", "pending or held deliveries match")+
			" too: on the way already, and not replayed.")
	}
	switch n := len(ill); {
	case n == 1:
		m.Notes = append(m.Notes, ill[0]+" takes no deliveries now, so the replay may fail. Sending one first finds that out.")
	case n > 1:
		m.Notes = append(m.Notes, say.Count(n)+" of the endpoints take no deliveries now, so their replays may fail. Sending one first finds that out.")
	}
	m.answer(v, &total, started, longest)
	return nil
}

// countAll offers the preview that counts everything, unless this is it.
func (m *wizardModel) countAll(v *visit, query url.Values) {
	if query.Get("count") == "all" {
		return
	}
	all := maps.Clone(query)
	all.Set("count", "all")
	m.Count = v.link("/replays/new?" + all.Encode())
}

// leftOut says what a replay leaves out, and why.
func leftOut(e *wire.Excluded) string {
	var parts []string
	for _, x := range []struct {
		n    int
		said string
	}{
		{e.AlreadyReplayed, "delivered again already"}, {e.OnItsWay, "being delivered again now"}, {e.Superseded, "replaced by their redelivery"},
		{e.Discarded, "discarded"}, {e.Tests, "tests"},
	} {
		if x.n > 0 {
			parts = append(parts, say.Count(x.n)+" "+x.said)
		}
	}
	return say.List(parts)
}

// answer is the sentence of the preview.
func (m *wizardModel) answer(v *visit, total *client.ReplayPlan, replays, longest int) {
	if total.Total == 0 && m.Count != "" {
		m.Verdict.say("Nothing was found in the time that a preview has.", "",
			"It has not looked at all deliveries. Count everything to be sure.")
		return
	}
	if total.Total == 0 {
		m.Verdict.say("There is nothing to replay.", "", "No finished delivery matches the selection, or all that match are left out.")
		if slices.ContainsFunc(m.Rows, func(r planRow) bool { return r.Problem != "" }) {
			m.Verdict.Next = "The endpoints below cannot take a replay."
		}
		return
	}
	number := say.AtLeast(total.Total, total.Partial, "delivery", "deliveries")
	at := ""
	if replays > 1 {
		at = fmt.Sprintf(" to %d endpoints", replays)
	}
	m.Verdict.Pieces = []piece{{number + " will be delivered again" + at + ".", ""}}
	if by := total.ByStatus.String(); by != "" {
		m.Notes = append(m.Notes, "By their status: "+by+".")
	}
	took := say.Spoken(max(time.Duration(longest)*time.Second/usualRate, time.Second))
	var next []string
	if total.Keys > 0 {
		next = append(next, fmt.Sprintf("%s, in order; the longest has %s.", say.Many(total.Keys, "key", "keys"), say.Many(total.LongestChain, "delivery", "deliveries")))
	}
	next = append(next, "Original bytes and event ids, so receivers can recognise what they have already.", fmt.Sprintf("About %s at %d per second.", took, usualRate))
	m.Verdict.Next = strings.Join(next, " ")
	if n := total.Overtaken; n > 0 {
		m.Notes = append(m.Notes, say.Many(n, "delivery arrives", "deliveries arrive")+" after a newer event of the same key, which was delivered since. Replay them only if the receiver can bear that.")
	}
	if v.mayDo("/replays/start") {
		m.Start, m.Button = v.link("/replays/start"), "Replay "+strings.ToLower(number[:1])+number[1:]
	}
}

// startReplays starts the replays of a preview. The preview's idempotency key makes a second click
// on its button come to the same replays.
func startReplays(v *visit) (string, error) {
	settings, own := v.creation(&wizardBlank)
	orders, once := v.PostForm["order"], v.PostForm.Get("once")
	if len(orders) == 0 {
		return nothingSelected, nil
	}
	if len(orders) > v.web.Bounds.Plans || len(once) > 100 {
		return "", refused(http.StatusBadRequest, "The form cannot be used.", "Go back and make the preview again.")
	}
	var ids []string
	var first error
	for i, text := range orders {
		var o struct {
			Endpoint string         `json:"endpoint"`
			Replay   map[string]any `json:"replay"`
		}
		if err := json.Unmarshal([]byte(text), &o); err != nil || o.Replay == nil {
			return "", refused(http.StatusBadRequest, "The form cannot be read.", "Go back and make the preview again.")
		}
		for _, name := range []string{"rate", "stop_after", "canary", "reason", "dry_run"} {
			delete(o.Replay, name)
		}
		maps.Copy(o.Replay, settings)
		key := ""
		if once != "" {
			key = fmt.Sprintf("%s-%d", once, i)
		}
		var started client.Replay
		err := joined(own, v.client.PostOnce(v.Context(), "/v1/endpoints/"+url.PathEscape(o.Endpoint)+"/replay", key, o.Replay, &started))
		switch {
		case err == nil:
			ids = append(ids, started.ID)
		case own != nil: // which is wrong with all of them
			return "", err
		case first == nil:
			first = err
		}
	}
	switch {
	case len(ids) == 0:
		return "", first
	case len(ids) == 1 && first == nil:
		v.goTo("/replays/" + url.PathEscape(ids[0]))
		return "The replay has started.", nil
	}
	v.goTo("/replays?" + url.Values{"id": ids}.Encode())
	said := say.Many(len(ids), "replay has", "replays have") + " started."
	if n := len(orders) - len(ids); n > 0 {
		said += " " + say.Many(n, "other was", "others were") + " refused: " + first.Error()
	}
	return said, nil
}

func wizardCommand(v *visit) string {
	query := v.URL.Query()
	if ids := query["id"]; len(ids) > 0 {
		words := []string{"grapnel dlq replay"}
		for _, id := range ids {
			words = append(words, shellQuote(id))
		}
		return strings.Join(words, " ")
	}
	f := parseSearch(query.Get("q"), v.now).Filter
	if f.ReasonCode != "" || f.Text != "" || f.Filter != "" { // which no replay selects by
		return finding("grapnel dlq list")(v)
	}
	at := cmp.Or(f.Endpoint, "ep_…")
	f.Endpoint, f.Tenant = "", ""
	words := append([]string{"grapnel replay plan", shellQuote(at)}, filterFlags(f)...)
	for _, s := range f.Status {
		if s.Final() {
			words = append(words, "--status "+string(s))
		}
	}
	return strings.Join(words, " ")
}
