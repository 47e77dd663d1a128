package replay

import "time"

// Bounds are the sizes and time limits of this package; see package bounds.
type Bounds struct {
	// Outstanding is the number of a replay's deliveries that may be pending. It bounds how many
	// still arrive after a pause, and how many are in front of a live delivery of the same
	// endpoint.
	Outstanding int `bound:"64"`

	// A job reads about as many deliveries as it creates, and more where few of them qualify: up to
	// Long in one call, and for at most Search before it stores its progress.
	Short  int           `bound:"8"`              // read in addition to the number to create
	Long   int           `bound:"1024"`           // read in one call
	Search time.Duration `bound:"1s" tiny:"1ms"`  // spent in one step looking for deliveries that qualify
	Slowly time.Duration `bound:"1s" tiny:"50ms"` // between two looks of a waiting job without a hint; a hint may be lost
	Sweep  time.Duration `bound:"1s" tiny:"50ms"` // between two reads of the active replays; other nodes may have started some
	Active int           `bound:"100"`            // replays read at once
	Turns  int           `bound:"16"`             // steps made at once; steps at one endpoint run one after another
	Plan   int           `bound:"1000"`           // deliveries that counting a plan reads at once
	Brief  int           `bound:"25"`             // the same, where the caller limits the time
	// pending deliveries that a plan counts
	Waiting int           `bound:"10000"`
	Within  time.Duration `bound:"10s" tiny:"100ms"` // for counting a plan; after it the plan is partial
}
