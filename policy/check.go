package policy

import (
	"fmt"
	"strconv"
	"time"
)

// Bounds of a policy's values. They keep a typing error from becoming a policy; every serious
// policy fits within.
const (
	MinTimeout  = 10 * time.Millisecond
	MaxTimeout  = 10 * time.Minute
	MaxDelay    = 30 * 24 * time.Hour // one wait
	MaxAge      = 366 * 24 * time.Hour
	MaxAttempts = 10_000
	MaxRows     = 200 // delays of a table
	MaxFactor   = 100 // of an exponential schedule
	maxName     = 64
	MaxLimits   = 20
	MaxCodes    = 50
)

// Validate returns the errors that Parse would find in the policy, or nil.
func (p *Policy) Validate() error { return p.check().orNil() }

// checker collects values that are out of range.
type checker struct{ reader }

func (p *Policy) check() Errors {
	var c checker
	c.name(p.Name)
	if _, known := Preset(p.Shape); p.Shape != "" && !known {
		c.wrong("/shape", "is not the name of a preset")
	}
	c.between("/timeout", p.Timeout, MinTimeout, MaxTimeout)
	c.schedule(&p.Schedule)
	c.jitter(p.Jitter)
	c.limits(p)
	c.success(p.Success)
	c.classify(p)
	c.narrower(p)
	oneOf(&c, "/retry_after", p.RetryAfter, RetryAfterExtend, RetryAfterIgnore)
	oneOf(&c, "/on_exhausted", p.OnExhausted, DeadLetter, Discard)
	oneOf(&c, "/then", p.Then, Advance, Block)
	c.disable(p.Disable)
	if p.Breaker != nil && !p.Breaker.Off {
		c.breaker(*p.Breaker)
	}
	return c.errs
}

func (c *checker) between(pointer string, d Duration, least, most time.Duration) {
	if d.Std() < least || d.Std() > most {
		c.wrong(pointer, "must be from %s to %s", Duration(least), Duration(most))
	}
}

func oneOf[T ~string](c *checker, pointer string, v T, choices ...T) {
	text := ""
	for i, choice := range choices {
		if v == choice {
			return
		}
		text += fmt.Sprintf("%q", string(choice))
		if i < len(choices)-1 {
			text += " or "
		}
	}
	c.wrong(pointer, "must be %s", text)
}

func (c *checker) name(name string) {
	ok := len(name) <= maxName
	for i := range len(name) {
		b := name[i]
		ok = ok && (b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.')
	}
	if !ok {
		c.wrong("/name", "must be at most %d of the characters A-Z a-z 0-9 - _ .", maxName)
	}
}

func (c *checker) schedule(s *Schedule) {
	switch s.Mode {
	case SincePrevious, SinceFirst:
		c.table(s)
	case Exponential:
		c.between("/schedule/base", s.Base, time.Millisecond, MaxDelay)
		if !(s.Factor >= 1 && s.Factor <= MaxFactor) { // so that NaN is refused too
			c.wrong("/schedule/factor", "must be from 1 to %d", MaxFactor)
		}
		if s.Max < s.Base || s.Max.Std() > MaxDelay {
			c.wrong("/schedule/max", "must be from base (%s) to %s", s.Base, Duration(MaxDelay))
		}
	default:
		oneOf(c, "/schedule/mode", s.Mode, SincePrevious, SinceFirst, Exponential)
	}
}

func (c *checker) table(s *Schedule) {
	if len(s.Delays) == 0 || len(s.Delays) > MaxRows {
		c.wrong("/schedule/delays", "must have 1 to %d rows", MaxRows)
	}
	before := len(c.errs)
	for i, d := range s.Delays {
		at := "/schedule/delays/" + strconv.Itoa(i)
		c.between(at, d, 0, MaxDelay)
		if s.Mode == SinceFirst && i > 0 && d < s.Delays[i-1] {
			c.wrong(at, "is before the row above it; in mode %s each row is an offset from the first attempt", SinceFirst)
		}
	}
	oneOf(c, "/schedule/tail", s.Tail, TailStop, TailRepeat)
	if len(c.errs) > before || len(s.Delays) == 0 || s.Tail != TailRepeat {
		return
	}
	repeated := s.row(len(s.Delays))
	if s.Mode == SinceFirst {
		repeated = s.gap(len(s.Delays))
	}
	if repeated < time.Millisecond {
		c.wrong("/schedule/tail", "would repeat a wait of %s: attempts without a pause", Duration(repeated))
	}
}

func (c *checker) jitter(j Jitter) {
	if !(j.Fraction >= 0 && j.Fraction <= 1) {
		c.wrong("/jitter", "must be from 0 to 1")
	}
	if j.Add < 0 || j.Add.Std() > 24*time.Hour {
		c.wrong("/jitter/add", "must be from 0s to 24h")
	}
	if j.Fraction != 0 && j.Add != 0 {
		c.wrong("/jitter", "is either a fraction or an addition")
	}
}

func (c *checker) limits(p *Policy) {
	if p.MaxAttempts < 0 || p.MaxAttempts > MaxAttempts {
		c.wrong("/max_attempts", "must be from 1 to %d; null is no limit", MaxAttempts)
	}
	if p.MaxAge < 0 || p.MaxAge.Std() > MaxAge {
		c.wrong("/max_age", "must be from 1ms to %s; null is no limit", Duration(MaxAge))
	}
	if p.MaxAttempts == 0 && p.MaxAge == 0 && p.Schedule.endless() {
		c.wrong("/max_attempts", "must be given, or max_age, because the schedule never ends by itself")
	}
}

// success may narrow the set of successful statuses, never widen it: receivers are promised that
// only 2xx is a success. A redirect is not followed, so it has delivered nothing.
func (c *checker) success(set []string) {
	if len(set) == 0 {
		c.wrong("/success", "must name at least one status, or nothing would ever be delivered")
	}
	for i, text := range set {
		s, ok := parseSpan(text)
		switch at := "/success/" + strconv.Itoa(i); {
		case !ok:
			c.wrong(at, `is not a status such as "200", "200-204" or "2xx"`)
		case s.from < 200 || s.to > 299:
			c.wrong(at, "reaches beyond 2xx; only a 2xx is ever a success")
		}
	}
}

func (c *checker) classify(p *Policy) {
	for key, d := range p.Classify {
		at := "/classify/" + escape(key)
		s, isStatus := parseSpan(key)
		switch {
		case !isStatus && !isClassKey(key):
			c.wrong(at, `is neither a status such as "404", "400-407" or "4xx" nor one of the classes %v`, classKeys())
		case isStatus && s.width() == 1 && contains(p.Success, s.from):
			c.wrong(at, "is a success already, see /success")
		}
		if d != Retry && d != Fail && d != Throttle && d != DisableEndpoint {
			c.wrong(at, `must be "retry", "fail", "throttle" or "disable"`)
		}
	}
}

// narrower checks the limits of answers.
func (c *checker) narrower(p *Policy) {
	if len(p.Limits) > MaxLimits {
		c.wrong("/limits", "must be at most %d", MaxLimits)
	}
	for i, l := range p.Limits {
		at := "/limits/" + strconv.Itoa(i)
		if len(l.Codes) == 0 || len(l.Codes) > MaxCodes {
			c.wrong(at+"/codes", "must name 1 to %d statuses or error classes", MaxCodes)
		}
		for j, code := range l.Codes {
			if _, isStatus := parseSpan(code); !isStatus && !isClassKey(code) {
				c.wrong(at+"/codes/"+strconv.Itoa(j), `is neither a status such as "404", "400-407" or "4xx" nor one of the classes %v`, classKeys())
			}
		}
		if l.Attempts < 1 || l.Attempts > MaxAttempts {
			c.wrong(at+"/attempts", "must be from 1 to %d", MaxAttempts)
		}
		if l.Within < 0 || l.Within.Std() > MaxAge {
			c.wrong(at+"/within", "must be from 1ms to %s; null is no limit", Duration(MaxAge))
		}
	}
}

func (c *checker) disable(d Disable) {
	if d.Consecutive < 0 || d.Consecutive > 1_000_000 {
		c.wrong("/disable/consecutive", "must be from 0, which is never, to 1000000")
	}
	oneOf(c, "/disable/of", d.Of, ClassStatus4xx, ClassStatus5xx, ClassTimeout, ClassConnect, ClassDNS, ClassTLS, ClassReset,
		ClassProtocol, ClassRedirect)
	if d.After < 0 || d.After.Std() > MaxAge {
		c.wrong("/disable/after", "must be from 0s, which is never, to %s", Duration(MaxAge))
	}
	oneOf(c, "/disable/pending", d.Pending, PendingHold, PendingDrop)
}

func (c *checker) breaker(b Breaker) {
	if b.Failures < 1 || b.Failures > 10_000 {
		c.wrong("/breaker/failures", "must be from 1 to 10000")
	}
	if !(b.Ratio > 0 && b.Ratio <= 1) {
		c.wrong("/breaker/ratio", "must be above 0 and at most 1")
	}
	c.between("/breaker/window", b.Window, time.Second, time.Hour)
	c.between("/breaker/probe", b.Probe, 10*time.Millisecond, time.Hour)
	if b.ProbeMax < b.Probe || b.ProbeMax.Std() > 24*time.Hour {
		c.wrong("/breaker/probe_max", "must be from probe (%s) to 24h", b.Probe)
	}
}
