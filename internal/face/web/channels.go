package web

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/wire"
)

// channelsModel is the list of channels.
type channelsModel struct {
	pager
	Verdict verdict
	Rows    []channelRow
}

// channelRow is one channel in a list.
type channelRow struct {
	Name, Service, Where string
	Edit                 string // empty: the session may not
	History              string // its deliveries
	Pill                 pill
	Gets                 string // which alerts, in words
	Why                  string
	Acts                 []act
}

func alertChannels(v *visit) (channelsModel, error) {
	m := channelsModel{Verdict: verdict{Acts: v.formLinks("/channels/", "new", "Add a channel")}}
	f := v.listed()
	found, err := v.client.Channels(v.Context(), f)
	if err != nil || len(found.Data) == 0 && v.unfound(&m.Verdict, "channel") {
		return m, err
	}
	if len(found.Data) == 0 && f.Cursor == "" {
		m.Verdict.Command = createChannelCommand
		m.Verdict.say("Alerts go nowhere yet.", "", "A channel is a chat, a push service or a mailbox that alerts go to.")
		return m, nil
	}
	failing := 0
	for i := range found.Data {
		c := &found.Data[i]
		if s := c.Health.State; c.Status == grapnel.EndpointEnabled && s != grapnel.HealthHealthy && s != grapnel.HealthDegraded && s != "unknown" {
			failing++
		}
		m.Rows = append(m.Rows, v.channelRow(c))
	}
	m.pager = v.pager("/channels", f.Cursor, found.Next, "q", f.Search)
	here := m.here()
	m.Verdict.say("Alerts go to "+say.Many(len(found.Data), "channel", "channels")+here+".", "", "")
	if failing > 0 {
		m.Verdict.say("Alerts do not arrive: "+say.Many(failing, "channel"+here+" fails", "channels"+here+" fail")+".", "", "")
	}
	return m, nil
}

func (v *visit) channelRow(c *client.Channel) channelRow {
	r := channelRow{Name: channelName(c), Service: channels.Title(c.Service), Where: c.URL, Pill: healthPill(c.Health.State),
		Why: words.Instants(c.Health.Reason), Gets: gets(c), History: v.link("/deliveries" + withQuery("q", "endpoint:"+c.ID))}
	if v.mayDo("/channels/{id}/edit") {
		r.Edit = v.link("/channels/" + url.PathEscape(c.ID) + "/edit")
	}
	if v.mayDo("/channels/{id}/test") && c.Status == grapnel.EndpointEnabled {
		r.Acts = []act{{Label: "Send test", Post: v.link("/channels/" + url.PathEscape(c.ID) + "/test")}}
	}
	return r
}

// allTenants is the tenant of a channel that gets the alerts of all of them.
const allTenants = "*"

// gets says which alerts a channel gets.
func gets(c *client.Channel) string {
	said := "every alert"
	if len(c.Severities) > 0 {
		said = "alerts of the severity " + strings.Join(c.Severities, " or ")
	}
	switch c.Tenant {
	case grapnel.DefaultTenant:
	case grapnel.OperatorTenant:
		said += " about the server"
	case allTenants:
		said += " of all tenants and about the server"
	default:
		said += " of tenant " + c.Tenant
	}
	if len(c.Rules) > 0 {
		said += " by " + strings.Join(c.Rules, ", ")
	}
	if q := c.QuietHours; q != nil {
		said += fmt.Sprintf("; from %s to %s (%s) pages only", q.From, q.To, q.TZ)
	}
	if c.Digest > 0 {
		said += "; the others gathered for " + c.Digest.String()
	}
	return said
}

var channelBlank = blank{of: reflect.TypeFor[wire.NewChannel](), rows: []input{
	{group: "The channel", at: "url", label: "URL of the service", kind: kindSecret, sample: "https://hooks.slack.com/services/T…/B…/X…",
		help: "as the service shows it, or in the form below; it holds the service's credentials and is not shown again; when you change a channel, empty keeps it"},
	{at: "description", label: "Description", sample: "on call"},
	{group: "Which alerts", at: "severities", label: "Severities", help: "none: every severity"},
	{at: "rules", label: "Rules", sample: "endpoint_failing", help: "one on each line; empty: every rule"},
	{group: "When", at: "quiet_hours/from", label: "Quiet from", sample: "22:00", help: "in quiet hours only alerts of the severity page are sent; empty: no quiet hours"},
	{at: "quiet_hours/to", label: "Quiet to", sample: "07:00"},
	{at: "quiet_hours/tz", label: "Time zone", sample: "Europe/Berlin"},
	{at: "digest", label: "Digest", sample: "15m", help: "gather alerts below the severity page for this long. Empty: send each at once"},
	{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default", help: "_operator: alerts about the server itself; *: alerts of all tenants, and about the server"},
}}

func samples() (all []sample) {
	for _, s := range channels.Services() {
		means := s.Arrives
		if s.Pasted != "" {
			means += "; or paste the URL that the service shows: " + s.Pasted
		}
		all = append(all, sample{s.Title, s.Form, means})
	}
	return all
}

func newChannel(v *visit) (formModel, error) {
	m := v.formPage("Add a channel", v.form(&channelBlank, nil, nil), "Add the channel")
	m.Samples = samples()
	m.Verdict.say("Where should alerts go?", "", "Paste the URL of a service. Then send a test.")
	return m, nil
}

var addChannel = adds(&channelBlank, "/v1/channels", func(*client.Channel) (to, notice string) {
	return "/channels", "The channel is added. Send it a test."
})

func editChannel(v *visit, c *client.Channel) (formModel, error) {
	name := channelName(c)
	f := v.form(&channelBlank, c.JSON(), nil)
	m := v.formPage("Change "+name, f, "Save")
	m.Samples = samples()
	m.Verdict.say("Change "+name+".", "", "Its URL is "+c.URL+". Pending alerts go to the new one.")
	m.Verdict.Acts = v.formLinks("/channels/{id}/", "delete", "Delete")
	return m, nil
}

func deleteChannelForm(v *visit, c *client.Channel) (formModel, error) {
	name := channelName(c)
	f := v.consentForm(c.Service, "")
	m := v.formPage("Delete "+name, f, "Delete the channel",
		crumb{name, v.link("/channels/" + url.PathEscape(c.ID) + "/edit")}, crumb{"Delete", ""})
	m.Form.Cancel = v.link("/channels")
	m.Verdict.say("Delete the channel "+name+"?", "", "Alerts no longer go there. Its history stays until retention deletes it.")
	return m, nil
}

func deleteChannel(v *visit, c *client.Channel) (string, error) {
	reason, err := v.consented(c.Service)
	if err != nil {
		return "", err
	}
	v.goTo("/channels")
	return "The channel is deleted.", v.client.DeleteChannel(v.Context(), c.ID, reason)
}
