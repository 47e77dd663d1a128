package ingress

import "time"

// Bounds are the sizes and time limits inside this room; see package bounds. What docs/receiving.md tells providers has a tiny
// form that is its default. How much may be read and committed at once are Options, because operators set them.
type Bounds struct {
	// Of a request's header. The server that reads it has its own, which are wider.
	HeaderLines int   `bound:"100" tiny:"100"`
	HeaderBytes int64 `bound:"32KiB" tiny:"32KiB"`
	// Found is how long an id, type or key may be that is found in a request; what is longer is not what was meant.
	Found int `bound:"1024" tiny:"1024"`

	// Hops is through how many servers like this one a request may have come.
	Hops int `bound:"8" tiny:"8"`

	// FirstRead is how much memory an announced length gets before anything of it has come.
	FirstRead int64 `bound:"64KiB" tiny:"3"`
	// What is still read of a body that is too large, so that a provider who writes all of it before reading anything gets the
	// answer.
	Discard     int64         `bound:"16MiB" tiny:"4KiB"`
	DiscardTime time.Duration `bound:"5s"`

	// Requests that nobody vouches for are kept at this pace and no faster: whoever can reach a source could fill the disk with
	// them.
	AsideRate  int `bound:"10"`   // in a second
	AsideBurst int `bound:"1000"` // at once

	// TallyEvery is the least time between two lines of the log about the same source.
	TallyEvery time.Duration `bound:"1m"`

	// How long a provider is asked to wait.
	WaitBusy   time.Duration `bound:"1s"`
	WaitPaused time.Duration `bound:"1m"`
	WaitFault  time.Duration `bound:"1m"` // while the source's settings cannot be used
}
