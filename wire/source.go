package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewSource has the settings of a source. Name and Verify.Scheme are required; the server has
// defaults for the others.
type NewSource struct {
	Tenant       string                 `json:"tenant" fixed:"true" form:"tenant" doc:"the key's tenant, else default"`
	Name         string                 `json:"name" required:"true" minLength:"1" maxLength:"100" form:"name" doc:"for people; one of its tenant's sources has it"`
	Description  string                 `json:"description" maxLength:"1000"`
	Verify       VerifySettings         `json:"verify" doc:"how the provider's requests are told from others; required, unless there is an outbox"`
	Outbox       *OutboxSettings        `json:"outbox" doc:"instead: events are read from a producer's outbox; then nothing else but description and status means anything"`
	Dedupe       *DedupeSettings        `json:"dedupe" doc:"how a request is known that was there before"`
	OnUnverified grapnel.Unverified     `json:"on_unverified" default:"reject" enum:"reject,quarantine" doc:"reject: 401, and nothing is stored; quarantine: 202, stored for people to see and never delivered; reject if not given"`
	Type         string                 `json:"type" maxLength:"4096" doc:"a CEL expression that gives the event's type; none: the provider's own field"`
	Key          string                 `json:"key" maxLength:"4096" doc:"a CEL expression that gives the ordering key; none: the provider's own field, if it has one"`
	PublicURL    string                 `json:"public_url" minLength:"1" maxLength:"2048" form:"url" doc:"where the provider reaches it, for signatures that cover the URL; none: below the server's --public-url, or the URL of the request"`
	RateLimit    *grapnel.RateLimit     `json:"rate_limit" doc:"requests beyond it get 429; none: no limit"`
	MaxBody      int64                  `json:"max_body" minimum:"1" maximum:"9007199254740991" doc:"bytes of a request's body; the server's limit if not given"`
	Status       grapnel.EndpointStatus `json:"status" default:"enabled" enum:"enabled,paused" doc:"paused: requests get 503, so that the provider keeps and repeats them; enabled if not given"`
}

// MarshalJSON writes the fields that are set.
func (s NewSource) MarshalJSON() ([]byte, error) { return Request(s) }

// OutboxSettings say where a producer's outbox is.
type OutboxSettings struct {
	DSN string `json:"dsn" minLength:"1" maxLength:"2048" doc:"how to connect to the producer's PostgreSQL, as in postgres://user:password@host:5432/database; required when there is none yet"`
}

// VerifySettings say how a source verifies. What a scheme does not read must not be given.
type VerifySettings struct {
	Scheme          string          `json:"scheme" required:"true" form:"scheme" doc:"whose signature it is: stripe, github, shopify, slack, twilio, standard, svix, hmac, basic, api_key, none, …"`
	Secret          string          `json:"secret" minLength:"1" doc:"shared with the provider, 8 bytes or more; of hmac hex:… and base64:… are the bytes that they stand for"`
	Secrets         []string        `json:"secrets" minItems:"1" maxItems:"5" doc:"instead of secret, the newest first: any of them will do"`
	Header          string          `json:"header" maxLength:"256" doc:"that the signature or the key is in"`
	Algorithm       string          `json:"algorithm" enum:"sha1,sha256,sha512"`
	Encoding        string          `json:"encoding" enum:"hex,base64" doc:"of the signature"`
	Prefix          string          `json:"prefix" maxLength:"64" doc:"before the signature in its header, as in sha256="`
	Signed          string          `json:"signed" maxLength:"256" doc:"the signed text: {body}, {timestamp}, {id}, {url} and the characters between them"`
	TimestampHeader string          `json:"timestamp_header" maxLength:"256"`
	IDHeader        string          `json:"id_header" maxLength:"256"`
	TypeHeader      string          `json:"type_header" maxLength:"256"`
	Tolerance       policy.Duration `json:"tolerance" form:"tolerance" doc:"how old a signed timestamp may be, and how far ahead; 5m if not given"`
	Username        string          `json:"username" maxLength:"256" doc:"for basic"`
}

// DedupeSettings say how a source knows what it has had before.
type DedupeSettings struct {
	By     []grapnel.DedupeBy `json:"by" maxItems:"3" uniqueItems:"true" enum:"event_id,delivery_id,content" doc:"event_id, delivery_id, content: the first that a request has; an empty list: never; all three if not given"`
	Window policy.Duration    `json:"window" form:"window" doc:"from the first sight on; 192h if not given; not shorter than the provider goes on trying"`
	Ignore []string           `json:"ignore" maxItems:"20" form:"path" doc:"paths of JSON bodies that do not count for content, as in $.sent_at"`
}

// Source is where the webhooks of one provider come in.
type Source struct {
	Raw
	ID           string                 `json:"id"`
	Tenant       string                 `json:"tenant"`
	Name         string                 `json:"name"`
	Description  string                 `json:"description"`
	IngestURL    string                 `json:"ingest_url" nullable:"true" doc:"where the provider sends its requests: below the address of this server, or with it if that is set (--public-url); null with an outbox"`
	Verify       Verify                 `json:"verify,omitzero" doc:"not with an outbox"`
	Outbox       *Outbox                `json:"outbox,omitempty" doc:"only if it has one"`
	Dedupe       Dedupe                 `json:"dedupe,omitzero" doc:"not with an outbox"`
	OnUnverified grapnel.Unverified     `json:"on_unverified" enum:"reject,quarantine"`
	Type         string                 `json:"type" nullable:"true"`
	Key          string                 `json:"key" nullable:"true"`
	PublicURL    string                 `json:"public_url" nullable:"true"`
	RateLimit    *grapnel.RateLimit     `json:"rate_limit" nullable:"true"`
	MaxBody      int64                  `json:"max_body" nullable:"true" doc:"null: the server's limit"`
	Status       grapnel.EndpointStatus `json:"status" enum:"enabled,paused"`
	Provider     Provider               `json:"provider,omitzero" doc:"not with an outbox"`
	Refusals     *Refusals              `json:"refusals,omitempty" doc:"requests that were not taken, at the node that answers and since it was started; absent: none"`
	CreatedAt    time.Time              `json:"created_at"`
	UpdatedAt    time.Time              `json:"updated_at"`
	Revision     int64                  `json:"revision" doc:"grows with every change"`
}

// MarshalJSON writes the source as the API does.
func (s Source) MarshalJSON() ([]byte, error) { return Encode(s) }

// Outbox is how the relay of a source's outbox is doing.
type Outbox struct {
	Place       string          `json:"place" doc:"where the outbox is, without secrets"`
	State       string          `json:"state" enum:"paused,connecting,relaying,standby,held,away" doc:"relaying: all is well; standby: another server relays; held: the server takes no more at the moment; away: the database cannot be used, or has no outbox"`
	Since       *time.Time      `json:"since" nullable:"true"`
	Detail      string          `json:"detail" doc:"why, where it is not well"`
	Lag         policy.Duration `json:"lag" doc:"how long the oldest event waits that was committed; while the database is away, at most so long"`
	SeenAt      *time.Time      `json:"seen_at" nullable:"true" doc:"when this server looked at it last"`
	LastEventAt *time.Time      `json:"last_event_at" nullable:"true" doc:"when events came from it last, since this server was started"`
	Events      int64           `json:"events" doc:"that came from it since this server was started"`
	SetAside    int64           `json:"set_aside" doc:"of those, that could not be taken; they are in the inbox"`
}

// Verify is how a source verifies, without its secrets.
type Verify struct {
	Scheme          string           `json:"scheme"`
	Secrets         []SourceSecret   `json:"secrets" doc:"those that count at present, the newest first"`
	Header          string           `json:"header" nullable:"true"`
	Algorithm       string           `json:"algorithm" nullable:"true"`
	Encoding        string           `json:"encoding" nullable:"true"`
	Prefix          string           `json:"prefix" nullable:"true"`
	Signed          string           `json:"signed" nullable:"true"`
	TimestampHeader string           `json:"timestamp_header" nullable:"true"`
	IDHeader        string           `json:"id_header" nullable:"true"`
	TypeHeader      string           `json:"type_header" nullable:"true"`
	Tolerance       *policy.Duration `json:"tolerance" nullable:"true" doc:"null: no timestamp is signed"`
	Username        string           `json:"username" nullable:"true"`
}

// SourceSecret says that a secret counts, not which one it is.
type SourceSecret struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" nullable:"true"`
}

// Dedupe has the settings by which a source recognises duplicates.
type Dedupe struct {
	By     []grapnel.DedupeBy `json:"by"`
	Window policy.Duration    `json:"window"`
	Ignore []string           `json:"ignore"`
}

// Provider describes the provider of a scheme.
type Provider struct {
	Title      string           `json:"title"`
	Signature  string           `json:"signature" doc:"where the signature is and what it covers"`
	IDsSigned  bool             `json:"ids_signed" doc:"false: the signature does not cover the ids; receiving.md says what follows for each provider"`
	RetriesFor *policy.Duration `json:"retries_for" nullable:"true" doc:"how long it retries; null: it does not, or unknown"`
	Retries    string           `json:"retries" doc:"the same in words"`
	Checked    string           `json:"checked" nullable:"true" doc:"the day on which that was compared with its documentation"`
	Docs       string           `json:"docs" nullable:"true"`
}

// Refusals are the requests that a source refused, at the node that answered, since its start.
type Refusals struct {
	LastAt     time.Time `json:"last_at"`
	LastStatus int       `json:"last_status" doc:"of the answer, as in 401"`
	LastReason string    `json:"last_reason"`
	LastHour   int       `json:"last_hour" doc:"how many there were in the last hour"`
}
