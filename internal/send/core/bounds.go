package core

import "time"

// Bounds are the core's sizes and time limits; see package bounds.
type Bounds struct {
	// Window is the number of heads of one endpoint in memory. Twice the endpoint's concurrency
	// replaces it if that is more.
	Window int `bound:"256"`
	// Reserve is the number of further heads in memory, of all endpoints together: about 16 MB. Under
	// a backlog of that many heads no page is read back from the store.
	Reserve int `bound:"65536"`
	// Horizon is how soon a head must be due to be in memory. Heads due later stay in the store.
	Horizon time.Duration `bound:"1m" tiny:"2s"`
	// Poll is the interval between reads of an endpoint's heads when no hint comes.
	Poll time.Duration `bound:"30s" tiny:"3s"`
	// Seen is the number of recent row ids for which the core knows exactly whether they were in a
	// window.
	Seen int `bound:"65536"`
	// Lead is how long before the due time of a head in the store its page is read, so that the
	// attempt is on time.
	Lead time.Duration `bound:"2s" tiny:"100ms"`
	// Retry is the wait after a call of the store that failed or contradicted memory.
	Retry time.Duration `bound:"1s" tiny:"200ms"`
	// End is the number of deliveries that one End finishes. It is small, so that the commit stays
	// short.
	End int `bound:"500"`
	// MakeDue is the number of heads that one MakeDue makes due. It is small, so that the commit
	// stays short.
	MakeDue int `bound:"500"`
	// Ramps is how long after an endpoint's recovery a restart still raises its concurrency step by
	// step.
	Ramps time.Duration `bound:"10m" tiny:"10s"`
	// Slow is the limit for slow endpoints: their average attempt takes longer, or no attempt has
	// finished for longer.
	Slow time.Duration `bound:"2s"`
	Late Late
	// Absent is the shortest pause between two steps that shows that the process stood still, such as
	// in a suspended machine, or that the clock jumped ahead.
	Absent time.Duration `bound:"1h"`
	// Unproven is the number of attempts in flight allowed to an endpoint none of whose attempts
	// has finished.
	Unproven int `bound:"8"`
	// Tried is the number of deliveries of an endpoint that are remembered because a repair brought
	// them forward in vain. Beyond it none is brought forward.
	Tried int `bound:"4096"`
	// Degraded is from when on an endpoint counts as degraded; see degraded.go.
	Degraded Degraded
}

// Late bounds overdue deliveries; see late.go.
type Late struct {
	// After is how long a head must be due to count as late.
	After time.Duration `bound:"1s" tiny:"100ms"`
	// Protect is how long after the last attempt on time late attempts stay limited.
	Protect time.Duration `bound:"2s" tiny:"1s"`
	// Rhythm is the interval between changes of the limit.
	Rhythm time.Duration `bound:"100ms" tiny:"5ms"`
	// Growth: the limit grows by 1 + limit/Growth at each healthy check.
	Growth int `bound:"4"`
	// Allowed is the slack above the usual commit time before the limit shrinks. In a shared store
	// the slack is at least the usual time itself.
	Allowed time.Duration `bound:"500us"`
	// Alone is the number of checks at limit 1 after which the current commit time becomes the
	// usual one, in a shared store.
	Alone int `bound:"3"`
	// Renewed is how long a usual commit time stays valid in a shared store.
	Renewed time.Duration `bound:"5s" tiny:"500ms"`
}

// Degraded says from when on an endpoint counts as degraded: from this part of its first attempts
// in the last hour on, if at least so many were made and so many failed. Of fewer attempts a
// percentage says nothing, and one or two failures are no rate: 1 of 20 would already be 5 percent.
type Degraded struct {
	Percent int `bound:"5"`
	Firsts  int `bound:"10"`
	Failed  int `bound:"3"`
	// Slack is by how many percent a number has to be below its limit before the state ends. Near a
	// limit each minute that leaves the hour would change the state otherwise.
	Slack int `bound:"10"`
}
