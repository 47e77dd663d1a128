package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// endpointModel is one endpoint: its health, its pending deliveries, its settings.
type endpointModel struct {
	ID, Name, Address string
	Pill              pill
	Verdict           verdict
	Pulses            []chart
	Figures           []figure
	Chart             chart
	Lanes             []laneRow
	LanesMore         bool
	Recent            []deliveryRow
	All               string // where all its deliveries are
	Why               string // where its failures are explained
	Issues            string // where its failures are grouped
	Alerts            string // where the alerts about it are; empty: the session may not see them
	Settings          facts
	Edit              string // where the settings are changed; empty: the session may not
	Secrets           []fact
	Rotate, Delete    string // where the secret is rotated and the endpoint deleted
	Audit             []auditLine
}

// laneRow is a key whose first delivery keeps the others waiting.
type laneRow struct {
	Key, Href string
	Head      deliveryRow
	Waiting   string
	Since     moment
}

func endpoint(v *visit, e *client.Endpoint) (endpointModel, error) {
	m := endpointModel{ID: e.ID, Name: endpointName(e), Address: e.URL, Pill: healthPill(e.Health.State),
		All: v.link("/deliveries" + withQuery("q", "endpoint:"+e.ID)), Why: v.link("/endpoints/" + e.ID + "/why"),
		Issues: v.link("/issues" + withQuery("endpoint", e.ID))}
	v.title = m.Name
	if !v.session.portal || v.session.May(grapnel.ScopeAlertsRead) {
		m.Alerts = v.link("/alerts" + withQuery("endpoint", e.ID))
	}
	stats, err := v.client.Stats(v.Context(), client.StatsFilter{Endpoint: e.ID, From: v.now.Add(-beats * time.Hour), Bucket: "hour"})
	if err != nil {
		return m, err
	}
	minutes, err := v.client.Stats(v.Context(), client.StatsFilter{Endpoint: e.ID, Bucket: "minute"})
	if err != nil {
		return m, err
	}
	recent, err := v.client.Deliveries(v.Context(), client.DeliveryFilter{Endpoint: e.ID, Limit: mostRecent})
	if err != nil {
		return m, err
	}
	lanes, err := v.client.Lanes(v.Context(), e.ID, mostLanes, "")
	if err != nil {
		return m, err
	}
	audit, err := v.client.Audit(v.Context(), client.AuditFilter{Endpoint: e.ID, Limit: mostAudit})
	if err != nil {
		return m, err
	}
	hours := hourly(stats.Data, stats.From, v.now)
	day := slices.DeleteFunc(slices.Clone(hours), func(h hour) bool { return h.At.Before(v.now.Add(-24 * time.Hour).Truncate(time.Hour)) })
	newest := ""
	if len(recent.Data) > 0 {
		newest = recent.Data[0].ID
	}
	m.Verdict = v.endpointVerdict(e, day, lastResult(lanes.Data, recent.Data), newest)
	v.offerRetry(&m.Verdict, e.ID, len(lanes.Data), lanes.Next != "")
	if err := v.offerReplay(&m.Verdict, e.ID); err != nil {
		return m, err
	}
	m.Pulses = []chart{v.minutePulse(minutes), hourPulse(hours)}
	m.Figures = endpointFigures(e, day)
	m.Chart = v.outcomes(day, "endpoint:"+e.ID)
	for i := range recent.Data {
		m.Recent = append(m.Recent, v.deliveryRow(&recent.Data[i]))
	}
	for i := range lanes.Data {
		l := &lanes.Data[i]
		row := laneRow{
			Key: l.Key, Href: v.keyHref(e.ID, l.Key), Head: v.deliveryRow(&l.Head),
			Waiting: say.Capped(l.Waiting, l.WaitingMore), Since: v.atOr(l.Since),
		}
		m.Lanes = append(m.Lanes, row)
	}
	m.LanesMore = lanes.Next != ""
	for i := range audit.Data {
		m.Audit = append(m.Audit, v.audited(&audit.Data[i]))
	}
	m.settings(v, e)
	m.Edit, m.Rotate, m.Delete = v.ifMay("/endpoints/{id}/edit"), v.ifMay("/endpoints/{id}/rotate"), v.ifMay("/endpoints/{id}/delete")
	return m, nil
}

// ifMay is the address of a page with a form about the thing of this page; empty: the session may
// not send it.
func (v *visit) ifMay(path string) string {
	if !v.mayDo(path) {
		return ""
	}
	return v.link(v.ofThis(path))
}

// ofThis is the path of a page about the thing of this page.
func (v *visit) ofThis(path string) string {
	return strings.Replace(path, "{id}", url.PathEscape(v.PathValue("id")), 1)
}

// endpointVerdict is the answer of an endpoint's page.
func (v *visit) endpointVerdict(e *client.Endpoint, day []hour, last, newest string) verdict {
	total := sum(day)
	var out verdict
	if e.Health.State == grapnel.HealthHealthy {
		switch {
		case total.Attempts == 0:
			out.Pieces = []piece{{"It is healthy. Nothing was sent in the last 24 h.", ""}}
		default:
			out.Pieces = []piece{{"It takes its deliveries.", ""}}
			failed := "none"
			if total.Failed > 0 {
				failed = say.Count(total.Failed)
			}
			out.Next = fmt.Sprintf("%s delivered in the last 24 h, and %s failed. %s", say.Many(total.Delivered, "delivery was", "deliveries were"),
				failed, words.Attempts(&total))
		}
	} else {
		out.Pieces = []piece{{"It " + words.Happened(v.now, about(e)), healthPill(e.Health.State).Tone}, {".", ""}}
		if e.Health.Held > 0 {
			out.Pieces = append(out.Pieces, piece{" " + words.Held(e.Health.Held, e.Health.HeldMore), toneHold}, piece{" in order; nothing is lost.", ""})
		}
		out.Next = words.Consequence(v.now, about(e))
		if last != "" && e.Health.State != grapnel.HealthPaused && e.Health.State != grapnel.HealthDisabled {
			out.Next = "Last result: " + sentence(last) + " " + out.Next
		}
	}
	out.Acts = v.remedies(about(e))
	switch e.Health.State {
	case grapnel.HealthOpen, grapnel.HealthThrottled, grapnel.HealthPaused, grapnel.HealthDisabled:
		if len(out.Acts) > 0 {
			out.Acts[0].Main = true
		}
	case grapnel.HealthDegraded:
		out.Acts = append([]act{{Label: "Why they fail", Href: v.link("/endpoints/" + e.ID + "/why"), Main: true}}, out.Acts...)
	case grapnel.HealthFailing:
		if newest != "" {
			out.Acts = append([]act{{Label: "Look at the newest delivery", Href: v.link("/deliveries/" + newest), Main: true}}, out.Acts...)
		}
	}
	v.offer(&out, "/endpoints/{id}/test", e.ID, act{Label: "Send a test event"})
	return out
}

// lastResult is the result of an attempt that keeps a key waiting, else of the newest delivery.
func lastResult(lanes []client.Lane, recent []client.Delivery) string {
	for i := range lanes {
		if l := lanes[i].Head.Last; l != nil {
			return words.Result(l.StatusCode, l.ErrorClass)
		}
	}
	for i := range recent {
		if l := recent[i].Last; l != nil {
			return words.Result(l.StatusCode, l.ErrorClass)
		}
	}
	return ""
}

func sum(hours []hour) (t client.Totals) {
	for i := range hours {
		add(&t, &hours[i].Totals)
	}
	return t
}

func endpointFigures(e *client.Endpoint, day []hour) []figure {
	t := sum(day)
	all := figures(day, &t, say.Capped(int64(max(e.Health.Held, e.Health.Waiting)), e.Health.HeldMore))
	latest := figure{Name: "Time to an answer, p95", Value: "–", Tone: toneOK, Spark: all[2].Spark}
	for i := range day {
		if p := day[i].Latency.P95; p != nil {
			latest.Value, latest.Unit = say.Took(time.Duration(*p)), "in the hour from "+day[i].At.UTC().Format("15:04 UTC")
		}
	}
	all[2] = latest
	return all
}

// subscription adds the settings that endpoints and queues have in common.
func (f *facts) subscription(types []string, filter, source string, order grapnel.Ordering, policy, policyHref string) {
	f.add("Event types", cmp.Or(say.List(types), "all"), "Filter", filter, "Source", source)
	f.link("Policy", policy, policyHref)
	f.add("Order", map[grapnel.Ordering]string{"key": "events of one key one after the other", "none": "none"}[order])
}

// reach adds the settings that say how the receiver is reached.
func (m *endpointModel) reach(v *visit, e *client.Endpoint) {
	if t := e.Target; t != nil {
		m.Settings.add("Broker", t.Kind, "Broker's address", t.Address, "Topic, subject, stream or exchange", t.Name, "User of the broker", t.Username,
			"Options of the broker", pairs(t.Options))
	} else {
		m.Settings.add("Method", e.Method)
	}
	m.Settings.add("Proxy", e.Proxy)
	if o := e.OAuth2; o != nil {
		m.Settings.add("Token server", o.TokenURL, "Client id", o.ClientID, "Scopes", say.List(o.Scopes), "Audience", o.Audience)
	}
	if t := e.TLS; t != nil && t.CA != "" {
		m.Settings.add("Trusted authorities", "its own")
	}
	if ends := e.ClientCertEnds; ends != nil {
		m.Settings.at("Client certificate ends", v.at(*ends))
	}
}

func (m *endpointModel) settings(v *visit, e *client.Endpoint) {
	m.Settings.subscription(e.EventTypes, e.Filter, e.Source, e.Ordering, words.Policy(e.Policy, e.PolicyChanges), v.policyLink(e.Policy))
	m.Settings.add("Rate", rate(e.RateLimit), "At once", say.Many(e.MaxConcurrency, "request", "requests"), "Format", string(e.Format))
	m.reach(v, e)
	m.Settings.add("Headers", say.List(slices.Sorted(maps.Keys(e.Headers))), "Signature headers", string(e.Signing))
	if e.Trace {
		m.Settings.add("Trace", "sent as traceparent")
	}
	if c := e.Consent; c != nil && c.GivenAt != nil {
		m.Settings.at("Address consented", v.at(*c.GivenAt))
	} else if c != nil {
		m.Settings.add("Consent", say.Many(c.Asked, "challenge was", "challenges were")+" sent to its address", "Result of the last", c.Cause)
		if c.NextAt != nil {
			m.Settings.at("Next challenge", v.at(*c.NextAt))
		}
	}
	if p := e.PresetShape; p != nil {
		m.Settings.add("By the policy's preset", words.Request(p.Headers, p.Transform, p.Format, p.Ordering))
	}
	m.Settings.add("Transform", e.Transform, "Labels", pairs(e.Labels), "Tenant", e.Tenant)
	if !v.session.portal || v.session.May(grapnel.ScopePayloadRead) {
		m.Settings.add("Read as a feed", "GET /v1/feed?endpoint="+e.ID)
	}
	m.Settings.at("Created", v.at(e.CreatedAt))
	m.Settings.at("Changed", v.at(e.UpdatedAt))
	for i, s := range e.Secrets {
		f := fact{Name: "Secret", Value: "the newest", At: v.at(s.CreatedAt)}
		if i > 0 && s.ExpiresAt != nil {
			f.Value, f.At = "an older one, which ends", v.at(*s.ExpiresAt)
		} else if i == 0 {
			f.Value = "made"
		}
		m.Secrets = append(m.Secrets, f)
	}
	if e.JWKSURL != "" {
		m.Secrets = append(m.Secrets, fact{Name: "Public keys", Value: e.JWKSURL})
	}
}

// askConsent has the address of an endpoint asked, and shows the result.
func askConsent(v *visit) (string, error) {
	e, err := v.client.AskConsent(v.Context(), v.PathValue("id"), byDashboard)
	switch {
	case err != nil:
		return "", err
	case e.Consent != nil && e.Consent.GivenAt == nil:
		return "The address has not consented: " + e.Consent.Cause + ".", nil
	}
	return "The address has consented. Held deliveries go out in order.", nil
}

// rate is a limit in words; empty: none.
func rate(r *grapnel.RateLimit) string {
	switch {
	case r == nil:
		return ""
	case r.Burst == 0:
		return fmt.Sprintf("at most %g per second", r.PerSecond)
	}
	return fmt.Sprintf("at most %g per second, %d in one burst", r.PerSecond, r.Burst)
}

// pairs are names with their values, in the order of the names.
func pairs[V ~string](of map[string]V) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, name+": "+string(of[name]))
	}
	return say.List(all)
}

// formLinks are buttons that lead to the forms below a path that the session may send: pairs of the
// path's end and the label.
func (v *visit) formLinks(path string, pairs ...string) (links []act) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if at := v.ifMay(path + pairs[i]); at != "" {
			links = append(links, act{Label: pairs[i+1], Href: at})
		}
	}
	return links
}
