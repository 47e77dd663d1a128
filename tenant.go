package grapnel

import "time"

// Terms are the operator's settings for one tenant, in the place of those of the server.
type Terms struct {
	Name         string            `json:",omitzero"`  // what people call the tenant; empty: it was never registered
	Labels       map[string]string `json:",omitempty"` // marks of the operator
	PublishRate  *RateLimit        `json:",omitempty"` // events that it may publish; nil: the server's rate
	EventsPerDay int64             `json:",omitzero"`  // events that it may publish on one day (UTC); 0: the server's limit
	MaxPending   int64             `json:",omitzero"`  // pending deliveries; 0: the server's limit
	Consent      ConsentRule       `json:",omitzero"`  // of new addresses of endpoints; empty: the server's rule
	Proxy        Secret            // URL of the forward proxy of endpoints without an own one; empty: none
	CreatedAt    time.Time         // when the first of them was set
	UpdatedAt    time.Time
}

// Quota is a tenant's limit of publishing, and how much of it is left.
type Quota struct {
	Name   string        // of the setting: "publish_rate"
	Most   int64         // events within the window
	Window time.Duration //
	Left   int64         // events that it still lets through
}
