package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// NewKey is an API key to be created.
type NewKey struct {
	Name   string          `json:"name" required:"true" minLength:"1" maxLength:"128" form:"name"`
	Scopes []grapnel.Scope `json:"scopes" required:"true" minItems:"1" maxItems:"6" uniqueItems:"true" enum:"publish,read,manage,replay,consume,admin" doc:"admin includes all others"`
	Tenant string          `json:"tenant" fixed:"true" form:"tenant" doc:"the tenant whose things it sees; none: all tenants"`

	ExpiresAt string   `json:"expires_at" maxLength:"64" form:"end" doc:"when it ends: a time, a date, a duration from now such as 90d, or never; none: a year from now"`
	From      []string `json:"from" maxItems:"32" form:"range" doc:"ranges of addresses that may use it, such as 10.0.0.0/8; none: every address"`
}

// MarshalJSON writes the fields that are set.
func (k NewKey) MarshalJSON() ([]byte, error) { return Request(k) }

// Key is an API key. Secret is there only in the answer that creates it.
type Key struct {
	Raw
	ID        string          `json:"id"`
	Secret    string          `json:"key,omitempty" doc:"shown only in the answer that creates it"`
	Name      string          `json:"name"`
	Scopes    []grapnel.Scope `json:"scopes" nullable:"false" enum:"publish,read,manage,replay,consume,admin,endpoints:write,secrets:reveal,operate,payload:read,alerts:read"`
	Tenant    string          `json:"tenant" nullable:"true" doc:"null: not bound to a tenant"`
	CreatedAt time.Time       `json:"created_at"`
	Role      grapnel.Role    `json:"role,omitempty" enum:"viewer,operator,developer,admin" doc:"only of a person who has signed in"`
	Payloads  *bool           `json:"payloads,omitempty" doc:"only of whoami: whether the caller sees data of events and bodies of requests"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty" doc:"when it ends; none: never"`
	From      []string        `json:"from,omitempty" doc:"the only addresses that may use it; none: every address"`
	LastUsed  *time.Time      `json:"last_used_at,omitempty" doc:"the last request with it, to the minute; none: none is known"`
	Endpoints []string        `json:"endpoints,omitempty" doc:"only of a pass that is limited to these endpoints"`
}

// MarshalJSON writes the key as the API does.
func (k Key) MarshalJSON() ([]byte, error) { return Encode(k) }
