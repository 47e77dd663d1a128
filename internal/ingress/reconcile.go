package ingress

import (
	"context"
	"time"
)

// Reconciler asks a provider what it has sent, for those who never send again what failed, or give up soon.
type Reconciler interface {
	// Sent lists what the provider has sent since a time, the newest first, one entry for each event: its last delivery.
	Sent(ctx context.Context, since time.Time) ([]Sent, error)
	// Resend asks the provider to send one again; grapnel.CodeUnsupported when it has no way to ask.
	Resend(ctx context.Context, s Sent) error
}

// Sent is what a provider says of something that it has sent.
type Sent struct {
	ID     string // of the delivery, for asking again
	Event  string // what the source knows it by: the id of the event
	Type   string
	At     time.Time
	Failed bool
	Status int    // that it was answered with; 0: not said, or there was no answer
	Detail string // in the provider's words
	Body   []byte // of the event, where the provider tells it
}
