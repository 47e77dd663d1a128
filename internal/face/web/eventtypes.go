package web

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// typesModel is the list of registered event types.
type typesModel struct {
	pager
	Verdict verdict
	Rows    []typeRow
}

// typeRow is one event type in a list.
type typeRow struct {
	Href, Name, What, Tenant string
	Pill                     pill
	Versions, Deprecated     string
	Subscribers              string
	Changed                  moment
}

func eventTypes(v *visit) (typesModel, error) {
	var m typesModel
	f := v.listed()
	found, err := v.client.EventTypes(v.Context(), f)
	if err != nil || len(found.Data) == 0 && v.unfound(&m.Verdict, "event type") {
		return m, err
	}
	m.Verdict.Acts = v.formLinks("/event-types/", "new", "Register an event type")
	if len(found.Data) == 0 && f.Cursor == "" {
		m.Verdict.say("No event type is registered yet.", "",
			"A registered type has a schema in versions and an example. Events that do not satisfy it can be refused, and a change is compared with the version before: whom would it break?")
		_, m.Verdict.Command = v.teach("", createTypeCommand)
		return m, nil
	}
	all, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: v.web.Bounds.Endpoints})
	if err != nil {
		return m, err
	}
	refusing := 0
	for i := range found.Data {
		t := &found.Data[i]
		r := typeRow{Href: v.link("/event-types/" + url.PathEscape(t.ID)), Name: t.Name, What: t.Description, Pill: checkPill(t.Check),
			Versions: say.Count(len(t.Versions)), Changed: v.at(t.UpdatedAt)}
		if v.session.Tenant == "" && t.Tenant != grapnel.DefaultTenant {
			r.Tenant = t.Tenant
		}
		if t.Check == grapnel.CheckRefuse {
			refusing++
		}
		if n := len(slices.DeleteFunc(slices.Clone(t.Versions), func(is client.TypeVersion) bool { return is.DeprecatedAt.IsZero() })); n > 0 {
			r.Deprecated = say.Count(n) + " deprecated"
		}
		r.Subscribers = say.Capped(len(subscribers(t, all.Data)), all.Next != "")
		m.Rows = append(m.Rows, r)
	}
	m.pager = v.pager("/event-types", f.Cursor, found.Next, "q", f.Search)
	here := m.here()
	m.Verdict.say(say.Many(len(m.Rows), "event type"+here+" is", "event types"+here+" are")+" registered.", "",
		"Events of other types are published without a check. ")
	switch refusing {
	case 0:
		m.Verdict.Next += "None of these refuses events that do not satisfy its schema."
	case len(m.Rows):
		m.Verdict.Next += "All of these refuse events that do not satisfy their schema."
	default:
		m.Verdict.Next += say.Many(refusing, "of these refuses events that do not satisfy its schema.", "of these refuse events that do not satisfy their schema.")
	}
	return m, nil
}

// checkPill says what becomes of events that do not satisfy the schema.
func checkPill(c grapnel.TypeCheck) pill {
	if c == grapnel.CheckRefuse {
		return pill{toneOK, "checked"}
	}
	return pill{toneNone, "not checked"}
}

// subscribers are the endpoints whose event types have the type. Their filters and sources may
// still leave events of it out.
func subscribers(t *client.EventType, all []client.Endpoint) (found []*client.Endpoint) {
	for i := range all {
		e := &all[i]
		if e.Tenant == t.Tenant && (len(e.EventTypes) == 0 ||
			slices.ContainsFunc(e.EventTypes, func(p string) bool { return grapnel.MatchType(p, t.Name) })) {
			found = append(found, e)
		}
	}
	return found
}

// typeModel is one event type: its versions, the schema of one of them, and its subscribers.
type typeModel struct {
	ID, Name    string
	Tenant      string
	Pill        pill
	Verdict     verdict
	Links       []act // forms about it
	Versions    []versionRow
	Shown       int
	Schema      []schemaRow
	Raw         []span
	Example     []span
	Send        string // where the example is published; empty: it cannot be
	SendSure    string
	Compared    string // which versions
	Differences []differenceRow
	Steps       []string // from the earlier version to the later
	Keep        string   // a transform with which an endpoint keeps getting the earlier form
	Subscribers []subscriberRow
	More        string
}

// versionRow is one version of a schema.
type versionRow struct {
	Number     int
	Href       string
	Here       bool
	Pill       pill
	Note       string
	Created    moment
	Compare    string // with the version before
	Post       string // marks it, or takes the mark away
	PostLabel  string
	Deprecated string // what the form sends
}

// differenceRow is one difference between two versions.
type differenceRow struct {
	What, At              string
	Receivers, Publishers pill
}

// subscriberRow is an endpoint that gets events of the type.
type subscriberRow struct {
	Name, Href, Why, Edit string
	Pill                  pill
}

const mostSubscribers = 30

func eventType(v *visit, t *client.EventType) (typeModel, error) {
	m := typeModel{ID: t.ID, Name: t.Name, Tenant: t.Tenant, Pill: checkPill(t.Check)}
	v.title, m.Shown = t.Name, v.versionAsked("version", len(t.Versions), len(t.Versions))
	if err := m.subscribers(v, t); err != nil {
		return m, err
	}
	breaking, err := m.compare(v, t)
	if err != nil {
		return m, err
	}
	m.versions(v, t)
	m.verdict(v, t, breaking)
	if m.Shown == 0 {
		return m, nil
	}
	is := &t.Versions[m.Shown-1]
	m.Schema, m.Raw = schemaRows(is.Schema), v.readable(is.Schema)
	if len(is.Example) > 0 {
		m.Example = v.readable(is.Example)
		if v.mayDo("/event-types/{id}/send") {
			m.Send = v.link("/event-types/"+url.PathEscape(t.ID)+"/send") + fmt.Sprintf("?version=%d", m.Shown)
			m.SendSure = "A real event with this example goes to " + say.Many(len(m.Subscribers), "endpoint", "endpoints") + "."
		}
	}
	return m, nil
}

// versionAsked is the version that a parameter of the address names, if there are that many, else the
// usual one.
func (v *visit) versionAsked(name string, usual, most int) int {
	if n, err := strconv.Atoi(v.URL.Query().Get(name)); err == nil && n >= 1 && n <= most {
		return n
	}
	return usual
}

func (m *typeModel) verdict(v *visit, t *client.EventType, breaking bool) {
	name := t.Name
	switch n := len(t.Versions); {
	case n == 0:
		m.Verdict.Pieces = []piece{{name + " has no schema yet.", ""}}
	case n == 1:
		m.Verdict.Pieces = []piece{{name + " has one version.", ""}}
	case breaking:
		m.Verdict.Pieces = []piece{{fmt.Sprintf("%s is at version %d, ", name, n), ""}, {"which may break receivers of " + m.Compared, toneBad}, {".", ""}}
	default:
		m.Verdict.Pieces = []piece{{fmt.Sprintf("%s is at version %d. Receivers of version %d can read its events.", name, n, n-1), ""}}
	}
	m.Verdict.Next = "Events are not compared with the schema."
	if t.Check == grapnel.CheckRefuse && len(t.Versions) > 0 {
		m.Verdict.Next = "An event that does not satisfy the schema is refused with 422, and is not stored."
	}
	if t.Retain == grapnel.RetainNone {
		m.Verdict.Next += " What an event contains is erased once it is delivered."
	}
	m.Verdict.Next += " " + say.Many(len(m.Subscribers), "endpoint gets", "endpoints get") + " events of this type."
	if len(t.Labels) > 0 {
		m.Verdict.Next += " Labels: " + pairs(t.Labels) + "."
	}
	if t.Description != "" {
		m.Verdict.Next = sentence(t.Description) + " " + m.Verdict.Next
	}
	m.Links = v.formLinks("/event-types/{id}/", "version", "Add a version", "edit", "Change", "delete", "Delete")
}

func (m *typeModel) versions(v *visit, t *client.EventType) {
	for i := range slices.Backward(t.Versions) {
		is := &t.Versions[i]
		at := v.link("/event-types/" + url.PathEscape(t.ID))
		r := versionRow{Number: is.Version, Href: at + fmt.Sprintf("?version=%d", is.Version), Here: is.Version == m.Shown,
			Note: is.Note, Created: v.at(is.CreatedAt)}
		r.Pill = pill{toneOK, "in use"}
		if i == len(t.Versions)-1 {
			r.Pill.Word = "newest"
		}
		if !is.DeprecatedAt.IsZero() {
			r.Pill = pill{toneWait, "deprecated"}
		}
		if i > 0 {
			r.Compare = at + fmt.Sprintf("?version=%d&from=%d&to=%d", m.Shown, i, i+1)
		}
		if v.mayDo("/event-types/{id}/deprecate") {
			r.Post, r.PostLabel, r.Deprecated = at+fmt.Sprintf("/deprecate?version=%d", is.Version), "Deprecate", "1"
			if !is.DeprecatedAt.IsZero() {
				r.PostLabel, r.Deprecated = "Not deprecated", ""
			}
		}
		m.Versions = append(m.Versions, r)
	}
}

// compare asks the API for the differences of two versions, and says how to get from one to the
// other.
func (m *typeModel) compare(v *visit, t *client.EventType) (breaking bool, err error) {
	n := len(t.Versions)
	from, to := v.versionAsked("from", n-1, n), v.versionAsked("to", n, n)
	if from < 1 || from == to {
		return false, nil
	}
	found, err := v.client.CompareTypeVersions(v.Context(), t.ID, from, to)
	if err != nil {
		return false, err
	}
	m.Compared = fmt.Sprintf("version %d", from)
	for _, d := range found.Differences {
		r := differenceRow{What: d.What, At: d.Pointer, Receivers: pill{toneOK, "compatible"}, Publishers: pill{toneOK, "compatible"}}
		if d.Breaking {
			r.Receivers = pill{toneBad, "may break"}
		}
		if d.Stricter {
			r.Publishers = pill{toneWait, "stricter"}
		}
		m.Differences = append(m.Differences, r)
	}
	if !found.Breaking && !found.Stricter {
		m.Steps = []string{"Nothing: publishers and receivers of either version understand the other."}
		return false, nil
	}
	if found.Stricter {
		m.Steps = append(m.Steps, fmt.Sprintf(`Publishers that still send version %d say so, with "metadata": {"schema_version": "%d"}. Without it an event follows the newest version.`, from, from))
	}
	if found.Breaking {
		m.Steps = append(m.Steps, "Tell the receivers below about the differences. An endpoint whose receiver is not ready keeps the earlier form with a transform.")
		m.Keep = keepForm(t.Versions[from-1].Schema, t.Versions[to-1].Schema)
	}
	m.Steps = append(m.Steps, fmt.Sprintf("Deprecate version %d. Events may still follow it.", from),
		"When all publishers have moved, leave schema_version away.")
	return found.Breaking, nil
}

func (m *typeModel) subscribers(v *visit, t *client.EventType) error {
	all, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: v.web.Bounds.Endpoints, Tenant: t.Tenant})
	if err != nil {
		return err
	}
	for _, e := range subscribers(t, all.Data) {
		if len(m.Subscribers) == mostSubscribers {
			m.More = "the first " + say.Count(mostSubscribers)
			break
		}
		r := subscriberRow{Name: endpointName(e), Href: v.link("/endpoints/" + url.PathEscape(e.ID)), Pill: healthPill(e.Health.State), Why: "It wants every type."}
		if len(e.EventTypes) > 0 {
			r.Why = "It wants " + say.List(e.EventTypes) + "."
		}
		if e.Filter != "" {
			r.Why += " Its filter must match: " + e.Filter
		}
		if v.mayDo("/endpoints/{id}/edit") {
			r.Edit = r.Href + "/edit"
		}
		m.Subscribers = append(m.Subscribers, r)
	}
	return nil
}

// sendExample publishes a version's example as an event.
func sendExample(v *visit, t *client.EventType) (string, error) {
	n := v.versionAsked("version", 0, len(t.Versions))
	if n == 0 || len(t.Versions[n-1].Example) == 0 {
		return "", refused(http.StatusConflict, "This version has no example.", "Add a version with an example, or publish an event of your own.")
	}
	// a second click publishes the same event, which is stored once
	e := client.NewEvent{ID: v.PostForm.Get("once"), Type: t.Name, Tenant: t.Tenant, Data: t.Versions[n-1].Example}
	if n != len(t.Versions) {
		e.Metadata = map[string]string{grapnel.SchemaVersionKey: strconv.Itoa(n)}
	}
	made, err := v.client.Publish(v.Context(), e)
	if err != nil {
		return "", err
	}
	v.goTo("/events/" + url.PathEscape(made.ID) + v.ofTenant(t.Tenant))
	return "The example was published, for " + say.Many(made.Deliveries, "endpoint", "endpoints") + ".", nil
}

// deprecate marks a version that publishers shall leave, or takes the mark away.
func deprecate(v *visit) (string, error) {
	n := v.versionAsked("version", 1, math.MaxInt)
	on := v.PostForm.Get("deprecated") != ""
	if _, err := v.client.UpdateTypeVersion(v.Context(), v.PathValue("id"), n, map[string]any{"deprecated": on}); err != nil {
		return "", err
	}
	if on {
		return fmt.Sprintf("Version %d is deprecated. Events may still follow it.", n), nil
	}
	return fmt.Sprintf("Version %d is not deprecated any more.", n), nil
}
