package api

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/ingress"
)

// SourceSettings are what can be set on a source, and changed later.
type SourceSettings struct {
	Name         string          `json:"name" required:"true" minLength:"1" maxLength:"100" form:"name" doc:"for people; one of its tenant's sources has it"`
	Description  string          `json:"description,omitempty" maxLength:"1000"`
	Verify       *verifySettings `json:"verify,omitempty" doc:"how the provider's requests are told from others; required, unless there is an outbox"`
	Outbox       *outboxSettings `json:"outbox,omitempty" doc:"instead: events are read from a producer's outbox; then nothing else but description and status means anything"`
	Dedupe       *dedupeSettings `json:"dedupe,omitempty" doc:"how a request is known that was there before"`
	OnUnverified string          `json:"on_unverified,omitempty" enum:"reject,quarantine" doc:"reject: 401, and nothing is kept; quarantine: 202, kept for people to see and never handed out; reject if not given"`
	Type         string          `json:"type,omitempty" maxLength:"4096" doc:"a CEL expression that gives the event's type; none: the provider's own field"`
	Key          string          `json:"key,omitempty" maxLength:"4096" doc:"a CEL expression that gives the ordering key; none: the provider's own field, if it has one"`
	PublicURL    string          `json:"public_url,omitempty" minLength:"1" maxLength:"2048" form:"url" doc:"where the provider reaches it, for signatures that cover the URL; none: below the server's --public-url, or the URL of the request"`
	RateLimit    *rateLimit      `json:"rate_limit,omitempty" doc:"requests beyond it get 429; none: no limit"`
	MaxBody      int             `json:"max_body,omitempty" minimum:"1" maximum:"9007199254740991" doc:"bytes of a request's body; the server's limit if not given"`
	Status       string          `json:"status,omitempty" enum:"enabled,paused" doc:"paused: requests get 503, so that the provider keeps and repeats them; enabled if not given"`
}

// verifySettings say how a source verifies. What a scheme does not read must not be given.
type verifySettings struct {
	Scheme          string   `json:"scheme" required:"true" form:"scheme" doc:"whose signature it is: stripe, github, shopify, slack, twilio, standard, svix, hmac, basic, api_key, none, …"`
	Secret          string   `json:"secret,omitempty" minLength:"1" doc:"shared with the provider, 8 bytes or more; of hmac hex:… and base64:… are the bytes that they stand for"`
	Secrets         []string `json:"secrets,omitempty" minItems:"1" maxItems:"5" nullable:"false" doc:"instead of secret, the newest first: any of them will do"`
	Header          string   `json:"header,omitempty" maxLength:"256" doc:"that the signature or the key is in"`
	Algorithm       string   `json:"algorithm,omitempty" enum:"sha1,sha256,sha512"`
	Encoding        string   `json:"encoding,omitempty" enum:"hex,base64" doc:"of the signature"`
	Prefix          string   `json:"prefix,omitempty" maxLength:"64" doc:"before the signature in its header, as in sha256="`
	Signed          string   `json:"signed,omitempty" maxLength:"256" doc:"what is signed: {body}, {timestamp}, {id}, {url} and what is between them"`
	TimestampHeader string   `json:"timestamp_header,omitempty" maxLength:"256"`
	IDHeader        string   `json:"id_header,omitempty" maxLength:"256"`
	TypeHeader      string   `json:"type_header,omitempty" maxLength:"256"`
	Tolerance       string   `json:"tolerance,omitempty" form:"tolerance" doc:"how old a signed timestamp may be, and how far ahead; 5m if not given"`
	Username        string   `json:"username,omitempty" maxLength:"256" doc:"for basic"`
}

// dedupeSettings say how a source knows what it has had before.
type dedupeSettings struct {
	By     []string `json:"by,omitempty" maxItems:"3" uniqueItems:"true" enum:"event_id,delivery_id,content" nullable:"false" doc:"event_id, delivery_id, content: the first that a request has; an empty list: never; all three if not given"`
	Window string   `json:"window,omitempty" form:"window" doc:"from the first sight on; 192h if not given; not shorter than the provider goes on trying"`
	Ignore []string `json:"ignore,omitempty" maxItems:"20" form:"path" nullable:"false" doc:"paths of JSON bodies that do not count for content, as in $.sent_at"`
}

// newSource is how a source is created.
type newSource struct {
	SourceSettings
	Tenant string `json:"tenant,omitempty" form:"tenant" doc:"the key's tenant, else default"`
}

// TransformSchema says that verify is required unless there is an outbox.
func (newSource) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	given := func(name string) map[string]any {
		return map[string]any{"required": []string{name}, "properties": map[string]any{name: map[string]any{"type": "object"}}}
	}
	s.Extensions = map[string]any{"if": given("outbox"), "else": given("verify")}
	return s
}

// sourceView is a source as it is shown: without its secrets.
type sourceView struct {
	ID           string         `json:"id"`
	Tenant       string         `json:"tenant"`
	Name         string         `json:"name"`
	Description  string         `json:"description"`
	IngestURL    *string        `json:"ingest_url" doc:"where the provider sends its requests: below the address of this server, or with it if that is set (--public-url); null with an outbox"`
	Verify       *verifyView    `json:"verify,omitempty" doc:"not with an outbox"`
	Outbox       *outboxView    `json:"outbox,omitempty" doc:"only if it has one"`
	Dedupe       *dedupeView    `json:"dedupe,omitempty" doc:"not with an outbox"`
	OnUnverified string         `json:"on_unverified" enum:"reject,quarantine"`
	Type         *string        `json:"type"`
	Key          *string        `json:"key"`
	PublicURL    *string        `json:"public_url"`
	RateLimit    *rateLimitView `json:"rate_limit" nullable:"true"`
	MaxBody      *int64         `json:"max_body" doc:"null: the server's limit"`
	Status       string         `json:"status" enum:"enabled,paused"`
	Provider     *providerView  `json:"provider,omitempty" doc:"not with an outbox"`
	Refusals     *refusalsView  `json:"refusals,omitempty" doc:"requests that were not taken, at the node that answers and since it was started; absent: none"`
	CreatedAt    stamp          `json:"created_at"`
	UpdatedAt    stamp          `json:"updated_at"`
	Revision     int64          `json:"revision" doc:"grows with every change"`
}

type verifyView struct {
	Scheme          string             `json:"scheme"`
	Secrets         []sourceSecretView `json:"secrets" nullable:"false" doc:"those that count at present, the newest first"`
	Header          *string            `json:"header"`
	Algorithm       *string            `json:"algorithm"`
	Encoding        *string            `json:"encoding"`
	Prefix          *string            `json:"prefix"`
	Signed          *string            `json:"signed"`
	TimestampHeader *string            `json:"timestamp_header"`
	IDHeader        *string            `json:"id_header"`
	TypeHeader      *string            `json:"type_header"`
	Tolerance       *span              `json:"tolerance" nullable:"true" doc:"null: no timestamp is signed"`
	Username        *string            `json:"username"`
}

// sourceSecretView says that a secret counts, not which one it is.
type sourceSecretView struct {
	CreatedAt stamp  `json:"created_at"`
	ExpiresAt *stamp `json:"expires_at" nullable:"true"`
}

type refusalsView struct {
	LastAt     stamp  `json:"last_at"`
	LastStatus int    `json:"last_status" doc:"of the answer, as in 401"`
	LastReason string `json:"last_reason"`
	LastHour   int    `json:"last_hour" doc:"how many there were in the last hour"`
}

type dedupeView struct {
	By     []string `json:"by" nullable:"false"`
	Window span     `json:"window"`
	Ignore []string `json:"ignore" nullable:"false"`
}

// providerView is what is known of whoever sends.
type providerView struct {
	Title      string  `json:"title"`
	Signature  string  `json:"signature" doc:"where the signature is and what it covers"`
	IDsSigned  bool    `json:"ids_signed" doc:"false: the ids are outside of what is signed; receiving.md says what follows for each provider"`
	RetriesFor *span   `json:"retries_for" nullable:"true" doc:"how long it goes on trying; null: it does not, or nobody knows"`
	Retries    string  `json:"retries" doc:"the same in words"`
	Checked    *string `json:"checked" doc:"the day on which that was compared with its documentation"`
	Docs       *string `json:"docs"`
}

// schemeOf is the row of the table that a source verifies by.
func schemeOf(name string) (ingress.Scheme, bool) {
	for _, s := range ingress.Schemes() {
		if s.Name == name {
			return s, true
		}
	}
	return ingress.Scheme{}, false
}

func (a *api) viewSource(s *grapnel.Source, c *call) sourceView {
	if s.Outbox != nil {
		return sourceView{ID: s.ID, Tenant: s.Tenant, Name: s.Name, Description: s.Description, Outbox: viewOutbox(a, s),
			OnUnverified: string(grapnel.RejectUnverified), Status: sourceStatus(s), CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt), Revision: s.Revision}
	}
	scheme, _ := schemeOf(s.Verify.Scheme)
	v := sourceView{
		ID: s.ID, Tenant: s.Tenant, Name: s.Name, Description: s.Description, IngestURL: orNull(a.links.root(c.Request) + "/in/" + s.ID),
		Verify: &verifyView{
			Scheme: s.Verify.Scheme, Secrets: []sourceSecretView{}, Header: orNull(s.Verify.Header), Algorithm: orNull(s.Verify.Algorithm),
			Encoding: orNull(s.Verify.Encoding), Prefix: orNull(s.Verify.Prefix), Signed: orNull(s.Verify.Signed),
			TimestampHeader: orNull(s.Verify.TimestampHeader), IDHeader: orNull(s.Verify.IDHeader), TypeHeader: orNull(s.Verify.TypeHeader),
			Username: orNull(s.Verify.Username),
		},
		Dedupe:       &dedupeView{By: []string{}, Window: span(s.Dedupe.Window), Ignore: append([]string{}, s.Dedupe.Ignore...)},
		OnUnverified: string(s.OnUnverified), Type: orNull(s.Type), Key: orNull(s.Key), PublicURL: orNull(s.PublicURL),
		RateLimit: (*rateLimitView)(s.RateLimit), MaxBody: numberOrNull(s.MaxBody), Status: sourceStatus(s),
		Provider: &providerView{Title: scheme.Title, Signature: scheme.Signature, IDsSigned: !scheme.Unsigned, Retries: scheme.Retries,
			Checked: orNull(scheme.Checked), Docs: orNull(scheme.Docs)},
		CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt), Revision: s.Revision,
	}
	for _, secret := range s.Verify.Secrets {
		if secret.Live(c.now) {
			v.Verify.Secrets = append(v.Verify.Secrets, sourceSecretView{stamp(secret.CreatedAt), stampOf(secret.ExpiresAt)})
		}
	}
	for _, by := range s.Dedupe.By {
		v.Dedupe.By = append(v.Dedupe.By, string(by))
	}
	if scheme.Tolerance || s.Verify.TimestampHeader != "" {
		tolerance := span(cmp.Or(s.Verify.Tolerance, grapnel.DefaultTolerance))
		v.Verify.Tolerance = &tolerance
	}
	if a.Ingest != nil {
		if r := a.Ingest.Refusals(s.ID); !r.LastAt.IsZero() {
			v.Refusals = &refusalsView{stamp(r.LastAt), r.LastStatus, r.LastReason, r.LastHour}
		}
	}
	if scheme.RetriesFor > 0 {
		retries := span(scheme.RetriesFor)
		v.Provider.RetriesFor = &retries
	}
	return v
}

func sourceStatus(s *grapnel.Source) string {
	if s.Paused {
		return string(grapnel.EndpointPaused)
	}
	return string(grapnel.EndpointEnabled)
}

// sourceSettings are a source's settings as they would be given to make one like it, but for its secrets.
func sourceSettings(s *grapnel.Source) SourceSettings {
	if s.Outbox != nil {
		return SourceSettings{Name: s.Name, Description: s.Description, Outbox: &outboxSettings{}, Status: sourceStatus(s)}
	}
	v := &s.Verify
	in := SourceSettings{
		Name: s.Name, Description: s.Description, OnUnverified: string(s.OnUnverified), Type: s.Type, Key: s.Key, PublicURL: s.PublicURL,
		MaxBody: int(s.MaxBody), Status: sourceStatus(s),
		Verify: &verifySettings{Scheme: v.Scheme, Header: v.Header, Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix, Signed: v.Signed,
			TimestampHeader: v.TimestampHeader, IDHeader: v.IDHeader, TypeHeader: v.TypeHeader, Username: v.Username},
		Dedupe: &dedupeSettings{By: []string{}, Window: s.Dedupe.Window.String(), Ignore: s.Dedupe.Ignore},
	}
	if v.Tolerance > 0 {
		in.Verify.Tolerance = v.Tolerance.String()
	}
	for _, by := range s.Dedupe.By {
		in.Dedupe.By = append(in.Dedupe.By, string(by))
	}
	if s.RateLimit != nil {
		in.RateLimit = &rateLimit{s.RateLimit.PerSecond, s.RateLimit.Burst}
	}
	return in
}

// setSource puts settings on a source, or says what is wrong with them. What is left out is the default, but for secrets: a source keeps those that
// it has while none are given.
func setSource(s *grapnel.Source, in SourceSettings, now time.Time, f *strict.Faults) {
	s.Name, s.Description, s.Type, s.Key, s.PublicURL = in.Name, in.Description, in.Type, in.Key, in.PublicURL
	s.OnUnverified = grapnel.Unverified(cmp.Or(in.OnUnverified, string(grapnel.RejectUnverified)))
	s.MaxBody, s.Paused = int64(in.MaxBody), in.Status == string(grapnel.EndpointPaused)
	s.RateLimit = nil
	if r := in.RateLimit; r != nil {
		s.RateLimit = &grapnel.RateLimit{PerSecond: r.PerSecond, Burst: cmp.Or(r.Burst, int(math.Ceil(r.PerSecond)))}
	}
	if in.Outbox != nil {
		s.Verify, s.Dedupe = grapnel.Verify{}, grapnel.Dedupe{}
		setOutbox(s, in, now, f)
		return
	}
	s.Outbox = nil
	if in.Verify == nil {
		f.Add("/verify", "is required")
		return
	}
	v := in.Verify
	s.Verify = grapnel.Verify{
		Scheme: v.Scheme, Secrets: s.Verify.Secrets, Header: v.Header, Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix, Signed: v.Signed,
		TimestampHeader: v.TimestampHeader, IDHeader: v.IDHeader, TypeHeader: v.TypeHeader, Username: v.Username,
		Tolerance: duration(v.Tolerance),
	}
	switch {
	case v.Secret != "" && v.Secrets != nil:
		f.Add("/verify/secrets", "must not be given together with secret")
	case v.Secret != "":
		s.Verify.Secrets = []grapnel.Secret{{Text: v.Secret, CreatedAt: now}}
	case v.Secrets != nil:
		s.Verify.Secrets = nil
		for _, text := range v.Secrets {
			s.Verify.Secrets = append(s.Verify.Secrets, grapnel.Secret{Text: text, CreatedAt: now})
		}
	}
	s.Dedupe = grapnel.Dedupe{By: []grapnel.DedupeBy{grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent}, Window: grapnel.DefaultDedupeWindow}
	if d := in.Dedupe; d != nil {
		if d.By != nil {
			s.Dedupe.By = nil
			for _, by := range d.By {
				s.Dedupe.By = append(s.Dedupe.By, grapnel.DedupeBy(by))
			}
		}
		s.Dedupe.Window = cmp.Or(duration(d.Window), grapnel.DefaultDedupeWindow)
		s.Dedupe.Ignore = d.Ignore
	}
	// What could not be read is not judged as well.
	if len(f.Fields) > 0 {
		return
	}
	for _, wrong := range ingress.CheckSource(s) {
		f.Add("/"+wrong.Field, "%s", wrong.Detail)
	}
	checkSecret(v.Scheme, v.Secret, "/verify/secret", f)
	for i, text := range v.Secrets {
		checkSecret(v.Scheme, text, "/verify/secrets/"+strconv.Itoa(i), f)
	}
}

// checkSecret looks at a secret that is given now.
func checkSecret(scheme, text, pointer string, f *strict.Faults) {
	if wrong := ingress.CheckSecret(scheme, text); wrong != "" {
		f.Add(pointer, "%s", wrong)
	}
}
