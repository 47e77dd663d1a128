package policy

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Scenario is a question to Simulate: the effect of a policy on events while the endpoint has an
// outage.
type Scenario struct {
	Policy   Policy   `json:"policy"`
	Outage   Outage   `json:"outage"`
	Rate     Rate     `json:"rate"`
	Duration Duration `json:"duration"` // time in which events arrive, evenly spaced
	// the events use this many keys in turn, each with its own lane; 0: no order
	Keys int    `json:"keys"`
	Seed uint64 `json:"seed"`
}

// Rate is a frequency, per minute.
type Rate float64

// MarshalJSON writes {"per_minute":4}.
func (r Rate) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{"per_minute": float64(r)})
}

// Bounds of a simulation. A larger one says nothing more and would only take longer.
const (
	maxSimulatedEvents   = 100_000
	maxSimulatedAttempts = 2_000_000
	maxSimulatedTime     = 366 * 24 * time.Hour

	MaxSeed = 1<<53 - 1 // above it some readers of JSON round an integer
)

// ParseScenario reads a scenario's JSON form:
//
//	{"policy":"paylera" | {…}, "outage":{"kind":"down|flaky|slow|status","after":"10m","duration":"6h",
//	           "error_rate":0.3,"latency":"12s","status":422},
//	 "rate":"4/min" | {"per_minute":4}, "duration":"24h", "keys":10, "seed":1}
//
// The defaults: the default policy, an outage that is down from the start, 4 events per minute
// until the outage ends, no keys, seed 1. Only the outage's duration is required. named finds a
// policy by its name; nil knows the presets. Faults are returned as Errors.
func ParseScenario(raw []byte, named func(string) (Policy, bool)) (Scenario, error) {
	if named == nil {
		named = Preset
	}
	r := reader{named: named, usual: DefaultPreset}
	root, ok := r.document(raw, "a scenario")
	if !ok {
		return Scenario{}, r.errs
	}
	usual, _ := Preset(DefaultPreset)
	s := Scenario{Policy: usual, Outage: Outage{Kind: OutageDown}, Rate: 4, Seed: 1}
	if !root.has("outage") {
		r.wrong("/outage/duration", "is required")
	}
	r.members(root, "",
		of("policy", r.policyOrName, &s.Policy),
		of("outage", r.outage, &s.Outage),
		of("rate", r.rate, &s.Rate),
		of("duration", r.duration, &s.Duration),
		of("keys", r.integer, &s.Keys),
		of("seed", r.seed, &s.Seed))
	if !root.has("duration") {
		s.Duration = s.Outage.After + s.Outage.Duration
	}
	if len(r.errs) == 0 {
		r.errs = append(r.errs, s.check()...)
	}
	if err := r.errs.orNil(); err != nil {
		return Scenario{}, err
	}
	return s, nil
}

func (r *reader) policyOrName(n node, into *Policy) {
	switch n.kind {
	case kindString:
		p, ok := r.named(n.text)
		if !ok {
			r.wrong(n.pointer, "is not the name of a policy")
			return
		}
		*into = p
	case kindObject:
		*into = r.policy(n)
		r.errs = append(r.errs, into.check().Under(n.pointer)...)
	default:
		r.wrong(n.pointer, "is %s where a policy or its name was expected", n.kind)
	}
}

func (r *reader) outage(n node, into *Outage) {
	if r.is(n, kindObject) {
		r.members(n, "",
			text(r, "kind", &into.Kind),
			of("after", r.duration, &into.After),
			of("duration", r.duration, &into.Duration).needed("is required"),
			of("error_rate", r.float, &into.ErrorRate),
			of("latency", r.duration, &into.Latency),
			of("status", r.integer, &into.Status))
	}
}

// perMinute are the units of a rate.
func perMinute(unit string) (float64, bool) {
	switch unit {
	case "s", "sec", "second", "per_second":
		return 60, true
	case "m", "min", "minute", "per_minute":
		return 1, true
	case "h", "hour", "per_hour":
		return 1.0 / 60, true
	}
	return 0, false
}

func (r *reader) rate(n node, into *Rate) {
	if n.kind == kindObject && len(n.members) == 1 {
		m := n.members[0]
		if factor, ok := perMinute(m.name); ok && strings.HasPrefix(m.name, "per_") {
			var count float64
			r.float(m.node, &count)
			*into = Rate(count * factor)
			return
		}
	}
	if count, unit, ok := strings.Cut(n.text, "/"); n.kind == kindString && ok {
		f, err := strconv.ParseFloat(count, 64)
		if factor, known := perMinute(unit); err == nil && known && !math.IsNaN(f) && !math.IsInf(f, 0) {
			*into = Rate(f * factor)
			return
		}
	}
	r.wrong(n.pointer, `is not a rate such as "4/min", "10/s" or {"per_minute":4}`)
}

func (r *reader) seed(n node, into *uint64) {
	if !r.is(n, kindNumber) {
		return
	}
	seed, whole := Whole(n.text)
	if !whole || seed < 0 || seed > MaxSeed {
		r.wrong(n.pointer, "is not a whole number from 0 to %d", MaxSeed)
		return
	}
	*into = uint64(seed)
}

func (s *Scenario) check() Errors {
	var c checker
	oneOf(&c, "/outage/kind", s.Outage.Kind, OutageDown, OutageFlaky, OutageSlow, OutageStatus)
	c.between("/outage/after", s.Outage.After, 0, maxSimulatedTime)
	c.between("/outage/duration", s.Outage.Duration, time.Millisecond, maxSimulatedTime)
	if !(s.Outage.ErrorRate >= 0 && s.Outage.ErrorRate <= 1) {
		c.wrong("/outage/error_rate", "must be from 0 to 1")
	}
	if s.Outage.Kind == OutageFlaky && s.Outage.ErrorRate == 0 {
		c.wrong("/outage/error_rate", "is required for kind %q", OutageFlaky)
	}
	if status := s.Outage.Status; status == 0 && s.Outage.Kind == OutageStatus {
		c.wrong("/outage/status", "is required for kind %q", OutageStatus)
	} else if status != 0 && (status < 300 || status > 599) {
		c.wrong("/outage/status", "must be from 300 to 599")
	}
	c.between("/outage/latency", s.Outage.Latency, 0, time.Hour)
	if s.Outage.Kind == OutageSlow && s.Outage.Latency == 0 {
		c.wrong("/outage/latency", "is required for kind %q", OutageSlow)
	}
	c.between("/duration", s.Duration, time.Millisecond, maxSimulatedTime)
	if !(s.Rate > 0 && s.Rate <= 6e6) {
		c.wrong("/rate", "must be above 0 and at most 100000 per second")
	}
	if s.Keys < 0 || s.Keys > maxSimulatedEvents {
		c.wrong("/keys", "must be from 0, which is no order, to %d", maxSimulatedEvents)
	}
	if len(c.errs) > 0 {
		return c.errs
	}
	switch n, each := s.count(), s.Policy.Reach().Attempts; {
	case n < 1:
		c.wrong("/rate", "makes no event within %s", s.Duration)
	case n > maxSimulatedEvents:
		c.wrong("/rate", "makes %.0f events within %s; a simulation has at most %d", n, s.Duration, maxSimulatedEvents)
	case each == 0 || n*float64(each) > maxSimulatedAttempts:
		c.wrong("/rate", "could make more than %d attempts; take fewer events or a policy with fewer attempts", maxSimulatedAttempts)
	}
	return c.errs
}

// count is the number of events.
func (s *Scenario) count() float64 { return math.Floor(float64(s.Rate) * s.Duration.Std().Minutes()) }
