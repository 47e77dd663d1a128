package ingress

import "time"

// Bounds are the sizes and time limits inside this package; see package bounds. Those that
// docs/receiving.md promises to providers have a tiny form equal to the default.
type Bounds struct {
	// Of a request's header. The server that reads it has its own, which are wider.
	HeaderLines int   `bound:"100"   tiny:"100"`
	HeaderBytes int64 `bound:"32KiB" tiny:"32KiB"`
	// Found is the longest id, type or key that is taken from a request; a longer value is ignored.
	Found int `bound:"1024" tiny:"1024"`

	// Hops is the largest number of servers like this one that a request may have passed.
	Hops int `bound:"8" tiny:"8"`

	// FirstRead is the memory for a body before any of it has arrived; later it is at most twice
	// the bytes that have.
	FirstRead int64 `bound:"4KiB" tiny:"3"`
	// A body arrives at BodyRate bytes a second at least. BodyGrace is how far it may fall behind.
	BodyRate  int64         `bound:"16KiB" tiny:"16KiB"`
	BodyGrace time.Duration `bound:"5s"`

	BodyTimeout time.Duration `bound:"10s" tiny:"10s"` // from the header of a request to the end of its body

	MaxAtOnce   int   `bound:"2048"   tiny:"2048"`   // requests that are read or committed at once
	MaxBuffered int64 `bound:"256MiB" tiny:"256MiB"` // of all bodies that have arrived
	// Shares of MaxAtOnce and MaxBuffered, each 1/n. RemoteShare applies to requests that are still
	// being read. Reserve is for sources that verified a request within VouchedFor.
	TenantShare int           `bound:"2"  tiny:"2"`
	RemoteShare int           `bound:"4"  tiny:"4"`
	Reserve     int           `bound:"8"  tiny:"8"`
	VouchedFor  time.Duration `bound:"1h"`

	// Discard is the part of an oversized body that is still read, so that a provider that writes
	// all of it before reading gets the answer.
	Discard     int64         `bound:"16MiB" tiny:"4KiB"`
	DiscardTime time.Duration `bound:"5s"`

	// Requests that are not verified are stored at this pace at most: otherwise any client that
	// reaches a source could fill the disk with them.
	AsideRate  int   `bound:"10"`                 // in a second
	AsideBurst int   `bound:"1000"`               // at once
	AsideBytes int64 `bound:"64MiB" tiny:"16KiB"` // in an hour, and at once
	AsideBody  int   `bound:"64KiB" tiny:"512"`   // of one body; the rest is cut off

	// Requests that waited for their source's secret are listed ReleasePage at once, after the
	// secret is set and then each ReleaseEvery until ReleaseLate later: another node may learn of
	// the secret late.
	ReleasePage  int           `bound:"64" tiny:"1"`
	ReleaseEvery time.Duration `bound:"5s"`
	ReleaseLate  time.Duration `bound:"1m"`

	// TallyEvery is the least time between two lines of the log about the same source.
	TallyEvery time.Duration `bound:"1m"`

	// Retry-After values.
	WaitBusy   time.Duration `bound:"1s"`
	WaitPaused time.Duration `bound:"1m"`
	WaitFault  time.Duration `bound:"1m"` // while the source's settings cannot be used

	// Of requests that passed Far servers or more, a tenant takes FarBurst at once, and one more in
	// each FarPause. A loop that fans out at each turn comes to that number and no further.
	Far      int           `bound:"3" tiny:"3"`
	FarBurst int           `bound:"1000" tiny:"1000"`
	FarPause time.Duration `bound:"100ms" tiny:"100ms"`
}
