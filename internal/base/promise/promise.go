// Package promise is the arithmetic of what Grapnel promises about itself over 28 days: counts of
// good and bad events in slots of five minutes, windows over these slots, the budget that a promise
// leaves, and how fast it is used up. The rules for Prometheus (internal/tell/monitoring) have the
// same objectives, windows and thresholds, from here.
//
// What holds here: no clock, no I/O, no randomness. Every function gets its time as an argument, so
// a day of outages is a table in a test. Only Grapnel's own faults are counted: a caller's bad
// request and a receiver that is slow, failing or limited count for nothing (see Indicator).
//
// What it does not promise: that a fault was counted. A process that does not run counts nothing,
// so an outage of the whole machine shows as time without measurements, not as a fault.
package promise

import "time"

// Window is the time that a promise is about, Slot the time that one count is about.
const (
	Window  = 28 * 24 * time.Hour
	Slot    = 5 * time.Minute
	PerHour = int(time.Hour / Slot)
	Days    = int(Window / (24 * time.Hour))
)

// Indicator is one thing that is counted.
type Indicator int

// The indicators.
const (
	// Accept: a publish is good if it is answered within a second with a 2xx, or with a 4xx. It is
	// bad if the server fails, sheds load (503, 507) or is too slow.
	Accept Indicator = iota
	// Receive is the same for requests to sources.
	Receive
	// Dispatch: the first attempt of a delivery that nothing but Grapnel held back is good if it
	// begins within two seconds of the commit. Deliveries that wait behind their key, an open
	// circuit, a pause, a rate or concurrency limit, or slots that slow receivers of their tenant or
	// host hold, are not counted.
	Dispatch
	// Arrive: of the deliveries that Dispatch counts, those that the receiver took at once are good
	// if the 2xx came within five seconds of the commit. It is informative: the receiver's speed is
	// in it.
	Arrive
	// Serve: any other request to the API or the dashboard is bad if the server failed to answer it.
	Serve
	// Loss: each look at the balance of deliveries is bad if deliveries are missing in it.
	Loss
	// Ready: each sample is bad if the server cannot accept events at that moment.
	Ready
	indicators
)

// names are those in stored documents; they must not change.
var names = [indicators]string{"accept", "receive", "dispatch", "arrive", "serve", "loss", "ready"}

func (i Indicator) String() string { return names[i] }

// Objective is a promise: at least Share of what its indicators count is good.
type Objective struct {
	Name  string
	Title string
	Says  string // of what the share is promised, after "99.95 % of "
	Share float64
	Of    []Indicator
}

// The promises by name.
const (
	Availability = "availability"
	Freshness    = "freshness"
	Arrival      = "arrival"
	NoLoss       = "no_loss"
)

// Objectives are all promises. The one of NoLoss has no budget; the one of Arrival has no share: it
// is shown and not promised.
func Objectives() []Objective {
	return []Objective{
		{Availability, "Availability", "publishes and incoming webhooks are answered within a second", 0.9995, []Indicator{Accept, Receive}},
		{Freshness, "Freshness", "deliveries are attempted within two seconds of being first in line", 0.99, []Indicator{Dispatch}},
		{Arrival, "Arrival", "deliveries to healthy endpoints arrive within five seconds", 0, []Indicator{Arrive}},
		{NoLoss, "No loss", "accepted events are accounted for", 1, []Indicator{Loss}},
	}
}

// Find returns the promise with a name; false: there is none.
func Find(name string) (Objective, bool) {
	for _, o := range Objectives() {
		if o.Name == name {
			return o, true
		}
	}
	return Objective{}, false
}

// Budget is the part of all events that may be bad.
func (o *Objective) Budget() float64 { return 1 - o.Share }

// Time is the budget as a time in which everything fails, at even traffic: 20.16 minutes of 28 days
// for 99.95 %.
func (o *Objective) Time() time.Duration {
	return time.Duration(o.Budget()*float64(Window) + 0.5).Round(time.Millisecond)
}

// Limits within which something is good.
const (
	AnswerWithin   = time.Second
	DispatchWithin = 2 * time.Second
	ArriveWithin   = 5 * time.Second
)

// Burn is one pair of windows. Its alert fires if both have used up the budget of 28 days Rate
// times too fast: the long window keeps a spike from waking anybody, the short one ends the alert
// soon after the fault.
type Burn struct {
	Severity    string
	Long, Short time.Duration
	Rate        float64 // part of the budget × 672 h ÷ the long window
}

// Burns are all pairs, the fastest first.
func Burns() []Burn {
	return []Burn{
		{"page", time.Hour, 5 * time.Minute, 13.44},     // 2 % of the budget
		{"page", 6 * time.Hour, 30 * time.Minute, 5.6},  // 5 %
		{"ticket", 24 * time.Hour, 2 * time.Hour, 2.8},  // 10 %
		{"ticket", 72 * time.Hour, 6 * time.Hour, 0.93}, // 10 %
	}
}

// LeastEvents is how many events a short window needs: in fewer, one failure is a rate that says
// nothing.
const LeastEvents = 100

// Threshold is the share of bad events above which a pair burns.
func (b *Burn) Threshold(o *Objective) float64 { return b.Rate * o.Budget() }
