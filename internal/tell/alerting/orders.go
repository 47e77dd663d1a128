package alerting

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// Query selects alerts.
type Query struct {
	State  alert.State               // empty: any
	Rule   string                    // empty: any
	About  func(*alert.Subject) bool // nil: any
	Tenant string                    // empty: any in scope
	After  string                    // a position that List returned; empty: from the beginning
	Limit  int
}

// List returns alerts: first those that are open, then those that are resolved, the newest first.
// next is where to go on; empty: there are no more. A page may have fewer alerts than the limit
// although more follow, because one call reads at most mostPages pages of documents of each kind.
func (k *Keeper) List(ctx context.Context, scope store.Scope, q Query) (found []alert.Alert, next string, err error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some {
		return nil, "", nil
	}
	kinds := []string{alert.KindOpen, alert.KindResolved}
	switch q.State {
	case alert.Firing, alert.Acknowledged:
		kinds = kinds[:1]
	case alert.Resolved:
		kinds = kinds[1:]
	}
	kind, after, _ := strings.Cut(q.After, " ")
	if i := slices.Index(kinds, kind); i > 0 {
		kinds = kinds[i:]
	}
	for _, kind := range kinds {
		for pages := 0; ; pages++ {
			if pages == mostPages {
				return found, kind + " " + after, nil
			}
			list, err := k.o.Store.DocumentList(ctx, scope, store.DocumentQuery{Kind: kind, Tenant: tenant, After: after, Backwards: true,
				Limit: k.bounds.Page})
			if err != nil {
				return nil, "", err
			}
			for i := range list {
				a, err := alert.Decode(list[i].Body)
				if err != nil {
					return nil, "", err
				}
				if (q.State == "" || a.State == q.State) && (q.Rule == "" || a.Rule == q.Rule) && (q.About == nil || q.About(&a.Subject)) {
					if len(found) == q.Limit {
						return found, kind + " " + after, nil
					}
					found = append(found, *a)
				}
				after = list[i].ID
			}
			if len(list) < k.bounds.Page {
				break
			}
		}
		after = ""
	}
	return found, "", nil
}

// mostPages is the number of pages of documents that one List reads of each kind.
const mostPages = 5

// Get returns an alert; grapnel.CodeNotFound if it is not in scope.
func (k *Keeper) Get(ctx context.Context, scope store.Scope, id string) (alert.Alert, error) {
	a, _, err := k.get(ctx, scope, id)
	if err != nil {
		return alert.Alert{}, err
	}
	return *a, nil
}

// get finds an alert by its id alone, because a caller with the scope of all tenants does not know
// the alert's tenant.
func (k *Keeper) get(ctx context.Context, scope store.Scope, id string) (*alert.Alert, int64, error) {
	for _, kind := range []string{alert.KindOpen, alert.KindResolved} {
		// "!" sorts before all characters of ids
		list, err := k.o.Store.DocumentList(ctx, scope, store.DocumentQuery{Kind: kind, After: id + "!", Backwards: true, Limit: 1})
		if err != nil {
			return nil, 0, err
		}
		if len(list) == 1 && list[0].ID == id {
			a, err := alert.Decode(list[0].Body)
			return a, list[0].Revision, err
		}
	}
	return nil, 0, store.ErrNotFound("alert")
}

// Acknowledge notes that a person takes care of an alert: it is not repeated any more. An alert
// that is acknowledged or resolved already stays as it is. once makes the answer of the request.
func (k *Keeper) Acknowledge(ctx context.Context, scope store.Scope, id string, by grapnel.By, once func(alert.Alert) *store.Once) (
	alert.Alert, *store.Answer, error) {
	for {
		a, revision, err := k.get(ctx, scope, id)
		if err != nil {
			return alert.Alert{}, nil, err
		}
		if a.State != alert.Firing {
			return *a, nil, nil
		}
		now := k.moment()
		a.State, a.AcknowledgedAt, a.AcknowledgedBy = alert.Acknowledged, now, by.Actor
		with := store.With{Audit: &grapnel.AuditEntry{Actor: by.Actor, Verb: grapnel.VerbAcknowledge, Endpoint: a.ID, Reason: by.Reason}}
		if once != nil {
			with.Once = once(*a)
		}
		put, err := k.put(ctx, scope, with, store.Document{Tenant: a.Tenant, Kind: alert.KindOpen, ID: a.ID, Revision: revision, At: now,
			Body: a.Encode()})
		if grapnel.CodeOf(err) == grapnel.CodeConflict {
			continue // it was resolved or repeated at the same moment
		}
		return *a, put.Answer, err
	}
}

// put stores one document that a person has changed. The audit entry has its tenant and time.
func (k *Keeper) put(ctx context.Context, scope store.Scope, with store.With, doc store.Document) (store.Put, error) {
	with.Audit.Tenant, with.Audit.At = doc.Tenant, doc.At
	return k.o.Engine.PutDocuments(ctx, scope, with,
		func(func(*grapnel.Event, []string) []store.Target) ([]store.DocumentWrite, []store.Incoming) {
			return []store.DocumentWrite{{Document: doc}}, nil
		})
}

// Message returns the deliveries of the event with a message about an alert, or the digest that it
// will be sent in. There is neither if the digest was not needed, or the event was purged.
func (k *Keeper) Message(ctx context.Context, scope store.Scope, of *alert.Alert, m alert.Sent) ([]grapnel.Delivery, *alert.Held, error) {
	tenant, event := of.Tenant, m.Event
	if m.Operator {
		tenant = ""
	}
	_, found, err := k.o.Store.Event(ctx, scope, eventTenant(tenant), event)
	if grapnel.CodeOf(err) != grapnel.CodeNotFound {
		return found, nil, err
	}
	doc, err := k.o.Store.Document(ctx, scope, tenant, alert.KindMessages, alert.MessagesID(tenant))
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	boxes, err := alert.DecodeBoxes(doc.Body)
	return nil, boxes.Held(event), err
}

// Rule is a rule as it holds for one tenant, or for the operator.
type Rule struct {
	alert.Rule
	alert.InForce
	Setting alert.Setting // of the tenant itself
}

// Rules lists the rules that concern a tenant; empty: the operator, whose settings hold for all
// tenants as well, so all rules are listed.
func (k *Keeper) Rules(ctx context.Context, tenant string) ([]Rule, error) {
	settings, err := k.settingsOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var all []Rule
	for _, r := range alert.Rules() {
		if tenant == "" || r.Tenants {
			all = append(all, Rule{Rule: r, InForce: settings.Of(&r, tenant), Setting: settings[tenant][r.Name]})
		}
	}
	return all, nil
}

// settingsOf reads the settings of a tenant, and those for all.
func (k *Keeper) settingsOf(ctx context.Context, tenant string) (alert.Settings, error) {
	all := alert.Settings{}
	for _, of := range slices.Compact([]string{"", tenant}) {
		all[of] = map[string]alert.Setting{}
		for _, r := range alert.Rules() {
			doc, err := k.o.Store.Document(ctx, store.Everyone(), of, alert.KindRule, alert.SettingID(of, r.Name))
			if grapnel.CodeOf(err) == grapnel.CodeNotFound {
				continue
			}
			if err != nil {
				return nil, err
			}
			if all[of][r.Name], err = alert.DecodeSetting(doc.Body); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// ruleFor finds a rule that concerns a tenant.
func ruleFor(tenant, name string) (*alert.Rule, error) {
	r, known := alert.RuleOf(name)
	if !known || tenant != "" && !r.Tenants {
		return nil, store.ErrNotFound("alert rule")
	}
	return r, nil
}

// RuleInAudit begins the ids of rules in the audit.
const RuleInAudit = "alert_rule_"

// SetRule changes a rule for a tenant; empty: for the operator, and for tenants that have not set
// the same field. change returns the new setting, given the rule of now. The next round follows it.
func (k *Keeper) SetRule(ctx context.Context, scope store.Scope, tenant, name string, by grapnel.By,
	change func(Rule) (alert.Setting, error)) (Rule, error) {
	r, err := ruleFor(tenant, name)
	if err != nil {
		return Rule{}, err
	}
	for {
		doc, err := k.o.Store.Document(ctx, scope, tenant, alert.KindRule, alert.SettingID(tenant, name))
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
			return Rule{}, err
		}
		settings, err := k.settingsOf(ctx, tenant)
		if err != nil {
			return Rule{}, err
		}
		is, err := change(Rule{Rule: *r, InForce: settings.Of(r, tenant), Setting: settings[tenant][name]})
		if err != nil {
			return Rule{}, err
		}
		settings[tenant][name] = is
		with := store.With{Audit: &grapnel.AuditEntry{Actor: by.Actor, Verb: grapnel.VerbChange, Endpoint: RuleInAudit + name,
			Reason: by.Reason}}
		_, err = k.put(ctx, scope, with, store.Document{Tenant: tenant, Kind: alert.KindRule, ID: alert.SettingID(tenant, name),
			Revision: doc.Revision, At: k.moment(), Body: is.Encode()})
		if grapnel.CodeOf(err) == grapnel.CodeConflict {
			continue // changed at the same moment
		}
		return Rule{Rule: *r, InForce: settings.Of(r, tenant), Setting: is}, err
	}
}

// Backtested is how often a rule would have fired.
type Backtested struct {
	From, To time.Time
	Known    bool // history has the rule's facts
	Fired    []time.Time
	Sentence string
}

// auditRead is the number of audit entries that a backtest reads at once.
const auditRead = 1000

// Backtest says how often a rule would have fired for a tenant (empty: for the operator) in the
// time before now. threshold replaces the one in force; nil: that.
func (k *Keeper) Backtest(ctx context.Context, scope store.Scope, tenant, name string, back time.Duration,
	threshold *float64) (Backtested, error) {
	r, err := ruleFor(tenant, name)
	if err != nil {
		return Backtested{}, err
	}
	settings, err := k.settingsOf(ctx, tenant)
	if err != nil {
		return Backtested{}, err
	}
	is := settings.Of(r, tenant)
	if threshold != nil {
		is.Threshold = *threshold
	}
	now := k.now().Round(0).UTC()
	b := Backtested{From: now.Add(-back), To: now, Known: r.Backtest && (tenant != "" || r.Operator)}
	switch {
	case r.Backtest && !b.Known:
		b.Sentence = "This rule is about single tenants: name one."
	case !b.Known:
		b.Sentence = fmt.Sprintf("Unknown: no history of this rule's facts is stored. It measures: %s%s",
			strings.ToLower(r.About[:1]), r.About[1:])
	case name == alert.EndpointDisabled:
		if b.Fired, err = k.disabled(ctx, scope, tenant, b.From); err != nil {
			return Backtested{}, err
		}
	case name == alert.EndpointDegraded:
		if b.Fired, err = k.degraded(ctx, scope, tenant, r, is, b.From, b.To); err != nil {
			return Backtested{}, err
		}
	default:
		buckets, err := k.o.Store.Totals(ctx, scope, store.TotalsQuery{Tenant: tenant, From: b.From.Add(-alert.BaselineFor)})
		if err != nil {
			return Backtested{}, err
		}
		b.Fired = alert.Backtest(r, is, buckets, b.From, b.To)
	}
	if b.Known {
		b.Sentence = fmt.Sprintf("This rule would have fired %s in the last %s.", say.Times(len(b.Fired)), say.Spoken(back))
	}
	return b, nil
}

// degraded judges the hours of those endpoints of a tenant at which the most first attempts failed,
// at most Bounds.Backtested.
func (k *Keeper) degraded(ctx context.Context, scope store.Scope, tenant string, r *alert.Rule, is alert.InForce,
	from, to time.Time) (at []time.Time, err error) {
	all, err := k.o.Store.Totals(ctx, scope, store.TotalsQuery{Tenant: tenant, From: from.Truncate(time.Hour), By: store.ByEndpoint})
	if err != nil {
		return nil, err
	}
	failed := func(b *grapnel.Bucket) int64 { return b.FirstAttempts - b.FirstAttemptSuccess }
	slices.SortFunc(all, func(a, b grapnel.Bucket) int {
		return cmp.Or(cmp.Compare(failed(&b), failed(&a)), strings.Compare(a.Name, b.Name))
	})
	for i := range all[:min(len(all), k.bounds.Backtested)] {
		if all[i].Name == "" || failed(&all[i]) == 0 || strings.HasPrefix(all[i].Name, grapnel.QueuePrefix) {
			continue
		}
		hours, err := k.o.Store.Totals(ctx, scope, store.TotalsQuery{Tenant: tenant, Endpoint: all[i].Name, From: from.Truncate(time.Hour)})
		if err != nil {
			return nil, err
		}
		at = append(at, alert.Backtest(r, is, hours, from, to)...)
	}
	slices.SortFunc(at, time.Time.Compare)
	return at, nil
}

// disabled reads from the audit when Grapnel disabled endpoints of a tenant.
func (k *Keeper) disabled(ctx context.Context, scope store.Scope, tenant string, from time.Time) (at []time.Time, err error) {
	for q := (store.AuditQuery{Tenant: tenant, Limit: auditRead}); ; {
		page, err := k.o.Store.AuditList(ctx, scope, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if page[i].At.Before(from) {
				page = nil
				break
			}
			if page[i].Verb == grapnel.VerbDisable && page[i].Actor == grapnel.ActorItself {
				at = append(at, page[i].At)
			}
		}
		if len(page) < auditRead {
			slices.Reverse(at)
			return at, nil
		}
		q.Before = page[len(page)-1].Seq
	}
}

// Follow reads an acknowledge link; false: it was not made here, or has expired.
func (k *Keeper) Follow(token string) (id, tenant string, valid bool) {
	var l Link
	if k.o.Sealer == nil || k.o.Sealer.OpenFor(UseLink, token, &l) != nil || !k.now().Before(l.Ends) {
		return "", "", false
	}
	return l.Alert, l.Tenant, true
}
