package queue

import "time"

// Bounds are the sizes and time limits of this package; see package bounds.
type Bounds struct {
	Claim   int `bound:"512"`         // leases asked for by one claim; a waiter that wants more gets a claim of its own
	Granted int `bound:"65536"`       // leases in memory, so that settling one reads nothing: about 20 MB
	Seen    int `bound:"1000"`        // consumers remembered per queue
	Counted int `bound:"10000"`       // leases of one queue that are counted by consumer
	Labels  int `bound:"64" tiny:"2"` // queues whose metrics have their names; all others share a label

	SeenFor time.Duration `bound:"24h"` // Consumers leaves out a consumer whose last request is older

	Poll   time.Duration `bound:"5s" tiny:"50ms"` // between two reads of the store without a hint
	Barred time.Duration `bound:"1s" tiny:"50ms"` // the same while every waiter is at its lease limit: no hint announces the expiry of a lease

	Sweep  time.Duration `bound:"1s" tiny:"50ms"`  // between two sweeps
	Look   time.Duration `bound:"30s" tiny:"50ms"` // for which a queue without leases is not read again
	Over   int           `bound:"200"`             // expired leases, and too old deliveries, in one commit
	Fresh  int           `bound:"2000"`            // due deliveries that are not too old, read in search of too old ones behind them
	Forget time.Duration `bound:"1m" tiny:"50ms"`  // after its end, for a lease that was neither settled nor recorded

	Record   int `bound:"3"` // tries to record a settlement before its consumer gets an error for it
	GiveBack int `bound:"5"` // tries to return leases before they are left to expire
}
