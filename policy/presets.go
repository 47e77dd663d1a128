package policy

import (
	"slices"
	"time"
)

// Presets returns the policies that are there from the start, as fresh copies. Each follows the document that it is named
// after; docs/policies.md says where those documents contradict themselves and which reading was taken.
func Presets() []Policy {
	presets := []Policy{standard()}
	for _, change := range variations() {
		p := standard()
		p.Jitter = Jitter{} // only where the document has one
		change(&p)
		presets = append(presets, p)
	}
	return presets
}

// Preset returns one of the presets.
func Preset(name string) (Policy, bool) {
	all := Presets()
	i := slices.IndexFunc(all, func(p Policy) bool { return p.Name == name })
	if i < 0 {
		return Policy{}, false
	}
	return all[i], true
}

const (
	sec  = Duration(time.Second)
	mins = Duration(time.Minute)
	hour = Duration(time.Hour)
)

// standard is the default: the schedule of the Standard Webhooks specification, and what every other policy leaves out.
func standard() Policy {
	return Policy{
		Name:        "standard",
		Timeout:     15 * sec,
		Schedule:    stopping(SincePrevious, 0, 5*sec, 5*mins, 30*mins, 2*hour, 5*hour, 10*hour, 14*hour, 20*hour, 24*hour),
		Jitter:      Jitter{Fraction: 0.1},
		MaxAttempts: 10,
		Success:     []string{"2xx"},
		Classify:    map[string]Decision{"410": DisableEndpoint, "429": Throttle},
		RetryAfter:  RetryAfterExtend,
		OnExhausted: DeadLetter,
		Then:        Advance,
		Disable:     Disable{Of: ClassStatus4xx, After: 120 * hour, Pending: PendingHold},
	}
}

// variations is each further preset as its difference from standard.
func variations() []func(p *Policy) {
	return []func(p *Policy){
		func(p *Policy) {
			p.Name = "parseo"
			p.Timeout = 30 * sec
			p.Schedule = stopping(SincePrevious, 0, sec, 5*sec, 30*sec, 5*mins, 30*mins, 2*hour, 6*hour, 24*hour)
			p.MaxAttempts = 9
		},
		func(p *Policy) {
			p.Name = "paylera"
			paylera(p)
		},
		func(p *Policy) {
			p.Name = "paylera-24h"
			paylera(p)
			p.Schedule.Mode = SinceFirst
			p.MaxAge = 24 * hour
		},
		func(p *Policy) {
			p.Name = "sent"
			p.Timeout = 5 * sec
			p.Schedule = stopping(SincePrevious, 0, 5*sec, 25*sec, 2*mins, 10*mins, hour)
			p.Schedule.Tail = TailRepeat
			p.MaxAttempts = 0
			p.MaxAge = 24 * hour
			p.OnExhausted = Discard
		},
		func(p *Policy) {
			p.Name = "webhookify"
			p.Timeout = 30 * sec
			p.Schedule = stopping(SincePrevious, 0, mins, 5*mins, 30*mins, 2*hour, 8*hour, 24*hour)
			p.Jitter = Jitter{Add: 5 * sec}
			p.MaxAttempts = 7
			p.Classify = map[string]Decision{
				"400": Fail, "401": Retry, "403": Retry, "404": Fail, "410": DisableEndpoint, "429": Throttle,
			}
		},
		// Made for queues, where a nack is answered as a 5xx and a reject as a 4xx would be.
		func(p *Policy) {
			p.Name = "hooque"
			p.Timeout = 30 * sec
			p.Schedule = Schedule{Mode: Exponential, Base: sec, Factor: 2, Max: 5 * mins}
			// The document asks for full jitter, 0 to 100 % of the wait. Ours is never early, so the same spread lies behind the wait.
			p.Jitter = Jitter{Fraction: 1}
			p.MaxAttempts = 10
			p.Classify = map[string]Decision{
				"4xx": Fail, "408": Retry, "425": Retry, "410": DisableEndpoint, "429": Throttle,
			}
		},
		func(p *Policy) {
			p.Name = "svix"
			p.Schedule = stopping(SincePrevious, 0, 5*sec, 5*mins, 30*mins, 2*hour, 5*hour, 10*hour, 10*hour)
			p.Jitter = Jitter{Fraction: 0.1}
			p.MaxAttempts = 8
		},
	}
}

// paylera disables for 4xx alone, as its document says; it names no time after which a dead endpoint would be disabled.
func paylera(p *Policy) {
	p.Timeout = 10 * sec
	p.Schedule = stopping(SincePrevious, 0, 15*sec, mins, 5*mins, 30*mins, 2*hour, 6*hour, 12*hour, 24*hour)
	p.MaxAttempts = 9
	p.Disable = Disable{Consecutive: 100, Of: ClassStatus4xx, Pending: PendingDrop}
}

func stopping(mode Mode, delays ...Duration) Schedule {
	return Schedule{Mode: mode, Delays: delays, Tail: TailStop}
}
