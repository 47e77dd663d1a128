package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Key is an API key. Secret is there only in the answer that creates it.
type Key struct {
	Raw
	ID        string          `json:"id"`
	Secret    string          `json:"key,omitempty" doc:"shown in the answer that makes it, and never again"`
	Name      string          `json:"name"`
	Scopes    []grapnel.Scope `json:"scopes" nullable:"false" enum:"publish,read,manage,replay,consume,admin"`
	Tenant    string          `json:"tenant" nullable:"true" doc:"null: bound to none"`
	CreatedAt time.Time       `json:"created_at"`
}

// MarshalJSON writes the key as the API does.
func (k Key) MarshalJSON() ([]byte, error) { return Encode(k) }
