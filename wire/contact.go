package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// NewContact has the settings of a contact: a mail address or a chat.
type NewContact struct {
	Tenant      string `json:"tenant" fixed:"true" form:"tenant" doc:"the key's tenant, else default"`
	Mail        string `json:"mail" maxLength:"254" form:"line" doc:"the address of one mailbox; this or url. A mail with a link asks to confirm it, and nothing else goes there before"`
	URL         string `json:"url" maxLength:"2048" form:"line" doc:"the URL of a chat's webhook as the chat shows it, or as shoutrrr writes it: slack://…, teams://…, discord://…; this or mail. It holds credentials, so answers show it masked"`
	Description string `json:"description" maxLength:"1000"`
	Confirmed   bool   `json:"confirmed" doc:"the address needs no confirmation; only from keys without a tenant"`
}

// MarshalJSON writes the fields that are set.
func (c NewContact) MarshalJSON() ([]byte, error) { return Request(c) }

// Contact is told about the failing endpoints of its tenant.
type Contact struct {
	Raw
	ID          string     `json:"id"`
	Tenant      string     `json:"tenant"`
	Service     string     `json:"service" doc:"smtp for a mail address, else the chat: slack, teams, discord …"`
	Mail        string     `json:"mail" nullable:"true"`
	URL         string     `json:"url" nullable:"true" doc:"masked"`
	Description string     `json:"description"`
	Confirmed   bool       `json:"confirmed" doc:"false: it gets no messages"`
	ConfirmedAt *time.Time `json:"confirmed_at" nullable:"true"`
	Health      Health     `json:"health"`
	CreatedAt   time.Time  `json:"created_at"`
}

// MarshalJSON writes the contact as the API does.
func (c Contact) MarshalJSON() ([]byte, error) { return Encode(c) }

// ContactLink is the contact that a confirmation link names.
type ContactLink struct {
	Raw
	Mail string `json:"mail" doc:"the address that is confirmed"`
}

// MarshalJSON writes the contact as the API does.
func (l ContactLink) MarshalJSON() ([]byte, error) { return Encode(l) }

// SenderSettings say how messages reach contacts.
type SenderSettings struct {
	URL     string          `json:"url" nullable:"true" maxLength:"2048" form:"line" doc:"of the mail server, without recipients: smtp://user:password@host:587/?fromaddress=hooks@example.com&fromname=Acme; its password is not shown; none: nothing is sent to any contact"`
	Subject string          `json:"subject" nullable:"true" maxLength:"200" form:"line" doc:"template of titles and of subjects of mails, with {subject}, {text}, {endpoint}, {stage}, {cause}, {since}, {failed}, {waiting}, {dead}, {tenant}; none: {subject}"`
	Text    string          `json:"text" nullable:"true" maxLength:"1000" doc:"template of texts, with the same; a link follows; none: {text}"`
	PerDay  int64           `json:"per_day" nullable:"true" minimum:"0" maximum:"10000" doc:"messages that the contacts of one tenant get on one day (UTC), the questions to confirm among them; none or 0: 20"`
	Scopes  []grapnel.Scope `json:"scopes" maxItems:"6" uniqueItems:"true" enum:"read,replay,endpoints:write,secrets:reveal,payload:read,alerts:read" doc:"rights of the portal links in messages; none: read and replay. With endpoints:write a disabled endpoint can be enabled by it"`
}

// MarshalJSON writes the fields that are set.
func (s SenderSettings) MarshalJSON() ([]byte, error) { return Request(s) }

// Sender is how messages reach contacts.
type Sender struct {
	Raw
	SenderSettings
	UpdatedAt *time.Time `json:"updated_at" nullable:"true" doc:"null: nothing was ever set"`
}

// MarshalJSON writes the settings as the API does.
func (s Sender) MarshalJSON() ([]byte, error) { return Encode(s) }
