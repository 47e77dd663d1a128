package promise

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Verdict is how a promise is kept.
type Verdict struct {
	Objective
	Count             // over the window
	Left    float64   // part of the budget that is left: 1 none used, below 0 broken. Without a budget: 1 or 0
	Rate    float64   // how many times too fast the budget was used up over the last day; 1 is exactly the budget
	Few     bool      // the last day has bad events, and too few in all for Rate
	Until   time.Time // when nothing is left at this rate; zero: not within the window, or it is used up
	Burning []Burning
	Days    []Day
	Judged  bool // there are enough events to say anything
}

// Burning is how fast the budget is used up in one pair of windows.
type Burning struct {
	Burn
	LongRatio, ShortRatio float64 // shares of bad events
	Events                float64 // in the short window
	Threshold             float64
	Fires                 bool
}

// Judge says how a promise is kept at a time.
func Judge(h *History, o Objective, now time.Time) Verdict {
	v := Verdict{Objective: o, Days: h.Daily(now, o.Of)}
	all := h.Over(now, Window, o.Of)
	v.Count = Count{int64(all.Good + 0.5), int64(all.Bad + 0.5)}
	switch {
	case o.Share == 0: // informative
		v.Judged = all.All() >= LeastEvents
		return v
	case o.Share >= 1: // no budget: one is too many
		v.Judged = all.All() > 0
		if v.Bad == 0 {
			v.Left = 1
		}
		return v
	}
	v.Judged = all.All() >= LeastEvents
	v.Left = 1
	if all.Bad > 0 {
		v.Left = 1 - all.Ratio()/o.Budget()
	}
	day := h.Over(now, 24*time.Hour, o.Of)
	if v.Few = day.Bad > 0 && day.All() < LeastEvents; !v.Few {
		v.Rate = day.Ratio() / o.Budget()
	}
	if v.Rate > 0 && v.Left > 0 {
		if lasts := v.Left / v.Rate; lasts < 1 {
			v.Until = now.Add(time.Duration(lasts * float64(Window)))
		}
	}
	for _, b := range Burns() {
		long, short := h.Over(now, b.Long, o.Of), h.Over(now, b.Short, o.Of)
		is := Burning{Burn: b, LongRatio: long.Ratio(), ShortRatio: short.Ratio(), Events: short.All(), Threshold: b.Threshold(&o)}
		is.Fires = is.LongRatio > is.Threshold && is.ShortRatio > is.Threshold && is.Events >= LeastEvents
		v.Burning = append(v.Burning, is)
	}
	return v
}

// Report is how all promises are kept.
type Report struct {
	At       time.Time
	Since    time.Time // when counting began; zero: nothing was counted
	Promises []Verdict
	Ready    []Day // of the samples of readiness
	Receive  []Day // of requests to sources alone
	Accept   []Day // of publishes alone
	Serve    []Day
	Latency  []Latency
}

// Latency are the durations of an indicator over the last day.
type Latency struct {
	Of            Indicator
	P50, P95, P99 time.Duration
	Known         bool
}

// Make judges all promises.
func Make(h *History, now time.Time) Report {
	r := Report{At: now, Since: h.Since()}
	for _, o := range Objectives() {
		r.Promises = append(r.Promises, Judge(h, o, now))
	}
	for of, days := range map[Indicator]*[]Day{Ready: &r.Ready, Receive: &r.Receive, Accept: &r.Accept, Serve: &r.Serve} {
		*days = h.Daily(now, []Indicator{of})
	}
	for i := range timed {
		took := h.Took(now, 24*time.Hour, Indicator(i))
		p := Latency{Of: Indicator(i), P50: took.Percentile(.5), P95: took.Percentile(.95), P99: took.Percentile(.99)}
		p.Known = took != (grapnel.Latency{})
		r.Latency = append(r.Latency, p)
	}
	return r
}

// Of finds a verdict by the promise's name; nil: there is none.
func (r *Report) Of(name string) *Verdict {
	for i := range r.Promises {
		if r.Promises[i].Name == name {
			return &r.Promises[i]
		}
	}
	return nil
}
