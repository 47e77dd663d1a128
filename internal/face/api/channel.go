package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func channelRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/channels", scope: grapnel.ScopeManage, handle: createChannel,
			name: "create-channel", tag: "Channels", summary: "Create a channel",
			about: "A channel is an endpoint that gets alerts and no other events, in a service for people. Its id works at " +
				"/v1/endpoints/{id}/… too, for deliveries and replays; lists of endpoints leave it out.",
			body: jsonBody, takes: wire.NewChannel{}, gives: map[int]any{201: wire.Channel{}}},
		{method: "GET", path: "/v1/channels", scope: grapnel.ScopeRead, handle: listChannels,
			name: "list-channels", tag: "Channels", summary: "List channels",
			query: pageOf(tenantParam, searchParam), gives: map[int]any{200: list[wire.Channel]{}}},
		{method: "GET", path: "/v1/channels/{id}", scope: grapnel.ScopeRead, handle: getting((*api).channel, showChannel),
			name: "get-channel", tag: "Channels", summary: "Get a channel", gives: map[int]any{200: wire.Channel{}}},
		{method: "PATCH", path: "/v1/channels/{id}", scope: grapnel.ScopeManage,
			handle: patching((*api).channel, showChannel, channelSettings, setChannel),
			name:   "update-channel", tag: "Channels", summary: "Change a channel",
			about: "A JSON merge patch: null sets a field back to its default. Pending alerts go to the URL that the channel has " +
				"when they are sent.",
			query: []param{reasonParam}, body: patchBody, takes: wire.NewChannel{}, gives: map[int]any{200: wire.Channel{}}},
		{method: "DELETE", path: "/v1/channels/{id}", scope: grapnel.ScopeManage, handle: deleting((*api).channel),
			name: "delete-channel", tag: "Channels", summary: "Delete a channel",
			about: "Its pending alerts end as dropped. Its history stays.", query: []param{reasonParam}, gives: map[int]any{204: nil}},
		{method: "POST", path: "/v1/channels/{id}/test", scope: grapnel.ScopeManage, lever: true, handle: testChannel,
			name: "test-channel", tag: "Channels", summary: "Send a test alert to one channel",
			about: "Creates a new event of the type grapnel.alert.test and one delivery of it, whatever the channel selects.",
			gives: map[int]any{200: wire.Delivery{}}},
	}
}

// The fields of channels that answers and requests copy.
var (
	channelFields = pairOf[grapnel.Endpoint, wire.Channel]("Severities", "Rules", "QuietHours", "Digest", "Service", "Health")
	routingFields = pairOf[grapnel.Channel, wire.NewChannel]("Tenant", "URL", "Description", "Status")
)

// createChannel makes a channel.
func createChannel(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewChannel](c.body, &f)
	tenant, every := in.Tenant, in.Tenant == allTenants
	if every {
		tenant = grapnel.OperatorTenant // whose things no key of a tenant sees
	}
	ep := a.newEndpoint(c, grapnel.ChannelPrefix, tenant, &f)
	setChannel(a, c, &ep, &in, &f)
	ep.Channel.AllTenants = every
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	return a.create(c, ep, func(ep *grapnel.Endpoint) any { return viewChannel(ep, viewHealth(stateOf(ep), 0, c.now)) })
}

// allTenants stands for every tenant in the settings of a channel.
const allTenants = "*"

func listChannels(a *api, c *call) (answer, error) {
	return listOf(a, c, func(ep *grapnel.Endpoint) bool { return ep.Channel != nil && ep.Channel.Contact == nil },
		withHealth(a, c, viewChannel))
}

// channel is the one that the path names.
func (a *api) channel(c *call) (grapnel.Endpoint, error) {
	ep, ok := a.Engine.Endpoint(c.scope, c.PathValue("id"))
	if !ok || ep.Channel == nil || ep.Channel.Contact != nil {
		return ep, store.ErrNotFound("channel")
	}
	return ep, nil
}

func showChannel(a *api, c *call, ep grapnel.Endpoint) (answer, error) {
	health, err := a.health(c, a.Bounds.HeldMost, ep)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, viewChannel(&ep, health[0])), nil
}

// testAlert is the data of a test alert.
type testAlert struct {
	AlertID  string    `json:"alert_id"`
	Rule     string    `json:"rule"`
	State    string    `json:"state"`
	Severity string    `json:"severity"`
	Tenant   string    `json:"tenant"`
	Title    string    `json:"title"`
	Text     string    `json:"text"`
	Since    time.Time `json:"since"`
	URL      string    `json:"url"`
	Count    int       `json:"count"`
	Alerts   []string  `json:"alerts"`
}

// testChannel sends one channel an alert of its own.
func testChannel(a *api, c *call) (answer, error) {
	ep, err := a.channel(c)
	if err != nil {
		return answer{}, err
	}
	id := a.newID(grapnel.EventPrefix, c.now)
	ev := &grapnel.Event{
		ID: id, Tenant: ep.Tenant, Type: grapnel.EventAlertTest, ContentType: grapnel.JSONType, OccurredAt: c.now, AcceptedAt: c.now,
		Data: encode(testAlert{AlertID: id, Rule: "test", State: "test", Severity: grapnel.SeverityInfo, Tenant: ep.Tenant,
			Title: "Test of this channel",
			Text:  "Alerts of Grapnel arrive here. This one is a test; nothing is wrong.", Since: c.now, Count: 1, Alerts: []string{}}),
	}
	return a.sendTest(c, &ep, ev, 0)
}

// viewChannel is a channel in an answer: its URL is masked.
func viewChannel(ep *grapnel.Endpoint, h wire.Health) wire.Channel {
	v := wire.Channel{Service: ep.Channel.Service, Health: h}
	channelFields.show(ep, &v)
	routingFields.show(ep.Channel, &v.NewChannel)
	if ep.Channel.AllTenants {
		v.Tenant = allTenants
	}
	strict.Defaults(&v)
	return v
}

// channelSettings are a channel's settings as they would be given to make one like it.
func channelSettings(ep *grapnel.Endpoint) wire.NewChannel {
	in := wire.NewChannel{URL: ep.URL, Description: ep.Description, Status: ep.Status}
	routingFields.show(ep.Channel, &in)
	return in
}

// setChannel puts settings on a channel, or adds their faults.
func setChannel(a *api, c *call, ep *grapnel.Endpoint, in *wire.NewChannel, f *strict.Faults) {
	if ep.Channel != nil && in.URL == ep.URL {
		in.URL = ep.Channel.URL.Text // a URL as answers mask it stays what it is
	}
	ch := &grapnel.Channel{URL: grapnel.Secret{Text: in.URL, CreatedAt: c.now}}
	if in.URL != "" {
		target, err := channels.Read(in.URL)
		if err == nil && (ep.Channel == nil || ep.Channel.URL.Text != in.URL) {
			err = a.CheckChannel(target)
		}
		if err != nil {
			f.Add("/url", "%s", err)
		} else {
			ch.Service, ep.URL = target.Service, target.Masked
		}
	}
	if ep.Channel != nil && ep.Channel.URL.Text == in.URL {
		ch.URL = ep.Channel.URL
	}
	routingFields.set(in, ch)
	ch.AllTenants = ep.Channel != nil && ep.Channel.AllTenants
	if q := ch.QuietHours; q != nil {
		if _, err := time.LoadLocation(q.TZ); (err != nil || q.TZ == "Local") && f.Free("/quiet_hours/tz") {
			f.Add("/quiet_hours/tz", "is no name of the time zone database, such as Europe/Berlin")
		}
		if q.From != "" && q.From == q.To && f.Free("/quiet_hours/from") {
			f.Add("/quiet_hours/to", "must not be the same as from")
		}
	}
	ep.Description = in.Description
	ep.EventTypes, ep.Filter = []string{grapnel.ChannelPattern}, routeOf(ch)
	asChannel(ep, ch)
	setStatus(ep, in.Status, c)
}

// asChannel gives an endpoint what all channels have.
func asChannel(ep *grapnel.Endpoint, ch *grapnel.Channel) {
	ep.Channel = ch
	ep.PolicyName, ep.Policy = "", channels.Policy()
	ep.Ordering, ep.MaxConcurrency = grapnel.OrderByKey, grapnel.DefaultMaxConcurrency
	ep.Format, ep.Signing = grapnel.FormatStandard, grapnel.SigningStandard
}

// routeOf is the filter of a channel: alerts of its severities and rules. Digests and tests are
// made for one channel and pass.
func routeOf(ch *grapnel.Channel) string {
	var terms []string
	for field, values := range map[string][]string{"severity": ch.Severities, "rule": ch.Rules} {
		if len(values) == 0 {
			continue
		}
		quoted := make([]string, len(values))
		for i, v := range values {
			quoted[i] = strconv.Quote(v)
		}
		terms = append(terms, fmt.Sprintf("event.data.%s in [%s]", field, strings.Join(quoted, ", ")))
	}
	if len(terms) == 0 {
		return ""
	}
	slices.Sort(terms)
	return fmt.Sprintf("event.type in [%q, %q] || %s", grapnel.EventAlertDigest, grapnel.EventAlertTest, strings.Join(terms, " && "))
}
