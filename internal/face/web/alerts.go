package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// alertsModel lists alerts.
type alertsModel struct {
	pager
	Portal   bool // it has no channels
	Verdict  verdict
	Views    []savedView
	Rows     []alertRow
	Empty    string
	Channels string // where they go; empty: it is no answer to why there are no rows
}

// alertRow is one alert with the fate of its latest message.
type alertRow struct {
	Whose    whose
	ID, Href string
	Pill     pill
	Title    string
	Severity pill
	Message  pill
	At       moment
}

var (
	alertPills    = map[string]pill{"firing": {toneBad, "firing"}, "acknowledged": {toneHold, "acknowledged"}, "resolved": {toneOK, "resolved"}}
	severityPills = map[string]pill{grapnel.SeverityPage: {toneBad, "page"}, grapnel.SeverityWarning: {toneWait, "warning"}}
)

// messagePill says what became of a message.
func messagePill(a *client.Alert) pill {
	if len(a.Messages) == 0 {
		return pill{toneNone, "no channel"}
	}
	m := &a.Messages[len(a.Messages)-1]
	delivered, failed := 0, 0
	for _, d := range m.Deliveries {
		switch {
		case d.Status == grapnel.Delivered:
			delivered++
		case d.Status.Final():
			failed++
		}
	}
	switch all := len(m.Deliveries); {
	case m.Held != nil:
		return pill{toneHold, "waits for a digest"}
	case all == 0:
		return pill{toneNone, "not sent or purged"}
	case failed > 0:
		return pill{toneBad, fmt.Sprintf("%d of %d failed", failed, all)}
	case delivered == all:
		return pill{toneOK, "delivered"}
	}
	return pill{toneWait, "on its way"}
}

func alerts(v *visit) (alertsModel, error) {
	query := v.URL.Query()
	f := client.AlertFilter{State: query.Get("state"), Rule: query.Get("rule"), Endpoint: query.Get("endpoint"), Limit: v.web.Bounds.Page, Cursor: query.Get("cursor")}
	found, err := v.client.Alerts(v.Context(), f)
	if err != nil {
		return alertsModel{}, err
	}
	m := alertsModel{Portal: v.session.portal}
	view := func(state string) string {
		return v.link("/alerts" + withQuery("state", state, "endpoint", f.Endpoint))
	}
	m.Views = []savedView{{"All", view(""), f.State == "" && f.Rule == ""}}
	for _, state := range []string{"firing", "acknowledged", "resolved"} {
		m.Views = append(m.Views, savedView{strings.ToUpper(state[:1]) + state[1:], view(state), f.State == state})
	}
	if f.Endpoint != "" {
		name, err := v.nameOf(f.Endpoint)
		if err != nil {
			return m, err
		}
		v.steps = []crumb{{name, ""}}
	}
	for i := range found.Data {
		a := &found.Data[i]
		m.Rows = append(m.Rows, alertRow{ID: a.ID, Whose: v.whose(a.Tenant), Href: v.link("/alerts/" + url.PathEscape(a.ID)), Pill: pillIn(alertPills, a.State),
			Title:    a.Title,
			Severity: pillIn(severityPills, a.Severity), Message: messagePill(a), At: v.at(a.Since)})
	}
	m.pager = v.pager("/alerts", f.Cursor, found.Next, "state", f.State, "rule", f.Rule, "endpoint", f.Endpoint)
	m.answer(found.Data, found.Next != "", f.Endpoint != "", v.link("/channels"))
	return m, m.hears(v)
}

// hears says where the first alert goes, if there are channels.
func (m *alertsModel) hears(v *visit) error {
	if m.Channels == "" {
		return nil
	}
	found, err := v.client.Channels(v.Context(), client.ChannelFilter{Limit: v.web.Bounds.Page})
	if err != nil || len(found.Data) == 0 {
		return err
	}
	m.Empty = "No alert has fired yet. " + say.AtLeast(len(found.Data), found.Next != "", "channel hears", "channels hear") + " of the first one, by severity and tenant."
	return nil
}

// answer is the sentence above the list, which may be of one endpoint.
func (m *alertsModel) answer(all []client.Alert, more, one bool, channels string) {
	firing, acknowledged := 0, 0
	for i := range all {
		switch all[i].State {
		case "firing":
			firing++
		case "acknowledged":
			acknowledged++
		}
	}
	plus := ""
	if more && firing+acknowledged == len(all) || m.Newest != "" {
		plus = " at least"
	}
	none := "No alert fires"
	if m.Newest != "" || !m.Views[0].Here && !m.Views[1].Here { // those that fire are on another page
		none = "No alert of this page fires"
	}
	switch {
	case firing > 0:
		m.Verdict.Pieces = []piece{{say.Many(firing, "alert fires", "alerts fire") + plus, toneBad}, {".", ""}}
		m.Verdict.Next = "An alert is resolved by itself once its condition has ended."
		if !m.Portal {
			m.Verdict.Next += " Acknowledge it when you take care of it: pages are then not repeated."
		}
	case acknowledged > 0:
		m.Verdict.Pieces = []piece{{none + "; " + say.Many(acknowledged, "is", "are") + " acknowledged.", ""}}
	case m.Portal:
		m.Verdict.say(none+".", "", "An alert fires when deliveries to one of your endpoints fail, are held for long, or are about to end.")
	default:
		m.Verdict.say(none+".", "",
			"Rules are evaluated every 10 seconds. Channels get the alerts as deliveries, so none is lost while a channel is down.")
	}
	switch {
	case len(all) > 0:
	case m.Portal || one:
		m.Empty = "No such alert has fired yet."
	case m.Views[0].Here:
		m.Empty, m.Channels = "No alert has fired yet. Add a channel, so that the first one reaches you.", channels
	default:
		m.Empty = "No such alert is here. Choose another view above."
	}
}

// alertModel is one alert.
type alertModel struct {
	ID       string
	Portal   bool // it has no messages
	Pill     pill
	Verdict  verdict
	Facts    []fact
	Messages []alertMessage
}

// alertMessage is one message about an alert at one endpoint.
type alertMessage struct {
	What  string
	Pill  pill
	Href  string // of its delivery; empty: there is none
	Where string
	// when the digest is sent that has it; zero: it waits for none
	Digest moment
	At     moment
}

func alertPage(v *visit, a *client.Alert) (alertModel, error) {
	m := alertModel{ID: a.ID, Pill: pillIn(alertPills, a.State)}
	m.Verdict.say(a.Title+".", "", words.Instants(a.Text))
	if a.State == "firing" {
		v.offer(&m.Verdict, "/alerts/{id}/acknowledge", a.ID, act{Label: "Acknowledge", Main: true, Key: "a"})
	}
	if href, label := v.subject(a); href != "" {
		m.Verdict.Acts = append(m.Verdict.Acts, act{Label: label, Href: href})
	}
	m.Facts = []fact{{Name: "Severity", Value: a.Severity}, {Name: "Rule", Value: a.Rule, Href: v.ruleHref(a.Rule)},
		{Name: "Tenant", Value: cmp.Or(a.Tenant, "the operator")}, {Name: "Since", At: v.at(a.Since)}}
	if m.Portal = v.session.portal; m.Portal {
		m.Facts = slices.DeleteFunc(m.Facts, func(f fact) bool { return f.Name == "Tenant" })
	}
	if a.AcknowledgedAt != nil {
		f := fact{Name: "Acknowledged", At: v.atOr(a.AcknowledgedAt)}
		if a.AcknowledgedBy != "" {
			f.Value = "by " + a.AcknowledgedBy
		}
		m.Facts = append(m.Facts, f)
	}
	if a.ResolvedAt != nil {
		m.Facts = append(m.Facts, fact{Name: "Resolved", At: v.atOr(a.ResolvedAt)})
	}
	for _, msg := range a.Messages {
		if held := msg.Held; held != nil {
			m.Messages = append(m.Messages, alertMessage{What: sentenceCase(msg.Transition), Pill: pill{toneHold, "waits"},
				Where: cmp.Or(held.EndpointName, held.EndpointID), Digest: v.at(held.Until), At: v.at(msg.At)})
		} else if len(msg.Deliveries) == 0 {
			m.Messages = append(m.Messages, alertMessage{What: sentenceCase(msg.Transition),
				Pill: pill{toneNone, "not sent or purged"}, At: v.at(msg.At)})
		}
		for _, d := range msg.Deliveries {
			m.Messages = append(m.Messages, alertMessage{What: sentenceCase(msg.Transition), Pill: deliveryPill(d.Status, 0),
				Href: v.link("/deliveries/" + url.PathEscape(d.DeliveryID)), Where: cmp.Or(d.EndpointName, d.EndpointID), At: v.at(msg.At)})
		}
	}
	return m, nil
}

// subject is the page of what an alert is about; empty: it has none.
func (v *visit) subject(a *client.Alert) (href, label string) {
	switch a.Subject.Kind {
	case "endpoint":
		return v.ownerLink(a.Subject.ID), "Look at the endpoint"
	case "queue":
		return v.link("/queues/" + url.PathEscape(a.Subject.ID)), "Look at the queue"
	case "source":
		return v.link("/sources/" + url.PathEscape(a.Subject.ID)), "Look at the source"
	}
	if a.Rule == "dead_letters" {
		return v.link("/dead-letters"), "Look at the dead letters"
	}
	return "", ""
}

func acknowledgeAlert(v *visit) (string, error) {
	a, err := v.client.AcknowledgeAlert(v.Context(), v.PathValue("id"), "")
	if err != nil {
		return "", err
	}
	v.goTo("/alerts/" + url.PathEscape(a.ID))
	if a.State == "resolved" {
		return "The alert was resolved already.", nil
	}
	return "Acknowledged. It is not repeated.", nil
}
