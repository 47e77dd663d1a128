package engine

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/send/issue"
)

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Recorder   RecorderBounds
	Issues     issue.Bounds
	Duplicates DuplicateBounds
	Pacing     PacingBounds
	Admission  AdmissionBounds

	Types      int   `bound:"65536" tiny:"2"`    // event types remembered as admitted
	Healths    int   `bound:"500" tiny:"2"`      // endpoints whose states the core reads at once: no attempt begins meanwhile
	EventCache int64 `bound:"32MiB" tiny:"4KiB"` // event data cached for first attempts

	// Memory goes back after a Rest with fewer than Restless writes that made less than Made bytes, if
	// Spare bytes of it are unused.
	Rest     time.Duration `bound:"5s" tiny:"500ms"`
	Restless int64         `bound:"1000"`
	Made     int64         `bound:"4MiB"`
	Spare    int64         `bound:"16MiB"`

	Unaware time.Duration `bound:"10s" tiny:"100ms"` // a jump of the wall clock goes unnoticed for this long at most

	// Filters is the budget for all filters of one publish, in units of package match: about 200
	// ms.
	Filters int64 `bound:"5000000" tiny:"5000000"`
	// FilterRate is the work per second up to which a tenant's publishes run their filters in
	// parallel: about 100 ms. FilterBurst is the same at once.
	FilterRate  int64 `bound:"2500000" tiny:"10000"`
	FilterBurst int64 `bound:"5000000" tiny:"1"`
	// publishes of one tenant that run or await filters
	FilterPasses int `bound:"256"  tiny:"16"`
	// SchemaWork is the budget for comparing the events of one publish with the schemas of their
	// types, in units of package match: about 800 ms. It is a part of the tenant's FilterRate.
	SchemaWork    int64 `bound:"20000000" tiny:"20000000"`
	SchemaBytes   int64 `bound:"64MiB" tiny:"64KiB"` // compiled schemas in memory
	FilterTenants int   `bound:"1024"`               // tenants remembered after their filters stopped running
	RateTenants   int   `bound:"1024"`               // the same of those with a rate of publishing
}

// DuplicateBounds are the bounds of the notes about repeated publishes.
type DuplicateBounds struct {
	Tenants int           `bound:"256"`          // with duplicates between two writes; those of more are not noted
	Events  int           `bound:"200" tiny:"8"` // of one tenant, the same
	Every   time.Duration `bound:"5s" tiny:"1s"` // between two writes
}

// PacingBounds are the bounds of pacing.
type PacingBounds struct {
	Ahead int64         `bound:"1024" tiny:"2"`
	Pause time.Duration `bound:"250ms" tiny:"1ms"`
	Look  time.Duration `bound:"100ms" tiny:"1ms"` // between two looks at the processors
	Late  time.Duration `bound:"300us"`            // a goroutine that waited for this long for a processor is late
	Share int           `bound:"10"`               // time is short if one in this many goroutines is late
}

// AdmissionBounds are the bounds of admission. A test with many programs beside it sets those of
// commits high, because commits of a process that waits for a processor are slow too.
type AdmissionBounds struct {
	// LongCommit is the longest duration of a commit, averaged over some seconds, at which single
	// events are accepted. At an average of 0.5 s the slowest commits take 3 or 4 s, which is as long
	// as a publisher waits.
	LongCommit time.Duration `bound:"500ms"`
	// Silence is the time without a finished commit, while commits are in flight, after which the
	// store counts as hanging. It is a little longer than the wait for a single commit of a hanging
	// store.
	Silence time.Duration `bound:"3s"`
	Look    time.Duration `bound:"1s" tiny:"1ms"` // longest age of the measured disk space
}

// RecorderBounds are the bounds of the recorder, operational events, housekeeping and purges.
type RecorderBounds struct {
	Page int `bound:"512"` // changes in one commit
	// Patient changes, fewer than Crowd, wait this long for others. So outcomes at 500 a second need a
	// fifth of the commits, and a crash repeats fewer than Crowd attempts more.
	Patience time.Duration `bound:"10ms" tiny:"1ms"`
	Crowd    int           `bound:"16" tiny:"2"`
	// Longest pause between commits that fail. Attempts go on meanwhile, and a crash repeats those
	// whose outcomes wait, also when the store answers again.
	Retry time.Duration `bound:"500ms" tiny:"10ms"`
	Names int           `bound:"64"` // events read at once to name them in operational events
	// reads of one page of events before it is recorded without names
	Tries int `bound:"10"`
	// pause before a change that the store refused in every form is tried again
	Stuck time.Duration `bound:"5s" tiny:"100ms"`
	// dead letters of one endpoint logged one by one in a minute
	Lines int `bound:"10"`
	// circuits that open or close at once, for whose log lines the held deliveries are counted
	Counted int `bound:"8"`
	// time limit for counting those of one
	Held time.Duration `bound:"2s" tiny:"100ms"`

	// chores in progress at once; most are short reads of a page
	Workers int `bound:"4"`
	// of one order to retry all: deliveries, heads among which they are looked for, orders at once
	RetryAll      int `bound:"1000" tiny:"3"`
	RetryHeads    int `bound:"10000" tiny:"50"`
	RetriedAtOnce int `bound:"16" tiny:"2"`
	Empty         int `bound:"500"` // deliveries that one step of emptying a queue finishes
	// expired answers, or hashes of requests, deleted in one transaction
	Forget int           `bound:"1000"`
	Tidy   time.Duration `bound:"1m"   tiny:"50ms"` // between two rounds of tidy
	// between two counts of pending deliveries that refused publishes cause, if nodes share the store
	Recount time.Duration `bound:"1s" tiny:"50ms"`
	// publishes in flight: twice one commit, so each is at the latest in the commit after the next
	Publish int `bound:"1024" least:"4"`

	LeastPage int `bound:"200"`  // deliveries that one transaction of a purge removes, at least
	MostPage  int `bound:"2000"` // the same, at most; LeastPage if that is more
}
