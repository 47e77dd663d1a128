package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// NewPortalLink is a link to the portal of a tenant.
type NewPortalLink struct {
	ExpiresIn string          `json:"expires_in" form:"link" default:"15m" doc:"how long the link can be opened, once"`
	Session   string          `json:"session" form:"link" default:"1h" doc:"how long the portal stays open after that"`
	Scopes    []grapnel.Scope `json:"scopes" maxItems:"6" uniqueItems:"true" enum:"read,replay,endpoints:write,secrets:reveal,payload:read,alerts:read" doc:"none: read. endpoints:write: add, change, pause and delete endpoints; secrets:reveal: see the secrets that this creates; payload:read: see data of events, and bodies and header values of requests; alerts:read: see alerts about the endpoints, but not where they are sent"`
	Endpoints []string        `json:"endpoints" minItems:"1" maxItems:"50" uniqueItems:"true" form:"id" doc:"only these endpoints of the tenant. Without this field: all, and new ones can be added"`
	Subject   string          `json:"subject" minLength:"1" maxLength:"100" form:"name" doc:"who opens it, as your own system calls them; the audit says portal/ and this"`
	Theme     string          `json:"theme" enum:"auto,light,dark" doc:"colours; none: as the person's system"`
	Locale    string          `json:"locale" form:"^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$" doc:"how dates and times are written, such as de-DE or en-US; none: 23 Nov, 14:45. The sentences are English"`
	ReturnURL string          `json:"return_url" form:"^https?://[^#\\x00-\\x20\\x7f\"']+$" maxLength:"500" doc:"where the portal's link back leads"`
}

// MarshalJSON writes the fields that are set.
func (l NewPortalLink) MarshalJSON() ([]byte, error) { return Request(l) }

// PortalLink opens a portal once.
type PortalLink struct {
	Raw
	ID        string    `json:"id" doc:"names the link, and the session that it opens, to end them before their time; no secret"`
	URL       string    `json:"url" doc:"secret: it opens the portal for its first user. Its code stands after the #, which browsers send to no server"`
	ExpiresAt time.Time `json:"expires_at" doc:"until when it can be opened"`
}

// MarshalJSON writes the link as the API does.
func (l PortalLink) MarshalJSON() ([]byte, error) { return Encode(l) }

// PortalSession is an open portal.
type PortalSession struct {
	Raw
	Pass      string    `json:"pass" doc:"calls the API in the place of an API key: Authorization: Bearer grpass_…"`
	ExpiresAt time.Time `json:"expires_at"`
}

// MarshalJSON writes the session as the API does.
func (s PortalSession) MarshalJSON() ([]byte, error) { return Encode(s) }

// PortalSettings are how the portal of a tenant looks, and where it may be framed.
type PortalSettings struct {
	Name           string   `json:"name" minLength:"1" maxLength:"60" form:"name" doc:"stands in the place of Grapnel's name"`
	Logo           string   `json:"logo" maxLength:"17000" form:"^data:image/(png|jpeg|webp);base64,[A-Za-z0-9+/]+={0,2}$" doc:"a data: URL of a PNG, JPEG or WebP of at most 12 KiB"`
	Accent         string   `json:"accent" form:"^#[0-9a-fA-F]{6}$" doc:"colour of buttons and of the selected page"`
	FrameAncestors []string `json:"frame_ancestors" maxItems:"10" uniqueItems:"true" form:"^https://(\\*\\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:[0-9]{1,5})?$|^http://(localhost|127\\.0\\.0\\.1)(:[0-9]{1,5})?$" doc:"origins of pages that may show the portal in a frame, such as https://app.example.com; none: no page"`
}

// MarshalJSON writes the fields that are set.
func (s PortalSettings) MarshalJSON() ([]byte, error) { return Request(s) }

// Portal is how the portal of a tenant looks.
type Portal struct {
	Raw
	Tenant         string    `json:"tenant"`
	Name           string    `json:"name" nullable:"true"`
	Logo           string    `json:"logo" nullable:"true"`
	Accent         string    `json:"accent" nullable:"true"`
	FrameAncestors []string  `json:"frame_ancestors"`
	UpdatedAt      time.Time `json:"updated_at,omitzero"`
}

// MarshalJSON writes the settings as the API does.
func (p Portal) MarshalJSON() ([]byte, error) { return Encode(p) }
