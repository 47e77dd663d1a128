package api

import (
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/ingress"
)

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

// checkSecret looks at a secret that is given now.
func checkSecret(scheme, text, pointer string, f *strict.Faults) {
	if wrong := ingress.CheckSecret(scheme, text); wrong != "" {
		f.Add(pointer, "%s", wrong)
	}
}
