package wire

import (
	"encoding/json"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewQueue has the settings of a queue. Only Name is required; the server has defaults for the
// others.
type NewQueue struct {
	Tenant      string                 `json:"tenant" fixed:"true" form:"tenant" doc:"the key's tenant, else default"`
	Name        string                 `json:"name" required:"true" minLength:"1" maxLength:"64" form:"queue" doc:"name for consumers: [A-Za-z0-9_-], not in the form of a queue's id; unique within the tenant"`
	Description string                 `json:"description" maxLength:"1000"`
	EventTypes  []string               `json:"event_types" maxItems:"100" form:"pattern" doc:"patterns in which a whole segment may be *; none: every type"`
	Filter      string                 `json:"filter" nullable:"true" maxLength:"4096" doc:"a CEL expression over event (type, key, data, metadata)"`
	Source      string                 `json:"source" nullable:"true" form:"id" doc:"the id of a source: only events that it received; none: events of any origin"`
	Policy      any                    `json:"policy" form:"policy" doc:"the name of a policy, or a policy; none: the preset queue"`
	Ordering    grapnel.Ordering       `json:"ordering" nullable:"true" enum:"key,none" doc:"none: events of one key do not wait for each other; that of the policy's preset if not given, else key"`
	Lease       policy.Duration        `json:"lease" default:"30s" form:"lease" doc:"duration of a lease, 1s to 12h; 30s if not given"`
	MaxLeased   int                    `json:"max_leased" default:"1000" minimum:"1" maximum:"10000" doc:"leases that one consumer may hold at once; 1000 if not given"`
	Quiet       bool                   `json:"quiet" doc:"only its consumers notice it: no webhook_endpoint.* events are about it, no statistics count it, and a delivery that would be a dead letter or block its key is discarded; false if not given"`
	Status      grapnel.EndpointStatus `json:"status" default:"enabled" enum:"enabled,paused,disabled" doc:"paused: nothing is leased; enabled if not given"`
}

// MarshalJSON writes the fields that are set.
func (q NewQueue) MarshalJSON() ([]byte, error) { return Request(q) }

// Queue is an endpoint that is pulled. Deliveries, dead letters, replays and statistics refer to it
// by its id, as to any endpoint. Its policy is in Policy, not in NewQueue.Policy.
type Queue struct {
	Raw
	ID string `json:"id"`
	NewQueue
	Policy         json.RawMessage `json:"policy" before:"ordering" form:"policy" doc:"the name of a preset or of a policy of the tenant, or a policy"`
	PolicyChanges  []string        `json:"policy_changes" before:"ordering" doc:"fields of its own policy that differ from the one that policy.preset names; a named policy has none"`
	DisabledReason string          `json:"disabled_reason" nullable:"true"`
	DisabledAt     *time.Time      `json:"disabled_at" nullable:"true"`
	*QueueCounts                   // nil: the server did not say
	Consumers      []Consumer      `json:"consumers,omitzero" doc:"consumers of the last day, or with leases; only for a single queue"`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	Revision       int64           `json:"revision" doc:"grows with every change"`
}

// MarshalJSON writes the queue as the API does.
func (q Queue) MarshalJSON() ([]byte, error) { return Encode(q) }

// QueueCounts counts a queue's deliveries.
type QueueCounts struct {
	Ready     int64            `json:"ready" doc:"due and not leased; this and the counts below may be rough above 10000"`
	Leased    int64            `json:"leased"`
	Delayed   int64            `json:"delayed" doc:"due later, after a nack or by the policy"`
	Waiting   int64            `json:"waiting" doc:"held behind another message of its key"`
	Blocked   int64            `json:"blocked" doc:"its key waits for an operator"`
	Dead      int64            `json:"dead" doc:"dead letters: neither discarded nor delivered again"`
	OldestAge *policy.Duration `json:"oldest_age,omitempty" doc:"age of the oldest unfinished message; absent: none"`
	OldestAt  *time.Time       `json:"oldest_at,omitempty" doc:"when the oldest was accepted"`
}

// Consumer takes leases from a queue.
type Consumer struct {
	Name   string    `json:"name"`
	Leased int64     `json:"leased"`
	SeenAt time.Time `json:"seen_at"`
}

// Purge is the result of a purge.
type Purge struct {
	Raw
	Discarded int `json:"discarded" doc:"deliveries that were in the queue"`
}
