package egress

import "time"

// Bounds are the sizes and time limits inside this room; see package bounds. What of a response is read, kept
// and shown is a promise to users and no bound.
type Bounds struct {
	Addresses int           `bound:"8"`                // of a name that are tried
	Stale     int           `bound:"3"`                // connections in a row that may turn out to have been closed while they were idle
	LongBody  int64         `bound:"16KiB" tiny:"16"`  // from here on a body is written while the answer is read; a shorter one fits into buffers
	Patience  time.Duration `bound:"50ms" tiny:"10ms"` // for the writer of a long body to notice that it has finished, once the answer is there
	Sessions  int           `bound:"1024"`             // TLS sessions remembered
	Ahead     int           `bound:"4096" least:"16"`  // bytes of a connection that are buffered either way
}
