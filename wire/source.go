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
	Name         string                 `json:"name" required:"true" minLength:"1" maxLength:"100" form:"name" doc:"name for operators, unique within the tenant"`
	Description  string                 `json:"description" maxLength:"1000"`
	Verify       VerifySettings         `json:"verify" doc:"how requests are verified; required without an outbox or a broker"`
	Outbox       *OutboxSettings        `json:"outbox" doc:"instead of verify: events are read from a producer's outbox; then only description and status apply"`
	Broker       *Target                `json:"broker" doc:"instead of verify: events are the messages of this broker; then only description, type, key, event_id, tls and status apply, and the expressions see headers, data, and the broker's own type and key"`
	TLS          *TLS                   `json:"tls" doc:"of the connections to the broker"`
	Dedupe       *DedupeSettings        `json:"dedupe" doc:"how repeated requests are recognised"`
	OnUnverified grapnel.Unverified     `json:"on_unverified" default:"reject" enum:"reject,quarantine" doc:"reject: 401, and nothing is stored; quarantine: 202, stored for people to see and never delivered; reject if not given"`
	Type         string                 `json:"type" maxLength:"4096" doc:"a CEL expression that gives the event's type; none: the provider's own field"`
	Key          string                 `json:"key" maxLength:"4096" doc:"a CEL expression that gives the ordering key; none: the provider's own field, if it has one"`
	EventID      string                 `json:"event_id" maxLength:"4096" doc:"a CEL expression over the body that gives the provider's id of the event, such as event.data.id; none: the provider's own field, if it has one"`
	PublicURL    string                 `json:"public_url" minLength:"1" maxLength:"2048" form:"url" doc:"URL that the provider calls, for signatures that cover it; none: below the server's --public-url, or the URL of the request"`
	RateLimit    *grapnel.RateLimit     `json:"rate_limit" doc:"requests beyond it get 429, counted by each node for itself; none: no limit"`
	MaxBody      int64                  `json:"max_body" minimum:"1" maximum:"9007199254740991" doc:"bytes of a request's body; the server's limit if not given"`
	Status       grapnel.EndpointStatus `json:"status" default:"enabled" enum:"enabled,paused" doc:"paused: requests get 503, so that the provider keeps and repeats them; enabled if not given"`
}

// MarshalJSON writes the fields that are set.
func (s NewSource) MarshalJSON() ([]byte, error) { return Request(s) }

// OutboxSettings say where a producer's outbox is.
type OutboxSettings struct {
	DSN string `json:"dsn" minLength:"1" maxLength:"2048" doc:"how to connect to the producer's database: postgres://user:password@host:5432/database, mysql://user:password@host:3306/database, or sqlite:/path of a file of --outbox-file; required when there is none yet"`
}

// VerifySettings say how a source verifies. What a scheme does not read must not be given.
type VerifySettings struct {
	Scheme          string          `json:"scheme" required:"true" form:"scheme" doc:"signature scheme: stripe, github, shopify, slack, twilio, standard, svix, hmac, basic, api_key, none, …"`
	Secret          string          `json:"secret" minLength:"1" doc:"secret shared with the provider, 8 bytes or more; for hmac, hex:… and base64:… give the bytes. A source whose scheme signs may be created without: it waits for its secret"`
	Secrets         []string        `json:"secrets" minItems:"1" maxItems:"5" doc:"instead of secret: several, newest first; a signature by any of them is valid"`
	Header          string          `json:"header" maxLength:"256" doc:"header with the signature or key"`
	Algorithm       string          `json:"algorithm" enum:"sha1,sha256,sha512"`
	Encoding        string          `json:"encoding" enum:"hex,base64" doc:"encoding of the signature"`
	Prefix          string          `json:"prefix" maxLength:"64" doc:"text before the signature in its header, such as sha256="`
	Signed          string          `json:"signed" maxLength:"256" doc:"the signed text: {body}, {timestamp}, {id}, {url} and the characters between them"`
	TimestampHeader string          `json:"timestamp_header" maxLength:"256"`
	IDHeader        string          `json:"id_header" maxLength:"256"`
	TypeHeader      string          `json:"type_header" maxLength:"256"`
	Tolerance       policy.Duration `json:"tolerance" form:"tolerance" doc:"how old a signed timestamp may be, and how far ahead; 5m if not given"`
	Username        string          `json:"username" maxLength:"256" doc:"for basic"`
}

// DedupeSettings say how a source knows what it has had before.
type DedupeSettings struct {
	By     []grapnel.DedupeBy `json:"by" maxItems:"3" uniqueItems:"true" enum:"event_id,delivery_id,content" doc:"event_id, delivery_id, content: the first that a request has counts; an empty list: no dedupe; all three if not given"`
	Window policy.Duration    `json:"window" form:"window" doc:"counted from the first arrival; 192h if not given; not shorter than the provider's retries"`
	Ignore []string           `json:"ignore" maxItems:"20" form:"path" doc:"paths of JSON bodies that content leaves out, such as $.sent_at"`
}

// Source is where the webhooks of one provider come in.
type Source struct {
	Raw
	ID           string                 `json:"id"`
	Tenant       string                 `json:"tenant"`
	Name         string                 `json:"name"`
	Description  string                 `json:"description"`
	Waits        bool                   `json:"waits_for_secret" doc:"the source has no secret yet: requests that only a secret could verify get 202 and are quarantined; the secret (rotate-secret, or PATCH of verify.secret) releases those that it verifies, as events"`
	Released     *Released              `json:"released,omitempty" doc:"only in the answer that sets the secret the source waited for; the requests that could not be looked at yet follow by themselves"`
	Unreachable  string                 `json:"unreachable" nullable:"true" doc:"why the provider cannot reach ingest_url: no --public-url is set, and the server was asked at a loopback or private address; null: nothing speaks against it"`
	IngestURL    string                 `json:"ingest_url" nullable:"true" doc:"URL for the provider: a path on this server, or a complete URL with --public-url; null with an outbox or a broker"`
	Verify       Verify                 `json:"verify,omitzero" doc:"not with an outbox or a broker"`
	Outbox       *Outbox                `json:"outbox,omitempty" doc:"only with an outbox"`
	Broker       *Target                `json:"broker,omitempty" doc:"only with a broker"`
	TLS          *TLS                   `json:"tls,omitempty" doc:"only with a broker"`
	Consumer     *Outbox                `json:"consumer,omitempty" doc:"only with a broker: how it is read"`
	Dedupe       Dedupe                 `json:"dedupe,omitzero" doc:"not with an outbox or a broker"`
	OnUnverified grapnel.Unverified     `json:"on_unverified" enum:"reject,quarantine"`
	Type         string                 `json:"type" nullable:"true"`
	Key          string                 `json:"key" nullable:"true"`
	EventID      string                 `json:"event_id" nullable:"true"`
	PublicURL    string                 `json:"public_url" nullable:"true"`
	RateLimit    *grapnel.RateLimit     `json:"rate_limit" nullable:"true"`
	MaxBody      int64                  `json:"max_body" nullable:"true" doc:"null: the server's limit"`
	Status       grapnel.EndpointStatus `json:"status" enum:"enabled,paused"`
	Provider     Provider               `json:"provider,omitzero" doc:"not with an outbox or a broker"`
	Refusals     *Refusals              `json:"refusals,omitempty" doc:"refused requests at this node since its start; absent: none"`
	CreatedAt    time.Time              `json:"created_at"`
	UpdatedAt    time.Time              `json:"updated_at"`
	Revision     int64                  `json:"revision" doc:"grows with every change"`
}

// MarshalJSON writes the source as the API does.
func (s Source) MarshalJSON() ([]byte, error) { return Encode(s) }

// Released says what became of the requests that waited for a source's secret.
type Released struct {
	Events      int `json:"events"`
	Duplicates  int `json:"duplicates" doc:"requests that repeat an event"`
	Conflicts   int `json:"conflicts" doc:"the same with another body; they are in the inbox"`
	Quarantined int `json:"quarantined" doc:"the secret does not verify them, so they stay in quarantine"`
}

// Outbox is how the relay of a source's outbox, or the consumer of its broker, is doing.
type Outbox struct {
	Place       string          `json:"place" doc:"where the outbox or the broker is, without secrets"`
	State       string          `json:"state" enum:"paused,connecting,relaying,standby,held,away" doc:"relaying: the relay works; standby: another server relays; held: the server accepts no events at the moment; away: the database or the broker cannot be used"`
	Since       *time.Time      `json:"since" nullable:"true"`
	Detail      string          `json:"detail" doc:"reason, if it does not relay"`
	Lag         policy.Duration `json:"lag" doc:"age of the oldest event that is not relayed; an upper bound while it is unreachable"`
	SeenAt      *time.Time      `json:"seen_at" nullable:"true" doc:"time of this server's last read"`
	LastEventAt *time.Time      `json:"last_event_at" nullable:"true" doc:"time of the last relayed event since this server was started"`
	Events      int64           `json:"events" doc:"events relayed since this server was started"`
	SetAside    int64           `json:"set_aside" doc:"events set aside because they are invalid; they are in the inbox"`
}

// Verify is how a source verifies, without its secrets.
type Verify struct {
	Scheme          string           `json:"scheme"`
	Secrets         []SourceSecret   `json:"secrets" doc:"valid secrets, newest first"`
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
	Signature  string           `json:"signature" doc:"place of the signature, and the text that it covers"`
	IDsSigned  bool             `json:"ids_signed" doc:"false: the signature does not cover the ids; receiving.md says what follows for each provider"`
	RetriesFor *policy.Duration `json:"retries_for" nullable:"true" doc:"how long it retries; null: it does not, or unknown"`
	Retries    string           `json:"retries" doc:"the same in words"`
	Checked    string           `json:"checked" nullable:"true" doc:"day of the last comparison with the provider's documentation"`
	Docs       string           `json:"docs" nullable:"true"`
}

// Refusals are the requests that a source refused, at the node that answered, since its start.
type Refusals struct {
	LastAt     time.Time `json:"last_at"`
	LastStatus int       `json:"last_status" doc:"status of the answer, such as 401"`
	LastReason string    `json:"last_reason"`
	LastHour   int       `json:"last_hour" doc:"number in the last hour"`
}
