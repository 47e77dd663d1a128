package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Tenant owns events, endpoints and the rest.
type Tenant struct {
	Raw
	Tenant string `json:"tenant" doc:"its name"`
	TenantTerms
	CreatedAt *time.Time     `json:"created_at" nullable:"true" doc:"when it was registered, or the first of its settings was set; null: never"`
	UpdatedAt *time.Time     `json:"updated_at" nullable:"true" doc:"when its settings last changed; null: all of them are the server's"`
	Numbers   *TenantNumbers `json:"numbers" nullable:"true" doc:"null without numbers=true"`
}

// TenantNumbers say how a tenant is doing.
type TenantNumbers struct {
	Endpoints       EndpointStates `json:"endpoints"`
	Pending         int64          `json:"pending" doc:"pending deliveries"`
	DeadLetters     int64          `json:"dead_letters"`
	DeadLettersMore bool           `json:"dead_letters_more" doc:"dead_letters is a lower bound"`
	ActiveAt        *time.Time     `json:"active_at" nullable:"true" doc:"the hour in which an attempt was recorded or a delivery finished last; null: none ever was"`
}

// TenantTerms are the operator's settings for a tenant, in the place of the server's.
type TenantTerms struct {
	Name         string              `json:"name" nullable:"true" maxLength:"256" form:"name" doc:"what people call it; none: nothing but its own name"`
	Labels       map[string]string   `json:"labels" maxProperties:"16" names:"^[A-Za-z0-9_.-]{1,64}$" maxLength:"256" doc:"marks of your own, such as {\"plan\":\"gold\"}; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes"`
	PublishRate  *grapnel.RateLimit  `json:"publish_rate" nullable:"true" doc:"events that it may publish, counted by each node for itself; beyond it a publish is answered 429; none: --max-publish-rate"`
	EventsPerDay int64               `json:"max_events_per_day" nullable:"true" minimum:"0" maximum:"1000000000000" doc:"events that it may publish on one day (UTC); beyond it a publish is answered 429; none or 0: --max-events-per-day"`
	MaxPending   int64               `json:"max_pending" nullable:"true" minimum:"0" maximum:"1000000000000" doc:"pending deliveries that it may have; none or 0: --max-pending"`
	Consent      grapnel.ConsentRule `json:"consent" nullable:"true" enum:"off,required" doc:"required: an endpoint with a new address gets nothing until the address has answered a challenge; none: --consent"`
	Proxy        string              `json:"proxy" nullable:"true" maxLength:"2048" form:"proxy" doc:"URL of the forward proxy (CONNECT) of its endpoints that name none, and of its channels but for mails, at any address, with its port, and a user and password if it wants them; the password is [redacted] in answers; none: no proxy but the server's own"`
}

// NewTenant is a tenant to be registered.
type NewTenant struct {
	Tenant string            `json:"tenant" form:"tenant" doc:"its name in requests and keys; none: one that begins with ten_ is created"`
	Name   string            `json:"name" required:"true" minLength:"1" maxLength:"256" form:"name" doc:"what people call it"`
	Labels map[string]string `json:"labels" maxProperties:"16" names:"^[A-Za-z0-9_.-]{1,64}$" maxLength:"256" doc:"marks of your own; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes"`
}

// MarshalJSON writes the fields that are set.
func (t NewTenant) MarshalJSON() ([]byte, error) { return Request(t) }

// MarshalJSON writes the fields that are set.
func (t TenantTerms) MarshalJSON() ([]byte, error) { return Request(t) }

// MarshalJSON writes the tenant as the API does.
func (t Tenant) MarshalJSON() ([]byte, error) { return Encode(t) }

// Cluster lists the nodes that share a server's store, and the shards that each owns.
type Cluster struct {
	Raw
	Node          string   `json:"node" doc:"id of the node that answers"`
	Shared        bool     `json:"shared" doc:"false: no other node uses the store"`
	Shards        int      `json:"shards" doc:"number of shards; 0: the store is not shared"`
	Unowned       int      `json:"unowned" doc:"shards without an owner: no attempts are made for their endpoints until a node takes them"`
	UnownedShards []int    `json:"unowned_shards" doc:"which"`
	Nodes         []Member `json:"nodes" doc:"nodes seen within the last hour"`
}

// MarshalJSON writes the cluster as the API does.
func (c Cluster) MarshalJSON() ([]byte, error) { return Encode(c) }

// Member is one of the nodes.
type Member struct {
	ID       string  `json:"id" doc:"node id, new at each start; deliveries carry it as grapnel-node"`
	Address  string  `json:"address" doc:"address at which other nodes reach it"`
	State    string  `json:"state" enum:"up,draining,silent" doc:"draining: it is about to stop, and releases its shards; silent: it has not reported, and other nodes take its shards once its leases have expired"`
	Seen     float64 `json:"seen_seconds_ago"`
	Draining bool    `json:"draining"`
	Shards   int     `json:"shards" doc:"number of shards that the node owns"`
	Intended int     `json:"shards_intended" doc:"number of shards after rebalancing"`
	Lagging  int     `json:"shards_lagging" doc:"owned shards whose renewal is overdue; the node loses them within a third of a lease unless it renews them"`
}

// Fault is one thing that is wrong with a request.
type Fault struct {
	Pointer string `json:"pointer" doc:"a JSON pointer into the body, ?name for a query parameter, or the name of a header"`
	Detail  string `json:"detail"`
}
