package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewChannel has the settings of a channel. Only URL is required; the server has defaults for the
// others.
type NewChannel struct {
	Tenant      string                 `json:"tenant" fixed:"true" form:"audience" doc:"the key's tenant, else default; _operator: alerts about the server itself; *: alerts of all tenants, and about the server; both for keys without a tenant"`
	URL         string                 `json:"url" required:"true" minLength:"1" maxLength:"2048" form:"service" doc:"the URL of a webhook as the service shows it (https://hooks.slack.com/services/…), or of a service as shoutrrr writes it: slack://…, telegram://…, smtp://…; it holds credentials, so answers show it masked"`
	Description string                 `json:"description" maxLength:"1000"`
	Severities  []string               `json:"severities" maxItems:"3" uniqueItems:"true" enum:"page,warning,info" doc:"only alerts of these: page, warning, info; none: every severity"`
	Rules       []string               `json:"rules" maxItems:"64" form:"rule" doc:"only alerts of these rules, such as endpoint_failing; none: every rule"`
	QuietHours  *grapnel.QuietHours    `json:"quiet_hours" nullable:"true" doc:"a part of every day in which only alerts of the severity page are sent; none: no such part"`
	Digest      policy.Duration        `json:"digest" default:"0s" form:"digest" doc:"alerts below the severity page are gathered for this long and sent as one; 0s: each is sent at once"`
	Status      grapnel.EndpointStatus `json:"status" default:"enabled" enum:"enabled,paused,disabled" doc:"paused: alerts are held; enabled if not given"`
}

// MarshalJSON writes the fields that are set.
func (c NewChannel) MarshalJSON() ([]byte, error) { return Request(c) }

// Channel is an endpoint that alerts go to, in a service for people. Deliveries, dead letters and
// replays refer to it by its id, as to any endpoint.
type Channel struct {
	Raw
	ID string `json:"id"`
	NewChannel
	Service        string     `json:"service" before:"url" doc:"the service that the URL names: slack, telegram, smtp …"`
	DisabledReason string     `json:"disabled_reason" nullable:"true"`
	DisabledAt     *time.Time `json:"disabled_at" nullable:"true"`
	Health         Health     `json:"health"`
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
	Revision       int64      `json:"revision" doc:"grows with every change"`
}

// MarshalJSON writes the channel as the API does.
func (c Channel) MarshalJSON() ([]byte, error) { return Encode(c) }
