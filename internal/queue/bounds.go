package queue

import "time"

// Bounds are the sizes and time limits inside this room; see package bounds.
type Bounds struct {
	Claim   int `bound:"512"`   // leases that one claim asks for; a waiter that wants more gets a claim of its own
	Granted int `bound:"65536"` // leases remembered, so that settling one reads nothing: some 20 MB
	Seen    int `bound:"1000"`  // consumers remembered for each queue
	Counted int `bound:"10000"` // leases of one queue that are counted by consumer

	SeenFor time.Duration `bound:"24h"` // a consumer that has not asked for longer is not shown

	Poll   time.Duration `bound:"5s" tiny:"50ms"` // between two looks at the store behind the hints
	Barred time.Duration `bound:"1s" tiny:"50ms"` // the same while all who wait hold too many: no hint tells when one of their leases runs out

	Sweep  time.Duration `bound:"1s" tiny:"50ms"`  // between two sweeps
	Look   time.Duration `bound:"30s" tiny:"50ms"` // for which a queue is believed to have no lease
	Over   int           `bound:"200"`             // leases that are over, and deliveries that are too old, in one commit
	Fresh  int           `bound:"2000"`            // due deliveries that are not too old, looked through for some that are
	Forget time.Duration `bound:"1m" tiny:"50ms"`  // after its end, for a lease that was neither settled nor recorded

	Record   int `bound:"3"` // tries to record a settlement before its consumer is told that its outcome is unknown
	GiveBack int `bound:"5"` // tries to give leases back before they are left to run out
}
