package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/wire"
)

// customersModel is a page of the tenants, by name.
type customersModel struct {
	pager
	Verdict verdict
	Rows    []customerRow
}

type customerRow struct {
	Name, Href string
	Pill       pill
	Counts     string
	Pending    string
	Dead       string
	Letters    string // where the dead letters are
	Active     moment // the hour; of the present one the list says no time
	Recent     bool
	Only       string // the action that looks at this tenant only
}

func (v *visit) customerRow(t *client.Tenant) customerRow {
	n, at := cmp.Or(t.Numbers, new(client.TenantNumbers)), "/customers/"+url.PathEscape(t.Tenant)
	worst, counts := words.Endpoints(&n.Endpoints)
	r := customerRow{Name: t.Tenant, Href: v.link(at), Pill: pill(worst), Counts: counts, Active: v.atOr(n.ActiveAt),
		Only: v.link(at + "/only")}
	r.Recent = r.Active.Set() && v.now.Sub(r.Active.At) < time.Hour
	if n.Pending > 0 {
		r.Pending = say.Count(n.Pending)
	}
	if n.DeadLetters > 0 {
		r.Dead = say.Capped(n.DeadLetters, n.DeadLettersMore)
		r.Letters = v.link("/dead-letters" + withQuery("q", "tenant:"+t.Tenant))
	}
	return r
}

func customers(v *visit) (customersModel, error) {
	var m customersModel
	f := v.listed()
	found, err := v.client.TenantsCounted(v.Context(), f)
	if err != nil {
		return m, err
	}
	bad := 0
	for i := range found.Data {
		r := v.customerRow(&found.Data[i])
		if r.Pill.Tone == toneBad || r.Pill.Tone == toneWait {
			bad++
		}
		m.Rows = append(m.Rows, r)
	}
	m.pager = v.pager("/customers", f.Cursor, found.Next, "q", f.Search)
	number := say.Many(len(m.Rows), "customer", "customers") + m.here()
	switch {
	case len(m.Rows) == 0 && v.unfound(&m.Verdict, "customer"):
	case len(m.Rows) == 0:
		m.Verdict.say("There is no customer.", "",
			"A customer is a tenant that has an endpoint, queue, source, policy or key of its own.")
	case bad > 0:
		m.Verdict.say(say.Many(bad, "of "+number+" needs attention.", "of "+number+" need attention."), "", "")
	default:
		m.Verdict.say(number+": no endpoint is in trouble.", "", "")
	}
	return m, nil
}

func customersTwin(v *visit) (string, url.Values) {
	path, q := cursored("/v1/tenants")(v)
	q.Set("numbers", "true")
	return path, q
}

// customerModel is one tenant: how it is doing, its limits, and its portal.
type customerModel struct {
	Name    string
	Pill    pill
	Verdict verdict
	Figures []figure
	Chart   chart
	Eyes    []endpointRow
	Links   []act
	Limits  facts
	Change  string // where the limits are changed
	Portal  facts
	Look    string // where the look is changed
	End     string // the command that deletes the tenant
}

func customer(v *visit, t *client.Tenant) (customerModel, error) {
	var m customerModel
	var (
		o    *client.Overview
		last *client.Page[client.Event]
		ask  errgroup.Group
	)
	ask.Go(func() (err error) {
		o, err = v.client.Overview(v.Context(), t.Tenant)
		return err
	})
	ask.Go(func() (err error) {
		last, err = v.client.Events(v.Context(), client.EventFilter{Tenant: t.Tenant, Limit: 1})
		return err
	})
	err := ask.Wait()
	if err != nil {
		return m, err
	}
	t.Numbers = &client.TenantNumbers{Endpoints: o.Endpoints, Pending: o.Pending.All, DeadLetters: o.DeadLetters.All,
		DeadLettersMore: o.DeadLetters.More}
	r, where := v.customerRow(t), "tenant:"+t.Tenant
	v.title, v.steps = t.Tenant, []crumb{{t.Tenant, ""}}
	m.Name, m.Pill = t.Tenant, r.Pill
	m.Verdict.say(t.Tenant+": "+r.Counts+".", "", words.Pending(v.now, o)+" "+words.DeadLetters(o))
	if to := v.ifMay("/customers/{id}/portal"); to != "" {
		m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Open portal", Href: to, Main: true})
	}
	m.Verdict.Acts = append(m.Verdict.Acts, act{Label: "Look at " + t.Tenant + " only", Post: r.Only})
	hours := hourly(o.Hours, o.HoursFrom, v.now)
	m.Figures, m.Chart = figures(hours, &o.Totals, say.Count(o.Pending.All)), v.outcomes(hours, where)
	if m.Eyes, err = v.troubledRows(o.Attention, mostEyes); err != nil {
		return m, err
	}
	for _, to := range [][2]string{{"Deliveries", "/deliveries"}, {"Dead letters", "/dead-letters"}, {"Events", "/events"}} {
		m.Links = append(m.Links, act{Label: to[0], Href: v.link(to[1] + withQuery("q", where))})
	}
	m.Links = append(m.Links, act{Label: "Contacts", Href: v.link("/contacts")})
	m.limits(v, t)
	if len(last.Data) > 0 {
		e := &last.Data[0]
		m.Limits = append(m.Limits, fact{Name: "Last event", Value: e.Type, Href: v.eventLink(t.Tenant, e.ID), At: v.at(e.AcceptedAt)})
	}
	return m, m.portal(v, t.Tenant)
}

// limits are the operator's settings for the tenant.
func (m *customerModel) limits(v *visit, t *client.Tenant) {
	const usual = "the server's"
	rate, most := usual, func(n int64) string {
		if n == 0 {
			return usual
		}
		return say.Count(n)
	}
	if t.PublishRate != nil {
		rate = fmt.Sprintf("%g a second, %d at once", t.PublishRate.PerSecond, t.PublishRate.Burst)
	}
	m.Limits = facts{{Name: "Publish rate", Value: rate}, {Name: "Events per day", Value: most(t.EventsPerDay)},
		{Name: "Pending deliveries", Value: most(t.MaxPending)}, {Name: "Consent of new addresses", Value: cmp.Or(string(t.Consent), usual)}}
	if t.Proxy != "" {
		m.Limits = append(m.Limits, fact{Name: "Proxy", Value: t.Proxy})
	}
	m.Change = v.ifMay("/customers/{id}/limits")
	if t.Tenant != grapnel.DefaultTenant {
		m.End = "grapnel tenants delete " + shellQuote(t.Tenant) + " --reason …"
	}
}

// portal is how the tenant's portal looks.
func (m *customerModel) portal(v *visit, tenant string) error {
	p, err := v.client.Portal(v.Context(), tenant)
	if err != nil {
		return err
	}
	m.Portal.add("Name", cmp.Or(p.Name, "Webhooks"), "Logo", map[bool]string{true: "set", false: "none"}[p.Logo != ""],
		"Colour", cmp.Or(p.Accent, "Grapnel's"), "In frames of", cmp.Or(strings.Join(p.FrameAncestors, ", "), "no page may frame it"))
	m.Look = v.ifMay("/customers/{id}/brand")
	return nil
}

// lookAtOne narrows the session to a tenant; lookAtAll ends that.
func lookAtOne(v *visit) (string, error) {
	if !grapnel.BindsTenant(v.PathValue("id")) {
		return "", refused(http.StatusNotFound, "Customer not found.", "Choose one from the list.")
	}
	v.goTo("/")
	return "You see " + v.PathValue("id") + " only. × all, above, leads back to all customers.", v.lookAt(v.PathValue("id"))
}

func lookAtAll(v *visit) (string, error) { return "You see all customers again.", v.lookAt("") }

func (v *visit) lookAt(tenant string) error {
	v.session.Only = tenant
	text, err := v.web.seals.SealFor(sessionCookie, v.session)
	if err == nil {
		v.setCookie(sessionCookie, text, v.session.Ends.Sub(v.now))
	}
	return err
}

// The forms about a customer.
var (
	linkBlank = blank{of: reflect.TypeFor[wire.NewPortalLink](), rows: []input{
		{at: "scopes", label: "It may", help: "read: see. replay: retry and replay. endpoints:write: add and change endpoints. secrets:reveal: see new secrets. " +
			"alerts:read: see alerts. payload:read: see data and bodies"},
		{at: "subject", label: "For whom", sample: "jane@acme.example", help: "the audit says portal/ and this"},
		{at: "session", label: "It stays open for", sample: "1h", help: "at most 24h. Empty: 1h"},
		{at: "return_url", label: "Its link back leads to", sample: "https://app.example.com", help: "Empty: it has none"},
	}}
	lookBlank = blank{of: reflect.TypeFor[wire.PortalSettings](), rows: []input{
		{at: "name", label: "Name", sample: "Webhooks", help: "stands in the place of Grapnel's name"},
		{at: "accent", label: "Colour", sample: "#1a7f37", help: "of buttons and of the selected page"},
		{at: "frame_ancestors", label: "In frames of", sample: "https://app.example.com", help: "origins of pages that may show it in a frame, one on each line. Empty: none"},
		{at: "logo", label: "Logo", sample: "data:image/png;base64,…",
			help: "a data: URL of a PNG, JPEG or WebP of at most 12 KiB. On a command line: echo \"data:image/png;base64,$(base64 -w0 logo.png)\""},
	}}
	termsBlank = blank{of: reflect.TypeFor[wire.TenantTerms](), rows: []input{
		{at: "name", label: "Name", sample: "Acme Inc.", help: "for people. Empty: none but its own"},
		{at: "labels", label: "Labels", sample: "plan: gold", help: "one on each line"},
		{at: "publish_rate/per_second", label: "Events per second", sample: "the server's", help: "that it may publish. Empty: the server's rate"},
		{at: "publish_rate/burst", label: "At once", help: "one second's worth if not given"},
		{at: "max_events_per_day", label: "Events per day", sample: "the server's", help: "of UTC. Empty: the server's limit"},
		{at: "max_pending", label: "Pending deliveries", sample: "the server's", help: "Empty: the server's limit"},
		{at: "consent", label: "Consent of new addresses", help: "required: an endpoint's new address gets nothing until it has answered a challenge. " +
			"Empty: the server's rule"},
		{at: "proxy", label: "Forward proxy", sample: "https://user:password@proxy.example.com:3128", help: "of its endpoints that name none. Empty: none but the server's"},
	}}
)

// linkScopes are the permissions that the form of a link begins with, as far as the session has
// them to give.
const linkScopes = "read replay endpoints:write secrets:reveal alerts:read"

func linkForm(v *visit) (formModel, error) {
	tenant := v.PathValue("id")
	f := v.form(&linkBlank, nil, nil)
	if at := f.find("/scopes"); at != nil && !v.again() {
		for i := range at.Options {
			o := &at.Options[i]
			o.Chosen = slices.Contains(strings.Fields(linkScopes), o.Value) && grapnel.Gives(v.session.Scopes, grapnel.Scope(o.Value))
		}
	}
	m := v.formPage("Open the portal", f, "Make the link", v.below("/customers", tenant, tenant, "Open the portal")...)
	m.Verdict.say("What may the holder of the link do in the portal of "+tenant+"?", "",
		"The link opens the portal once, within 15 minutes: open it yourself, or give it to one person. The audit records it.")
	return m, nil
}

// makeLink shows a new link once.
func makeLink(v *visit) (string, error) {
	at := "/customers/" + url.PathEscape(v.PathValue("id"))
	var made client.PortalLink
	if err := v.create(&linkBlank, "/v1/tenants/"+url.PathEscape(v.PathValue("id"))+"/portal-links", &made); err != nil {
		return "", err
	}
	v.secret = &secretModel{Label: "Link to the portal", Secret: made.URL, Back: at}
	v.secret.Verdict.say("The portal of "+v.PathValue("id")+" can be opened once.", "", "The link ends "+v.at(made.ExpiresAt).Relative()+
		". grapnel tenants revoke-portal-links ends it before.")
	v.secret.Verdict.Acts = []act{{Label: "Open portal", Href: made.URL, Main: true}, {Label: "To the customer", Href: v.link(at)}}
	return "", nil
}

func lookForm(v *visit, p *client.Portal) (formModel, error) {
	tenant := v.PathValue("id")
	f := v.form(&lookBlank, p.JSON(), nil)
	m := v.formPage("Look of the portal", f, "Save", v.below("/customers", tenant, tenant, "Look of the portal")...)
	m.Verdict.say("How does the portal of "+tenant+" look?", "", "No page of the portal says Grapnel.")
	return m, nil
}

func termsForm(v *visit, t *client.Tenant) (formModel, error) {
	f := v.form(&termsBlank, t.JSON(), nil)
	m := v.formPage("Limits", f, "Save", v.below("/customers", t.Tenant, t.Tenant, "Limits")...)
	m.Verdict.say("How much may "+t.Tenant+" use?", "", "An empty field is the server's own setting.")
	return m, nil
}

func saveTerms(v *visit) (string, error) {
	return v.save(&termsBlank, "/customers/{id}", "The limits are saved.", func(changes map[string]any) error {
		_, err := v.client.UpdateTenant(v.Context(), v.PathValue("id"), byDashboard, changes)
		return err
	})
}
