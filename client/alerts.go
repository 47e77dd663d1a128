package client

import (
	"context"
	"net/http"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of alerts.
type (
	Alert             = wire.Alert
	AlertRule         = wire.AlertRule
	AlertRuleSettings = wire.AlertRuleSettings
	NewBacktest       = wire.NewBacktest
	Backtest          = wire.Backtest
	AlertLink         = wire.AlertLink
)

// AlertFilter selects alerts; the zero value selects all.
type AlertFilter struct {
	State, Rule, Tenant string
	Endpoint            string // only alerts about this endpoint, queue or channel
	Limit               int
	Cursor              string
}

// Alerts lists alerts: those that are open first, then those that are resolved, the newest first.
func (c *Client) Alerts(ctx context.Context, f AlertFilter) (*Page[Alert], error) {
	q := window(f.Limit, f.Cursor, "state", f.State, "rule", f.Rule, "endpoint", f.Endpoint, "tenant", f.Tenant)
	return get[Page[Alert]](ctx, c, "/v1/alerts", q)
}

// Alert returns an alert with its messages.
func (c *Client) Alert(ctx context.Context, id string) (*Alert, error) {
	return get[Alert](ctx, c, at("/v1/alerts", id), nil)
}

// AcknowledgeAlert says that a person takes care of an alert; it is not repeated any more.
func (c *Client) AcknowledgeAlert(ctx context.Context, id, reason string) (*Alert, error) {
	return post[Alert](ctx, c, at("/v1/alerts", id, "acknowledge"), because(reason))
}

// AlertLink returns the alert that the acknowledge link of a message names. It needs no key.
func (c *Client) AlertLink(ctx context.Context, link string) (*AlertLink, error) {
	return get[AlertLink](ctx, c, at("/v1/alert-links", link), nil)
}

// FollowAlertLink acknowledges the alert that the link of a message names. It needs no key.
func (c *Client) FollowAlertLink(ctx context.Context, link string) (*AlertLink, error) {
	return post[AlertLink](ctx, c, at("/v1/alert-links", link), nil)
}

// AlertRules lists the rules that concern a tenant; empty: those of the key's tenant, or of the
// operator.
func (c *Client) AlertRules(ctx context.Context, tenant string) (*Page[AlertRule], error) {
	return get[Page[AlertRule]](ctx, c, "/v1/alert-rules", query("tenant", tenant))
}

// AlertRule returns a rule; tenant as in AlertRules.
func (c *Client) AlertRule(ctx context.Context, tenant, name string) (*AlertRule, error) {
	return get[AlertRule](ctx, c, at("/v1/alert-rules", name), query("tenant", tenant))
}

// UpdateAlertRule changes a rule. Members of changes that are nil are set back.
func (c *Client) UpdateAlertRule(ctx context.Context, tenant, name string, changes map[string]any) (*AlertRule, error) {
	return patch[AlertRule](ctx, c, at("/v1/alert-rules", name), query("tenant", tenant), changes)
}

// BacktestAlertRule says how often a rule would have fired.
func (c *Client) BacktestAlertRule(ctx context.Context, tenant, name string, b NewBacktest) (*Backtest, error) {
	rq := call{method: http.MethodPost, path: at("/v1/alert-rules", name, "backtest"), query: query("tenant", tenant), in: b}
	return answered[Backtest](ctx, c, rq)
}
