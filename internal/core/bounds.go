package core

import "time"

// Bounds are the sizes and time limits inside this room; see package bounds.
type Bounds struct {
	// Window is how many heads of one endpoint are in memory, unless twice its concurrency is more.
	Window int `bound:"256"`
	// Horizon is how soon a head must be due to be in memory. Later ones stay in the store.
	Horizon time.Duration `bound:"1m" tiny:"2s"`
	// Poll is how often an endpoint's heads are read although no hint came.
	Poll time.Duration `bound:"30s" tiny:"3s"`
	// Seen is of how many recent row ids it is known exactly whether they were in a window.
	Seen int `bound:"65536"`
	// Lead is how long before a head in the store is due its page is read, so that it is attempted on time.
	Lead time.Duration `bound:"2s" tiny:"100ms"`
	// Retry is how long the core waits after a call of the store that failed or contradicted memory.
	Retry time.Duration `bound:"1s" tiny:"200ms"`
	// End is how many deliveries one End finishes: few enough that the commit it shares stays short.
	End int `bound:"500"`
	// Hasten is how many heads one Hasten makes due: few enough that the commit it shares stays short.
	Hasten int `bound:"500"`
	// Ramps is how long after an endpoint's return a restart still lets what waited go bit by bit.
	Ramps time.Duration `bound:"10m" tiny:"10s"`
	// Slow is what makes an endpoint slow: an attempt takes longer, or none has come back for longer.
	Slow time.Duration `bound:"2s"`
	Late Late
	// Unproven is how many attempts an endpoint may have in flight of which none has come back yet.
	Unproven int `bound:"8"`
}

// Late bounds what is late; see late.go.
type Late struct {
	// After is how long a head is due before it is late.
	After time.Duration `bound:"1s" tiny:"100ms"`
	// Protect is how long after the last attempt on time late ones are still limited.
	Protect time.Duration `bound:"2s" tiny:"1s"`
	// Rhythm is how often the limit is looked at.
	Rhythm time.Duration `bound:"100ms" tiny:"5ms"`
	// Growth: the limit grows by one slot per this many in use, each time that outcomes are quick.
	Growth int `bound:"4"`
	// Allowed is how much longer than usual an outcome may take to become durable. In a shared store it
	// may take twice as long as usual, if that is more.
	Allowed time.Duration `bound:"250us"`
	// Alone is how many looks with one slot it takes to know what is usual in a shared store.
	Alone int `bound:"3"`
	// Renewed is how long that is believed.
	Renewed time.Duration `bound:"5s" tiny:"500ms"`
}
