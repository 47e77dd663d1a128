package peer

import "time"

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Hints  int           `bound:"4096"`               // heads and queues queued for one node; it finds any others in the store
	Within time.Duration `bound:"2s" tiny:"200ms"`    // for telling; a node that does not answer by then finds all of it in the store
	Reread time.Duration `bound:"1s" tiny:"10ms"`     // least time between two reads of the nodes' certificates
	Stale  time.Duration `bound:"1m" tiny:"20ms"`     // after which they are read again, so that a deleted row counts
	Told   time.Duration `bound:"1m" tiny:"1ms"`      // least time between two lines of the log about strangers
	Bytes  int64         `bound:"16MiB" tiny:"64KiB"` // of a question, or an answer, that one node believes another
}
