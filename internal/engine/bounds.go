package engine

import "time"

// Bounds are the sizes and time limits inside this room; see package bounds.
type Bounds struct {
	Recorder RecorderBounds

	FreshEvery time.Duration `bound:"250ms" tiny:"50ms"` // between two looks for deliveries that other nodes have accepted
	FreshPage  int           `bound:"1000"`              // heads that one look reads at once
	FreshBack  int           `bound:"8"`                 // looks, after which those since as many looks before are read again
	AskWithin  time.Duration `bound:"2s" tiny:"500ms"`   // for another node to answer a question
	Parts      int           `bound:"3" least:"3"`       // a read of the loops may take one of so many parts of a lease

	// Filters is what all filters of one publish may cost, in units of package match: some 200 ms.
	Filters int64 `bound:"5000000" tiny:"5000000"`
}

// RecorderBounds are the bounds of what records, tells, tidies and purges.
type RecorderBounds struct {
	Page  int           `bound:"512"`             // changes in one commit
	Names int           `bound:"64"`              // events read at once to name them in operational events
	Tries int           `bound:"10"`              // reads of one page of events, until they stay nameless
	Stuck time.Duration `bound:"5s" tiny:"100ms"` // until a change is tried again that the store refuses in every form
	Lines int           `bound:"10"`              // dead letters of one endpoint logged one by one in a minute
	Held  time.Duration `bound:"2s" tiny:"100ms"` // for counting what an opened circuit holds, for the log

	Workers int           `bound:"4"`              // chores under way at once; most are pages, which are short reads
	Empty   int           `bound:"500"`            // deliveries that one step of emptying a queue ends
	Forget  int           `bound:"1000"`           // expired answers, or hashes of requests, deleted in one transaction
	Tidy    time.Duration `bound:"1m" tiny:"50ms"` // between two rounds of keepHouse
	Publish int           `bound:"1024" least:"4"` // publishes under way; twice one commit, so each is in the commit after the next at the latest

	LeastPage int `bound:"200"`  // deliveries that one transaction of a purge removes, at least
	MostPage  int `bound:"2000"` // the same, at most; LeastPage if that is more
}
