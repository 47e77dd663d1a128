package grapnel

import (
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// OperatorTenant is the tenant of the operator's own alerts and channels: those about the server
// and not about one tenant. Keys, portals and people cannot be bound to it, so only keys without a
// tenant see it.
const OperatorTenant = "_operator"

// Channel is the part of an endpoint that makes it a channel: alerts go to a service for people,
// such as a chat, and not to a program. Its other settings are those of any endpoint, so an alert
// is retried, recorded and replayed like any event. The endpoint's URL is a masked form of the
// channel's, and its filter is made of the severities and rules.
type Channel struct {
	Service    string      // a row of package channel: "slack", "smtp" …
	URL        Secret      // as shoutrrr writes it; it holds the service's credentials
	Severities []string    // only alerts of these; empty: every severity
	Rules      []string    // only alerts of these rules; empty: every rule
	QuietHours *QuietHours // nil: none. Within them only alerts of the severity page are sent
	// it gets the alerts of all tenants, too; its tenant is OperatorTenant
	AllTenants bool            `json:",omitempty"`
	Digest     policy.Duration // alerts below the severity page are gathered for this long; 0: sent at once
	Contact    *Contact        `json:",omitempty"` // not nil: it belongs to a customer, and gets no alerts
}

// Contact makes a channel a contact of a customer: it gets messages about the stages of the
// tenant's failing endpoints.
type Contact struct {
	Mail        string    // the address, to which the operator's Sender sends; empty: the channel's URL names a chat
	ConfirmedAt time.Time `json:",omitzero"` // the address was confirmed; zero: it gets no messages
}

// Confirmed says whether messages may go to the contact. The holder of a chat's URL may write to
// that chat anyway, so only addresses are confirmed.
func (c *Contact) Confirmed() bool { return c.Mail == "" || !c.ConfirmedAt.IsZero() }

// Sender is how messages reach the contacts of customers. It is the operator's, and one for all
// tenants.
type Sender struct {
	URL       Secret  // of a mail server, as that of a channel of mails without recipients; empty: nothing is sent
	Subject   string  `json:",omitzero"`  // a template, see package contacts; empty: the default
	Text      string  `json:",omitzero"`  // likewise
	PerDay    int     `json:",omitzero"`  // messages of one tenant on one day (UTC); 0: the default
	Scopes    []Scope `json:",omitempty"` // of the portal links in messages; nil: the default
	UpdatedAt time.Time
}

// Address is where the messages of a channel go: its URL, or the mail address of a contact; of no
// channel, the empty text.
func (c *Channel) Address() string {
	switch {
	case c == nil:
		return ""
	case c.Contact != nil && c.Contact.Mail != "":
		return c.Contact.Mail
	}
	return c.URL.Text
}

// Mailed says whether the operator's Sender sends the messages of the channel.
func (c *Channel) Mailed() bool { return c != nil && c.Contact != nil && c.Contact.Mail != "" }

// QuietHours are a part of every day. They go past midnight if To is before From.
type QuietHours struct {
	From string `json:"from" required:"true" form:"clock" doc:"the time of day at which they begin: 22:00"`
	To   string `json:"to" required:"true" form:"clock_end" doc:"the time of day at which they end: 07:00"`
	TZ   string `json:"tz" default:"UTC" form:"zone" maxLength:"64" doc:"a name of the time zone database: Europe/Berlin; UTC if not given"`
}

// The severities of alerts.
const (
	SeverityPage    = "page"
	SeverityWarning = "warning"
	SeverityInfo    = "info"
)

// ChannelPattern is the only pattern that a channel subscribes to.
const ChannelPattern = "grapnel.alert.*"

// WantsAlerts says whether a pattern may match the types of alerts at all: it has to name their
// first segment.
func WantsAlerts(pattern string) bool { return strings.HasPrefix(pattern, "grapnel.") }
