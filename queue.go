package grapnel

import "time"

// Queue is what an endpoint has that is pulled: consumers take its deliveries as leases and say what came of them. An ack is what a 2xx is
// to a URL, a nack and a lease that ran out what a 503 and a timeout are, a reject what a 400 is that the policy takes as permanent.
type Queue struct {
	Name      string        // by which consumers ask for it; one of its tenant's queues has it
	Lease     time.Duration // how long a consumer has, unless it extends
	MaxLeased int           // leases that one consumer may hold at once
	Quiet     bool          // see Endpoint.Quiet
}

// Limits of a queue.
const (
	DefaultLease     = 30 * time.Second
	MinLease         = time.Second
	MaxLease         = 12 * time.Hour
	DefaultMaxLeased = 1000
	MaxQueueName     = 64
	MaxConsumerName  = 64
)

// Lease is the right of one consumer to settle a delivery. There is at most one that is valid for a delivery at a time, and it can
// be used once. Its attempt counts when it is over.
type Lease struct {
	Token     string // names it and is the right to settle it: 128 random bits
	Queue     string // id of the endpoint
	Consumer  string // who has it, as far as that is known
	Delivery  int64
	CreatedAt time.Time // of the delivery
	Anchor    time.Time // of the delivery, when the lease was granted: start of its first attempt, before that when it became a head
	Event     int64
	Number    int     // of the attempt that it is
	Trigger   Trigger // of that attempt
	Scheduled time.Time
	GrantedAt time.Time
	Until     time.Time // from this instant on it is over
}

// QueueCounts says what is in a queue. Ready, Leased, Delayed, Waiting and Blocked add up to what is not final.
type QueueCounts struct {
	Ready   int64     // due, and nobody has it
	Leased  int64     // somebody has it: an attempt that is not over
	Delayed int64     // due later: after a nack, or by its policy
	Waiting int64     // behind another one of its key
	Blocked int64     // its key waits for a person
	Dead    int64     // dead letters that are not discarded
	Oldest  time.Time // acceptance of the oldest that is not final; zero: there is none
}

// Consumer is who takes from a queue.
type Consumer struct {
	Name   string
	Leased int64     // deliveries of the queue that it has
	SeenAt time.Time // when it asked last
}
