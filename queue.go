package grapnel

import "time"

// Queue has the settings of an endpoint that is pulled: consumers take its deliveries as leases and
// settle them. For a policy, an ack is like a 2xx from a URL, a nack and an expired lease are like
// a 503 and a timeout, and a reject is like a 400 that the policy treats as permanent.
type Queue struct {
	Name      string        // the consumers' name for it; unique among the tenant's queues
	Lease     time.Duration // time a consumer has, unless it extends
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

// Lease is the right of one consumer to settle a delivery. A delivery has at most one valid lease
// at a time, and a lease can be used once. Its attempt counts once the lease has ended.
type Lease struct {
	Token     string // identifies the lease, and is the right to settle it: 128 random bits
	Queue     string // id of the endpoint
	Consumer  string // its holder, as far as known
	Delivery  int64
	CreatedAt time.Time // of the delivery
	// of the delivery, when the lease was granted: start of its first attempt, before that when it
	// became a head
	Anchor    time.Time
	Event     int64
	Number    int     // of its attempt
	Trigger   Trigger // of that attempt
	Scheduled time.Time
	GrantedAt time.Time
	Until     time.Time // from this instant on it has expired
}

// QueueCounts counts a queue's deliveries. Ready, Leased, Delayed, Waiting and Blocked add up to
// the unfinished ones.
type QueueCounts struct {
	Ready   int64     // due and not leased
	Leased  int64     // leased: in an attempt
	Delayed int64     // due later: after a nack, or by its policy
	Waiting int64     // behind another one of its key
	Blocked int64     // an operator has to act on its key
	Dead    int64     // dead letters: neither discarded nor delivered again
	Oldest  time.Time // acceptance of the oldest unfinished one; zero: none
}

// Consumer takes leases from a queue.
type Consumer struct {
	Name   string
	Leased int64     // deliveries of the queue that it has
	SeenAt time.Time // time of its last request
}
