package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/wire"
)

func alertRoutes() []route {
	tenant := param{name: "tenant", form: "tenant",
		doc: "a tenant, for keys that are bound to none; without it, the operator's own rules, which hold for tenants that have not changed them"}
	return []route{
		{method: "GET", path: "/v1/alerts", scope: grapnel.ScopeRead, portal: grapnel.ScopeAlertsRead, handle: listAlerts,
			name: "list-alerts", tag: "Alerts", summary: "List alerts: open ones first, then resolved ones, the newest first",
			about: "The operator's alerts, which are about the server, are shown to keys that are bound to no tenant. A page may have fewer entries than its limit although more follow. " +
				"A portal has those about its endpoints, without messages and without the names of those who acknowledged.",
			query: pageOf(param{name: "state", one: []string{"firing", "acknowledged", "resolved"}, doc: "only those in this state"},
				param{name: "rule", form: "id", doc: "the name of a rule"},
				param{name: "endpoint", form: "id", doc: "only alerts about this endpoint, queue or channel"}, tenantParam),
			gives: map[int]any{200: list[wire.Alert]{}}},
		{method: "GET", path: "/v1/alerts/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeAlertsRead, handle: getAlert,
			name: "get-alert", tag: "Alerts", summary: "Get an alert, with the deliveries of its messages",
			gives: map[int]any{200: wire.Alert{}}},
		{method: "POST", path: "/v1/alerts/{id}/acknowledge", scope: grapnel.ScopeManage, lever: true, handle: ordered(acknowledge),
			name: "acknowledge-alert", tag: "Alerts", summary: "Say that a person takes care of an alert",
			about: "It is not repeated any more. An alert that is acknowledged or resolved already stays as it is.",
			body:  optionalBody, takes: newReason{}, gives: map[int]any{200: wire.Alert{}}},
		{method: "GET", path: "/v1/alert-links/{link}", open: anybody, handle: getAlertLink,
			name: "get-alert-link", tag: "Alerts", summary: "Get the alert that the acknowledge link of a message names",
			about: "The link is the credential. Looking changes nothing, so that programs which fetch links in advance acknowledge nothing.",
			gives: map[int]any{200: wire.AlertLink{}}},
		{method: "POST", path: "/v1/alert-links/{link}", open: anybody, handle: followAlertLink,
			name: "follow-alert-link", tag: "Alerts", summary: "Acknowledge an alert by the link of a message",
			about: "The link acknowledges its alert once; afterwards it only shows it.",
			gives: map[int]any{200: wire.AlertLink{}}},
		{method: "GET", path: "/v1/alert-rules", scope: grapnel.ScopeRead, handle: listAlertRules,
			name: "list-alert-rules", tag: "Alerts", summary: "List the rules by which alerts fire",
			query: []param{tenant}, gives: map[int]any{200: list[wire.AlertRule]{}}},
		{method: "GET", path: "/v1/alert-rules/{name}", scope: grapnel.ScopeRead, handle: getAlertRule,
			name: "get-alert-rule", tag: "Alerts", summary: "Get a rule by which alerts fire",
			query: []param{tenant}, gives: map[int]any{200: wire.AlertRule{}}},
		{method: "PATCH", path: "/v1/alert-rules/{name}", scope: grapnel.ScopeManage, handle: patchAlertRule,
			name: "update-alert-rule", tag: "Alerts", summary: "Switch a rule on or off, or change its threshold or severity",
			about: "A JSON merge patch; null sets a field back. The change holds for one tenant; from a key without tenant that names none, for the operator's alerts and for every tenant that has not set the same field.",
			query: []param{tenant, reasonParam}, body: patchBody, takes: wire.AlertRuleSettings{},
			gives: map[int]any{200: wire.AlertRule{}}},
		{method: "POST", path: "/v1/alert-rules/{name}/backtest", scope: grapnel.ScopeRead, handle: reading(backtest),
			name: "backtest-alert-rule", tag: "Alerts", summary: "Say how often a rule would have fired",
			about: "From the stored hourly totals and the audit. Rules whose facts have no history say so. Only a few backtests run at once; others get 503.",
			query: []param{tenant}, body: optionalBody, takes: wire.NewBacktest{}, gives: map[int]any{200: wire.Backtest{}}},
	}
}

// viewAlert shows an alert with its messages from a number on. Digests have many alerts, so read
// has the messages that were read before, by the id of their event.
func (a *api) viewAlert(c *call, al *alert.Alert, from int, read map[string]wire.AlertMessage) (wire.Alert, error) {
	v := wire.Alert{ID: al.ID, Rule: al.Rule, Tenant: al.Tenant, Severity: al.Severity, State: string(al.State),
		Subject: wire.AlertSubject{Kind: al.Subject.Kind, ID: al.Subject.ID, Name: al.Subject.Name}, Title: al.Title, Text: al.Text,
		Value: al.Value, Threshold: al.Threshold, Since: al.Since, AcknowledgedAt: timeOf(al.AcknowledgedAt),
		AcknowledgedBy: al.AcknowledgedBy,
		ResolvedAt:     timeOf(al.ResolvedAt), Messages: []wire.AlertMessage{}}
	if c.scope.HidesAlerts() { // the channels and the people are the tenant's own
		v.AcknowledgedBy = ""
		return v, nil
	}
	for _, m := range al.Messages[from:] {
		if m.Operator && !c.scope.Allows(grapnel.OperatorTenant) {
			continue
		}
		key := fmt.Sprint(m.Event, m.Operator) // both may have one id
		is, known := read[key]
		if !known {
			found, held, err := a.Alerts.Message(c.Context(), c.scope, al, m)
			if err != nil {
				return v, err
			}
			is = wire.AlertMessage{EventID: m.Event, Deliveries: []wire.AlertDelivery{}}
			for i := range found {
				is.Deliveries = append(is.Deliveries, wire.AlertDelivery{EndpointID: found[i].EndpointID, EndpointName: a.endpointName(c, found[i].EndpointID), DeliveryID: c.ids.Of(&found[i]),
					Status: found[i].Status})
			}
			if held != nil {
				is.Held = &wire.AlertHeld{EndpointID: held.Recipient, EndpointName: a.endpointName(c, held.Recipient), Until: held.Until}
			}
			read[key] = is
		}
		is.Transition, is.At = string(m.Transition), m.At
		v.Messages = append(v.Messages, is)
	}
	return v, nil
}

// alertsAbout says which subjects the alerts may have that the call sees: one object, if it is
// given, and for a portal the endpoints in its scope; nil: any. A portal's scope is of one tenant,
// and so are all alerts that it can read.
func (c *call) alertsAbout(object string) func(*alert.Subject) bool {
	tenant, one := c.scope.Whole().One()
	if !c.scope.HidesAlerts() && object == "" {
		return nil
	}
	return func(s *alert.Subject) bool {
		shown := !c.scope.HidesAlerts() || one && s.Kind == "endpoint" && c.scope.Covers(tenant, s.ID)
		return shown && (object == "" || s.ID == object)
	}
}

func listAlerts(a *api, c *call) (answer, error) {
	q := alerting.Query{State: alert.State(c.query.text("state")), Rule: c.query.text("rule"), Tenant: c.query.text("tenant"),
		After: c.position(), Limit: c.query.limit(), About: c.alertsAbout(c.query.text("endpoint"))}
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	found, next, err := a.Alerts.List(c.Context(), c.scope.Whole(), q)
	if err != nil {
		return answer{}, err
	}
	out := list[wire.Alert]{Data: make([]wire.Alert, len(found))}
	if next != "" {
		out.Next = c.cursor(next)
	}
	read := map[string]wire.AlertMessage{}
	for i := range found {
		if out.Data[i], err = a.viewAlert(c, &found[i], max(len(found[i].Messages)-1, 0), read); err != nil {
			return answer{}, err
		}
	}
	return jsonAnswer(http.StatusOK, out), nil
}

func getAlert(a *api, c *call) (answer, error) {
	found, err := a.Alerts.Get(c.Context(), c.scope.Whole(), c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if about := c.alertsAbout(""); about != nil && !about(&found.Subject) {
		return answer{}, store.ErrNotFound("alert")
	}
	return result(a.viewAlert(c, &found, 0, map[string]wire.AlertMessage{}))
}

func acknowledge(a *api, c *call, by grapnel.By) (answer, error) {
	// The answer that is stored with the effect cannot read deliveries, so it has none.
	bare := func(al alert.Alert) answer {
		al.Messages = nil
		v, _ := a.viewAlert(c, &al, 0, nil)
		return jsonAnswer(http.StatusOK, v)
	}
	is, given, err := a.Alerts.Acknowledge(c.Context(), c.scope, c.PathValue("id"), by, func(al alert.Alert) *store.Once {
		return withEffect(c, func(store.Put) answer { return bare(al) })
	})
	return answered(is, given, err, bare)
}

// linked finds the alert that the link of the path names.
func linked(a *api, c *call) (alert.Alert, store.Scope, error) {
	id, tenant, valid := a.Alerts.Follow(c.PathValue("link"))
	if !valid {
		return alert.Alert{}, store.Scope{}, grapnel.Errorf(grapnel.CodeNotFound, "The link has expired, or is none.")
	}
	scope := scopeOf(tenant)
	is, err := a.Alerts.Get(c.Context(), scope, id)
	return is, scope, err
}

func viewAlertLink(is *alert.Alert) wire.AlertLink {
	return wire.AlertLink{AlertID: is.ID, Title: is.Title, Severity: is.Severity, State: string(is.State), Since: is.Since}
}

func getAlertLink(a *api, c *call) (answer, error) {
	is, _, err := linked(a, c)
	return shown(is, err, viewAlertLink)
}

// byLink is the actor of an acknowledgement by the link of a message.
const byLink = "alert-link"

func followAlertLink(a *api, c *call) (answer, error) {
	is, scope, err := linked(a, c)
	if err == nil {
		is, _, err = a.Alerts.Acknowledge(c.Context(), scope, is.ID, grapnel.By{Actor: byLink}, nil)
	}
	return shown(is, err, viewAlertLink)
}

// ruleTenant is the tenant of the rules that the caller wants; empty: the operator. false: the
// caller may not see them.
func ruleTenant(c *call) (string, bool) { return c.scope.Narrow(c.query.text("tenant")) }

func viewAlertRule(r *alerting.Rule) wire.AlertRule {
	v := wire.AlertRule{Name: r.Name, Title: r.Title, About: r.About, Concerns: []string{}, Unit: string(r.Unit), Below: r.Below,
		Enabled:   r.Enabled,
		Threshold: r.InForce.Threshold, Severity: r.InForce.Severity, Changed: []string{}, DefaultThreshold: r.Rule.Threshold,
		DefaultSeverity: r.Rule.Severity, Backtest: r.Backtest}
	if r.Tenants {
		v.Concerns = append(v.Concerns, "tenants")
	}
	if r.Operator {
		v.Concerns = append(v.Concerns, "operator")
	}
	if r.Setting.Enabled != nil {
		v.Changed = append(v.Changed, "enabled")
	}
	if r.Setting.Threshold != nil {
		v.Changed = append(v.Changed, "threshold")
	}
	if r.Setting.Severity != nil {
		v.Changed = append(v.Changed, "severity")
	}
	return v
}

// rules are those of the tenant that the query names; none if the caller may not see them.
func (a *api) rules(c *call) ([]alerting.Rule, error) {
	tenant, may := ruleTenant(c)
	if !may {
		return nil, nil
	}
	return a.Alerts.Rules(c.Context(), tenant)
}

func listAlertRules(a *api, c *call) (answer, error) {
	found, err := a.rules(c)
	out := list[wire.AlertRule]{Data: make([]wire.AlertRule, len(found))}
	for i := range found {
		out.Data[i] = viewAlertRule(&found[i])
	}
	return result(out, err)
}

func getAlertRule(a *api, c *call) (answer, error) {
	found, err := a.rules(c)
	if err != nil {
		return answer{}, err
	}
	i := slices.IndexFunc(found, func(r alerting.Rule) bool { return r.Name == c.PathValue("name") })
	if i < 0 {
		return answer{}, store.ErrNotFound("alert rule")
	}
	return jsonAnswer(http.StatusOK, viewAlertRule(&found[i])), nil
}

func patchAlertRule(a *api, c *call) (answer, error) {
	tenant, may := ruleTenant(c)
	if !may {
		return answer{}, store.ErrNotFound("alert rule")
	}
	patch := gjson.ParseBytes(c.body)
	is, err := a.Alerts.SetRule(c.Context(), c.scope, tenant, c.PathValue("name"), c.by(c.reason()),
		func(now alerting.Rule) (alert.Setting, error) {
			var f strict.Faults
			in := patched(c, wire.AlertRuleSettings{Enabled: now.Enabled, Threshold: now.InForce.Threshold,
				Severity: now.InForce.Severity}, &f)
			s := now.Setting
			s.Enabled = setBack(patch, "enabled", s.Enabled, in.Enabled)
			s.Severity = setBack(patch, "severity", s.Severity, in.Severity)
			if s.Threshold = setBack(patch, "threshold", s.Threshold, in.Threshold); s.Threshold != nil && now.Unit == alert.Yes {
				f.Add("/threshold", "cannot be changed: the rule holds or does not")
			}
			return s, f.Err()
		})
	return shown(is, err, viewAlertRule)
}

// setBack is a field after a merge patch: unchanged, set back or set.
func setBack[T any](patch gjson.Result, name string, was *T, is T) *T {
	switch v := patch.Get(name); {
	case !v.Exists():
		return was
	case v.Type == gjson.Null:
		return nil
	}
	return &is
}

// mostTimes is the number of times that a backtest lists.
const mostTimes = 1000

func backtest(a *api, c *call, in *wire.NewBacktest) (answer, error) {
	tenant, may := ruleTenant(c)
	if !may {
		return answer{}, store.ErrNotFound("alert rule")
	}
	release, err := slot(a.explanations, "Other backtests are running.")
	if err != nil {
		return answer{}, err
	}
	defer release()
	var threshold *float64
	if in.Threshold > 0 {
		threshold = &in.Threshold
	}
	b, err := a.Alerts.Backtest(c.Context(), c.scope, tenant, c.PathValue("name"), duration(in.For), threshold)
	if err != nil {
		return answer{}, err
	}
	v := wire.Backtest{Rule: c.PathValue("name"), Known: b.Known, Fired: len(b.Fired), Times: []time.Time{},
		Sentence: b.Sentence}
	v.Times = append(v.Times, b.Fired[:min(len(b.Fired), mostTimes)]...)
	return jsonAnswer(http.StatusOK, v), nil
}
