package wire

import (
	"encoding/json"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewEndpoint has the settings of an endpoint. Only URL or Target is required; the server has
// defaults for the others.
type NewEndpoint struct {
	Tenant         string             `json:"tenant" fixed:"true" form:"tenant" doc:"the key's tenant, else default"`
	URL            string             `json:"url" minLength:"1" maxLength:"2048" form:"url" doc:"URL that gets deliveries as requests; required unless target is given, whose address answers have here. Values of its query are [redacted] for a caller who may not change the endpoint"`
	Target         *Target            `json:"target" nullable:"true" doc:"a broker that gets deliveries as messages, in the place of a URL; none: the URL gets them"`
	Description    string             `json:"description" maxLength:"1000"`
	Labels         map[string]string  `json:"labels" maxProperties:"16" names:"^[A-Za-z0-9_.-]{1,64}$" maxLength:"256" doc:"marks of your own, such as {\"team\":\"billing\"}; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes; lists can be filtered by one, and no delivery depends on them"`
	EventTypes     []string           `json:"event_types" maxItems:"100" form:"pattern" doc:"patterns in which a whole segment may be *; none: every type"`
	Filter         string             `json:"filter" nullable:"true" maxLength:"4096" doc:"a CEL expression over event (type, key, data, metadata)"`
	Source         string             `json:"source" nullable:"true" form:"id" doc:"the id of a source: only events that it received; none: events of any origin"`
	Policy         any                `json:"policy" form:"policy" doc:"the name of a policy, or a policy, whose preset names its base; none: default"`
	Ordering       grapnel.Ordering   `json:"ordering" nullable:"true" enum:"key,none" doc:"none: events of one key do not wait for each other; that of the policy's preset if not given, else key"`
	RateLimit      *grapnel.RateLimit `json:"rate_limit" nullable:"true" doc:"none: no limit"`
	MaxConcurrency int                `json:"max_concurrency" default:"32" minimum:"1" maximum:"1024" doc:"requests at once; 32 if not given"`
	Headers        map[string]string  `json:"headers" maxProperties:"32" names:"header-name" form:"header-value" doc:"sent with every delivery; {event.id}, {event.type}, {event.key}, {event.timestamp}, {delivery.id}, {attempt} and {retry} stand for their values, {{ and }} for braces; values are [redacted] for a key without the scope manage"`
	Method         string             `json:"method" default:"POST" enum:"POST,PUT,PATCH" doc:"of the requests; POST if not given"`
	OAuth2         *OAuth2            `json:"oauth2" nullable:"true" doc:"client credentials (RFC 6749): requests carry a bearer token of this token server; none: they carry none"`
	TLS            *TLS               `json:"tls" nullable:"true" doc:"a client certificate, and the authorities that are trusted; none: no certificate, and those of the system"`
	Proxy          string             `json:"proxy" nullable:"true" maxLength:"2048" form:"proxy" doc:"URL of a forward proxy that connections go through (CONNECT), with its port, and a user and password if it wants them; the password is [redacted] in answers; none: no proxy but the server's own"`
	Format         grapnel.Format     `json:"format" nullable:"true" enum:"standard,raw,cloudevents,batch" doc:"form of the request; that of the policy's preset if not given, else standard"`
	Transform      string             `json:"transform" nullable:"true" maxLength:"4096" doc:"a jq expression over the standard body (id, type, timestamp, data) whose one result is the body to send, as JSON; none: the preset's, or the body of the format"`
	Signing        grapnel.Signing    `json:"signature_headers" default:"standard" enum:"standard,svix" doc:"svix: svix-id, svix-timestamp and svix-signature besides webhook-id and so on; standard if not given"`
	Trace          bool               `json:"trace" doc:"requests have the header traceparent, so that the receiver continues the publisher's trace; false if not given. tracestate and baggage are never sent"`
	Secret         string             `json:"secret,omitempty" fixed:"true" minLength:"1" form:"secret" doc:"whsec_… or whsk_…; none: one is made. Shown in the answer that makes it, and never again"`

	Status grapnel.EndpointStatus `json:"status" default:"enabled" enum:"enabled,paused,disabled" doc:"paused: deliveries are held; enabled if not given"`
}

// Target is a broker. The body and the headers of a message to it are those of a request. A source
// reads messages from it.
type Target struct {
	Kind     string            `json:"kind" required:"true" enum:"redis,nats,rabbitmq,kafka,sqs,sns,s3,pubsub" doc:"redis: an entry of a stream; nats: a message of JetStream; rabbitmq: a message to an exchange; kafka: a record of a topic; sqs, sns: a message to a queue or topic of AWS; s3: an object, or a file of several; pubsub: a message to a topic of Google. A source reads all but sns and s3"`
	Address  string            `json:"address,omitempty" maxLength:"2048" form:"line" doc:"where the broker is, without credentials: redis:// or rediss://, nats:// or tls://, amqp:// or amqps://, kafka:// or kafka+ssl://, http:// or https:// for the others, then hosts with their ports. The second form is the one over TLS, which uses tls. It must be as public as an endpoint's URL"`
	Name     string            `json:"name,omitempty" form:"^[!-~]{0,512}$" doc:"the stream's key, subject, exchange, topic, queue or object's key; a subject and an object's key may have placeholders as in headers. Of a source: the stream's key, stream, queue, topic or subscription"`
	Username string            `json:"username,omitempty" maxLength:"256" form:"line"`
	Password string            `json:"password,omitempty" maxLength:"16384" doc:"or token, without a username; [redacted] in answers. An update that moves address gives it again"`
	Options  map[string]string `json:"options,omitempty" maxProperties:"16" names:"^[a-z0-9_]{1,64}$" maxLength:"512" doc:"of the kind: max_length of redis, stream of nats, routing_key of rabbitmq, sasl of kafka (plain, scram-sha-256, scram-sha-512), region of sqs, sns and s3, batch and batch_wait of s3. Of a source: consumer and subject of nats, group of redis, group and sasl of kafka, region of sqs"`
}

// OAuth2 is a client of the endpoint's token server.
type OAuth2 struct {
	TokenURL     string   `json:"token_url" minLength:"1" maxLength:"2048" form:"url" doc:"address of the token server; it must be as public as the endpoint's own. An update that sets it to null removes the client"`
	ClientID     string   `json:"client_id" required:"true" minLength:"1" maxLength:"256" form:"line"`
	ClientSecret string   `json:"client_secret" required:"true" minLength:"1" maxLength:"1024" form:"line" doc:"[redacted] in answers; an update that moves token_url gives it again"`
	Scopes       []string `json:"scopes,omitempty" maxItems:"32" form:"^[!-~]{1,128}$"`
	Audience     string   `json:"audience,omitempty" maxLength:"1024" form:"line" doc:"a parameter that some token servers want"`
}

// TLS has texts in PEM.
type TLS struct {
	CA         string `json:"ca,omitempty" maxLength:"65536" form:"pem" doc:"certificates of the authorities that are trusted instead of the system's"`
	ClientCert string `json:"client_cert,omitempty" maxLength:"65536" form:"pem" doc:"the client certificate, and behind it those between it and its authority"`
	ClientKey  string `json:"client_key,omitempty" maxLength:"16384" form:"pem" doc:"its private key, not encrypted; [redacted] in answers"`
}

// MarshalJSON writes the fields that are set.
func (e NewEndpoint) MarshalJSON() ([]byte, error) { return Request(e) }

// Endpoint is where events go: its settings, and what the server knows about it. Its policy is in
// Policy, not in NewEndpoint.Policy.
type Endpoint struct {
	Raw
	ID string `json:"id"`
	NewEndpoint
	Policy         json.RawMessage `json:"policy" before:"ordering" form:"policy" doc:"the name of a preset or of a policy of the tenant, or a policy"`
	PolicyChanges  []string        `json:"policy_changes" before:"ordering" doc:"fields of its own policy that differ from the one that policy.preset names; a named policy has none"`
	PresetShape    *PresetShape    `json:"preset_shape" before:"signature_headers" nullable:"true" doc:"what the policy's preset says about requests and the endpoint does not; null: nothing"`
	Secrets        []Secret        `json:"secrets" before:"status" doc:"secrets that sign now, newest first"`
	JWKSURL        string          `json:"jwks_url" before:"status" nullable:"true" doc:"where receivers get the public keys of the secrets, as a JWK Set: a path on this server, or a complete URL with --public-url; null: no secret is an Ed25519 key"`
	ClientCertEnds *time.Time      `json:"client_cert_ends" before:"status" nullable:"true" doc:"the end of the client certificate; null: there is none"`
	DisabledReason string          `json:"disabled_reason" nullable:"true"`
	DisabledAt     *time.Time      `json:"disabled_at" nullable:"true"`
	Consent        *Consent        `json:"consent" nullable:"true" doc:"of its address, where the tenant requires that; null: the address was asked for none"`
	Health         Health          `json:"health"`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	Revision       int64           `json:"revision" doc:"grows with every change"`
}

// MarshalJSON writes the endpoint as the API does.
func (e Endpoint) MarshalJSON() ([]byte, error) { return Encode(e) }

// Consent is the consent of an endpoint's address. Until it is given, the endpoint is paused.
type Consent struct {
	Since   time.Time  `json:"since" doc:"when the endpoint got the address"`
	Asked   int        `json:"asked" doc:"challenges that were sent"`
	AskedAt *time.Time `json:"asked_at" nullable:"true" doc:"the last of them; null: none yet"`
	NextAt  *time.Time `json:"next_at" nullable:"true" doc:"the next challenge; null: none is sent unless a person asks"`
	Cause   string     `json:"cause" nullable:"true" doc:"why the last challenge brought no consent; null: it did, or has no result yet"`
	GivenAt *time.Time `json:"given_at" nullable:"true" doc:"when the address consented; null: it has not"`
}

// PresetShape has a preset's settings of requests, which apply unless the endpoint sets its own.
type PresetShape struct {
	Headers   map[string]string `json:"headers"`
	Transform string            `json:"transform" nullable:"true"`
	Format    string            `json:"format" nullable:"true"`
	Ordering  string            `json:"ordering" nullable:"true"`
}

// Secret says that a secret signs, not which one it is.
type Secret struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" nullable:"true"`
	PublicKey string     `json:"public_key" nullable:"true" doc:"whpk_…, for receivers, when the secret is an Ed25519 key"`
}

// RevealedSecret is the secret that signs now.
type RevealedSecret struct {
	Raw
	Secret string `json:"secret" doc:"whsec_… or whsk_…, the newest"`
}

// MarshalJSON writes the secret as the API does.
func (s RevealedSecret) MarshalJSON() ([]byte, error) { return Encode(s) }

// JWKS is a JWK Set (RFC 7517).
type JWKS struct {
	Keys []JWK `json:"keys" doc:"the newest first"`
}

// JWK is an Ed25519 public key (RFC 8037).
type JWK struct {
	KeyType   string `json:"kty" doc:"OKP"`
	Curve     string `json:"crv" doc:"Ed25519"`
	X         string `json:"x" doc:"the key's 32 bytes, base64url"`
	ID        string `json:"kid" doc:"the key's thumbprint (RFC 7638)"`
	Use       string `json:"use" doc:"sig"`
	Algorithm string `json:"alg" doc:"EdDSA"`
}

// Health is how an endpoint is doing.
type Health struct {
	State         grapnel.HealthState `json:"state" enum:"healthy,degraded,failing,open,recovering,throttled,paused,disabled,unknown" doc:"degraded: attempts succeed, but at least 5 % of the first attempts in the last hour failed, of 10 or more and at least 3 of them; failing: no attempt has succeeded since failing_since; open: the circuit is open and only probes are sent; unknown: the server starts or stops. Later versions may have further states: take those that you do not know for trouble"`
	Reason        string              `json:"reason" nullable:"true" doc:"one sentence that explains the state; null: none"`
	Since         *time.Time          `json:"since" nullable:"true" doc:"since when it has this state; null: unknown"`
	InFlight      int                 `json:"in_flight" doc:"requests in progress"`
	Waiting       int                 `json:"waiting" doc:"lane heads in memory that are due now or soon"`
	Held          int                 `json:"held" doc:"held deliveries, including those behind their keys; 0 while the endpoint is healthy. Lists count up to 10000, a single endpoint up to 1000000"`
	HeldMore      bool                `json:"held_more" doc:"the count stopped at its limit"`
	NextAttemptAt *time.Time          `json:"next_attempt_at" nullable:"true"`
	NextProbeAt   *time.Time          `json:"next_probe_at" nullable:"true" doc:"while open: the next probe is not before this"`
	FirstAttempts int                 `json:"first_attempts" doc:"first attempts in the last hour, counted once a minute, if one of them failed; else 0"`
	FirstFailed   int                 `json:"first_attempts_failed" doc:"of them: those that failed"`
	DrainEstimate *policy.Duration    `json:"drain_estimate" nullable:"true" doc:"how long the held deliveries take once the endpoint works; with held_more, at least this; null: unknown"`
	Strikes       int                 `json:"strikes" doc:"consecutive failed deliveries that count towards disabling"`
	FailingSince  *time.Time          `json:"failing_since" nullable:"true" doc:"no attempt has succeeded since then; null: the last one succeeded, or the policy has no such rule"`
}
