package policy

import (
	"maps"
	"slices"
)

// Parse is ParseOn with the presets alone.
func Parse(raw []byte) (Policy, error) { return ParseOn(raw, Preset) }

// ParseOn reads a policy's JSON form. It returns all errors at once, as Errors: unknown and
// duplicate fields, wrong types, values out of range.
//
// Omitted fields come from the policy that "preset" names, which named finds, else from the default
// preset. But its limit of attempts does not cut a schedule that the document has and that ends by
// itself: by a table that stops, or by max_age. null means no limit for max_attempts and max_age,
// the default for breaker, and the same as an omission for other fields.
func ParseOn(raw []byte, named func(string) (Policy, bool)) (Policy, error) {
	return parse(raw, reader{named: named, usual: DefaultPreset})
}

func parse(raw []byte, r reader) (Policy, error) {
	root, ok := r.document(raw, "a policy")
	if !ok {
		return Policy{}, r.errs
	}
	p := r.policy(root)
	r.errs = append(r.errs, p.check()...)
	if err := r.errs.orNil(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// policy reads the fields. An invalid field keeps the base's value, so that it causes no second
// error.
func (r *reader) policy(root node) Policy {
	p := r.base(root)
	limit := p.MaxAttempts
	if root.has("schedule") {
		p.MaxAttempts = unlimited
	}
	for _, m := range root.members {
		switch {
		case m.kind == kindNull && m.name == "max_attempts":
			p.MaxAttempts = 0
		case m.kind == kindNull && m.name == "max_age":
			p.MaxAge = 0
		case m.kind != kindNull || !isField(m.name):
			r.field(&p, m)
		}
	}
	if p.MaxAttempts == unlimited {
		p.MaxAttempts = 0
		if p.Schedule.endless() && p.MaxAge == 0 {
			p.MaxAttempts = limit
		}
	}
	return p
}

// base is what the document's fields change.
func (r *reader) base(root node) Policy {
	usual, _ := Preset(r.usual)
	for _, m := range root.members {
		if m.name != "preset" || m.kind == kindNull {
			continue
		}
		var name string
		before := len(r.errs)
		word(r, m.node, &name)
		if base, ok := r.named(name); ok {
			return base.Copy(name)
		}
		if len(r.errs) == before {
			r.wrong(m.pointer, "is not the name of a policy")
		}
	}
	return usual.Copy(r.usual)
}

// unlimited marks max_attempts as left out by a document that may end by itself.
const unlimited = -1 << 31

const policyFields = "name, preset, shape, timeout, schedule, jitter, max_attempts, max_age, success, classify, limits, retry_after, " +
	"on_exhausted, then, disable, breaker"

func isField(name string) bool {
	switch name {
	case "name", "preset", "shape", "timeout", "schedule", "jitter", "max_attempts", "max_age", "success", "classify", "limits", "retry_after",
		"on_exhausted", "then", "disable", "breaker":
		return true
	}
	return false
}

func (r *reader) field(p *Policy, m member) {
	switch m.name {
	case "name":
		word(r, m.node, &p.Name)
	case "preset": // see base
	case "shape":
		word(r, m.node, &p.Shape)
	case "timeout":
		r.duration(m.node, &p.Timeout)
	case "schedule":
		r.schedule(m.node, &p.Schedule)
	case "jitter":
		r.jitter(m.node, &p.Jitter)
	case "max_attempts":
		r.limit(m.node, &p.MaxAttempts)
	case "max_age":
		r.age(m.node, &p.MaxAge)
	case "success":
		r.success(m.node, &p.Success)
	case "classify":
		r.classify(m.node, &p.Classify)
	case "limits":
		r.limits(m.node, &p.Limits)
	case "retry_after":
		word(r, m.node, &p.RetryAfter)
	case "on_exhausted":
		word(r, m.node, &p.OnExhausted)
	case "then":
		word(r, m.node, &p.Then)
	case "disable":
		r.disable(m.node, &p.Disable)
	case "breaker":
		r.breaker(m.node, &p.Breaker)
	default:
		r.unknown(m.node, policyFields)
	}
}

// limit and age refuse 0, which could be read as "none" and as "no limit": null says the latter.
func (r *reader) limit(n node, into *int) {
	var limit int
	before := len(r.errs)
	r.integer(n, &limit)
	if len(r.errs) == before && limit == 0 {
		r.wrong(n.pointer, "must be 1 or more; null is no limit")
		return
	}
	if len(r.errs) == before {
		*into = limit
	}
}

func (r *reader) age(n node, into *Duration) {
	var age Duration
	before := len(r.errs)
	r.duration(n, &age)
	if len(r.errs) == before && age == 0 {
		r.wrong(n.pointer, "must be longer than 0s; null is no limit")
		return
	}
	if len(r.errs) == before {
		*into = age
	}
}

func (r *reader) schedule(n node, into *Schedule) {
	if !r.is(n, kindObject) {
		return
	}
	s := Schedule{Mode: SincePrevious}
	if n.has("base") && !n.has("delays") {
		s.Mode = Exponential
	}
	for _, m := range n.members {
		if m.name == "mode" && m.kind != kindNull {
			word(r, m.node, &s.Mode)
		}
	}
	before := len(r.errs)
	if s.Mode == Exponential {
		s.Factor, s.Max = 2, Duration(MaxRetryAfter)
		r.exponential(n, &s)
	} else {
		s.Tail = TailStop
		r.table(n, &s)
	}
	if len(r.errs) == before {
		*into = s // which check judges
		return
	}
	var c checker
	c.schedule(&s)
	for _, e := range c.errs { // a value that could not be read is 0, and has its error
		if !slices.ContainsFunc(r.errs[before:], func(is FieldError) bool { return is.Pointer == e.Pointer }) {
			r.errs = append(r.errs, e)
		}
	}
}

func (r *reader) exponential(n node, s *Schedule) {
	if !n.has("base") {
		r.wrong(n.pointer+"/base", "is required: the wait before the second attempt")
	}
	for _, m := range n.members {
		switch {
		case m.name == "mode" || m.kind == kindNull:
		case m.name == "base":
			r.duration(m.node, &s.Base)
		case m.name == "factor":
			r.float(m.node, &s.Factor)
		case m.name == "max":
			r.duration(m.node, &s.Max)
		default:
			r.unknown(m.node, "mode, base, factor, max (mode "+string(Exponential)+")")
		}
	}
}

func (r *reader) table(n node, s *Schedule) {
	if !n.has("delays") {
		r.wrong(n.pointer+"/delays", "is required: one delay per attempt, the first is the wait before attempt 1")
	}
	for _, m := range n.members {
		switch {
		case m.name == "mode" || m.kind == kindNull:
		case m.name == "delays":
			if !r.is(m.node, kindArray) {
				continue
			}
			s.Delays = make([]Duration, len(m.items))
			for i, item := range m.items {
				r.duration(item, &s.Delays[i])
			}
		case m.name == "tail":
			word(r, m.node, &s.Tail)
		default:
			r.unknown(m.node, "mode, delays, tail (mode "+string(SincePrevious)+" or "+string(SinceFirst)+")")
		}
	}
}

func (r *reader) jitter(n node, into *Jitter) {
	switch n.kind {
	case kindNumber:
		j := Jitter{}
		r.float(n, &j.Fraction)
		*into = j
	case kindObject:
		j := Jitter{}
		if !n.has("add") {
			r.wrong(n.pointer+"/add", "is required: the most that is added")
		}
		for _, m := range n.members {
			switch {
			case m.name != "add":
				r.unknown(m.node, "add")
			case m.kind != kindNull:
				r.duration(m.node, &j.Add)
			}
		}
		*into = j
	default:
		r.wrong(n.pointer, `is %s where a fraction such as 0.1 or {"add":"5s"} was expected`, n.kind)
	}
}

func (r *reader) success(n node, into *[]string) {
	if !r.is(n, kindArray) {
		return
	}
	set := make([]string, len(n.items))
	before := len(r.errs)
	for i, item := range n.items {
		word(r, item, &set[i])
	}
	if len(r.errs) == before {
		*into = set
	}
}

func (r *reader) classify(n node, into *map[string]Decision) {
	if !r.is(n, kindObject) {
		return
	}
	rules := map[string]Decision{}
	for _, m := range n.members {
		var d Decision
		before := len(r.errs)
		if word(r, m.node, &d); len(r.errs) == before {
			rules[m.name] = d
		}
	}
	*into = maps.Clone(rules)
}

func (r *reader) limits(n node, into *[]Limit) {
	if !r.is(n, kindArray) {
		return
	}
	var limits []Limit
	if len(n.items) > 0 {
		limits = make([]Limit, len(n.items))
	}
	before := len(r.errs)
	for i, item := range n.items {
		if !r.is(item, kindObject) {
			continue
		}
		if !item.has("codes") {
			r.wrong(item.pointer+"/codes", "is required: statuses or error classes, as in classify")
		}
		if !item.has("attempts") {
			r.wrong(item.pointer+"/attempts", "is required: the most attempts after such an answer")
		}
		for _, m := range item.members {
			switch {
			case m.name == "codes":
				r.success(m.node, &limits[i].Codes)
			case m.name == "attempts":
				r.integer(m.node, &limits[i].Attempts)
			case m.name == "within":
				r.age(m.node, &limits[i].Within)
			default:
				r.unknown(m.node, "codes, attempts, within")
			}
		}
	}
	if len(r.errs) == before {
		*into = limits
	}
}

func (r *reader) disable(n node, into *Disable) {
	if !r.is(n, kindObject) {
		return
	}
	for _, m := range n.members {
		switch {
		case m.kind == kindNull && (m.name == "consecutive" || m.name == "of" || m.name == "after" || m.name == "pending"):
		case m.name == "consecutive":
			r.integer(m.node, &into.Consecutive)
		case m.name == "of":
			word(r, m.node, &into.Of)
		case m.name == "after":
			r.duration(m.node, &into.After)
		case m.name == "pending":
			word(r, m.node, &into.Pending)
		default:
			r.unknown(m.node, "consecutive, of, after, pending")
		}
	}
}

func (r *reader) breaker(n node, into **Breaker) {
	if n.kind == kindBool && !n.truth {
		*into = &Breaker{Off: true}
		return
	}
	if n.kind != kindObject {
		r.wrong(n.pointer, "is neither false, which is no breaker, nor null, which is the default one, nor an object")
		return
	}
	b := DefaultBreaker()
	for _, m := range n.members {
		switch {
		case m.kind == kindNull && slices.Contains([]string{"failures", "ratio", "window", "probe", "probe_max"}, m.name):
		case m.name == "failures":
			r.integer(m.node, &b.Failures)
		case m.name == "ratio":
			r.float(m.node, &b.Ratio)
		case m.name == "window":
			r.duration(m.node, &b.Window)
		case m.name == "probe":
			r.duration(m.node, &b.Probe)
		case m.name == "probe_max":
			r.duration(m.node, &b.ProbeMax)
		default:
			r.unknown(m.node, "failures, ratio, window, probe, probe_max")
		}
	}
	*into = &b
}
