package replay

import "time"

// Bounds are the sizes and time limits inside this room; see package bounds.
type Bounds struct {
	// Outstanding is how many of a job's deliveries may be made and not over. It bounds what is still to come
	// after a pause, and what live deliveries of the same endpoint may find in front of them.
	Outstanding int `bound:"64"`

	// A job reads about as many deliveries as it makes, and more where it finds none that are meant: up to Long
	// in one call, and for as long as Search before it makes durable how far it has come.
	Short  int           `bound:"8"`                // read beyond those that are to be made
	Long   int           `bound:"1024"`             // read in one call
	Search time.Duration `bound:"1s" tiny:"1ms"`    // for deliveries that are meant
	Slowly time.Duration `bound:"1s" tiny:"50ms"`   // until a job that waits looks at itself without a hint; a hint may be lost
	Sweep  time.Duration `bound:"1s" tiny:"50ms"`   // between two looks for active replays, which other nodes may have taken orders for
	Active int           `bound:"100"`              // replays read at once
	Turns  int           `bound:"16"`               // steps taken at once; those at one endpoint are taken one after the other
	Plan   int           `bound:"1000"`             // deliveries that counting a plan reads at once
	Within time.Duration `bound:"10s" tiny:"100ms"` // for counting a plan, which then is partial
}
