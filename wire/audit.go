package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Audit says who did what to which endpoint or delivery, when and why.
type Audit struct {
	Raw
	Number     int64        `json:"number" nullable:"true" doc:"number of the entry, rising; null for keys that are bound to a tenant, because it counts the entries of all tenants"`
	At         time.Time    `json:"at"`
	Tenant     string       `json:"tenant" doc:"tenant that owns the subject"`
	Actor      string       `json:"actor" doc:"id of an API key; person/NAME: a person who has signed in; portal/NAME: a portal link; alert-link: the link of an alert's message; grapnel: the server itself"`
	ActorName  string       `json:"actor_name,omitempty" doc:"name of the API key that acted, for callers with the scope admin; absent: it is no key, or is deleted"`
	Verb       grapnel.Verb `json:"verb" enum:"create,change,pause,resume,disable,enable,delete,rotate_secret,reveal_secret,test,probe,retry,skip,note,discard,empty,acknowledge,mute,resolve,reopen,replay,pause_replay,resume_replay,cancel_replay,stop_replay,erase,revoke"`
	EndpointID string       `json:"endpoint_id" nullable:"true" doc:"id of the endpoint, queue, source, key, policy or event type"`
	Name       string       `json:"name,omitempty" doc:"name of that endpoint, queue, source, key, policy or event type; absent: unknown. In an export only deletions have it"`
	DeliveryID string       `json:"delivery_id" nullable:"true"`
	Reason     string       `json:"reason" nullable:"true" doc:"the actor's own words; of a key its name and scopes, of a policy or event type its name"`
}

// MarshalJSON writes the entry as the API does.
func (a Audit) MarshalJSON() ([]byte, error) { return Encode(a) }
