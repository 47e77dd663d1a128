package policy

import "slices"

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
	r.members(root, "",
		text(r, "name", &p.Name),
		field{name: "preset"}, // see base
		text(r, "shape", &p.Shape),
		of("timeout", r.duration, &p.Timeout),
		of("schedule", r.schedule, &p.Schedule),
		of("jitter", r.jitter, &p.Jitter),
		of("max_attempts", orNone(r.limit), &p.MaxAttempts).withNull(),
		of("max_age", orNone(r.age), &p.MaxAge).withNull(),
		of("success", r.success, &p.Success),
		of("classify", r.classify, &p.Classify),
		of("limits", r.limits, &p.Limits),
		text(r, "retry_after", &p.RetryAfter),
		text(r, "on_exhausted", &p.OnExhausted),
		text(r, "then", &p.Then),
		of("disable", r.disable, &p.Disable),
		of("breaker", r.breaker, &p.Breaker))
	if p.MaxAttempts == unlimited {
		p.MaxAttempts = 0
		if p.Schedule.endless() && p.MaxAge == 0 {
			p.MaxAttempts = limit
		}
	}
	return p
}

// unlimited marks max_attempts as left out by a document that may end by itself.
const unlimited = -1 << 31

// base is what the document's fields change.
func (r *reader) base(root node) Policy {
	var name string
	if preset, ok := root.member("preset"); ok && word(r, preset, &name) {
		if base, known := r.named(name); known {
			return base.Copy(name)
		}
		r.wrong(preset.pointer, "is not the name of a policy")
	}
	usual, _ := Preset(r.usual)
	return usual.Copy(r.usual)
}

func (r *reader) limit(n node, into *int) {
	bound(r, n, r.integer, into, "must be 1 or more; null is no limit")
}

func (r *reader) age(n node, into *Duration) {
	bound(r, n, r.duration, into, "must be longer than 0s; null is no limit")
}

// bound refuses 0, which could be read as "none" and as "no limit": null says the latter.
func bound[T int | Duration](r *reader, n node, read func(node, *T), into *T, must string) {
	var most T
	before := len(r.errs)
	switch read(n, &most); {
	case len(r.errs) > before:
	case most == 0:
		r.wrong(n.pointer, "%s", must)
	default:
		*into = most
	}
}

// orNone reads null as 0, which is no limit.
func orNone[T int | Duration](read func(node, *T)) func(node, *T) {
	return func(n node, into *T) {
		if n.kind == kindNull {
			*into = 0
			return
		}
		read(n, into)
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
	if mode, ok := n.member("mode"); ok {
		word(r, mode, &s.Mode)
	}
	// the fields of the other mode may be null
	n.members = slices.DeleteFunc(slices.Clone(n.members), func(m member) bool { return m.kind == kindNull })
	before := len(r.errs)
	if s.Mode == Exponential {
		s.Factor, s.Max = 2, Duration(MaxRetryAfter)
		r.members(n, " (mode "+string(Exponential)+")",
			field{name: "mode"},
			of("base", r.duration, &s.Base).needed("is required: the wait before the second attempt"),
			of("factor", r.float, &s.Factor),
			of("max", r.duration, &s.Max))
	} else {
		s.Tail = TailStop
		r.members(n, " (mode "+string(SincePrevious)+" or "+string(SinceFirst)+")",
			field{name: "mode"},
			of("delays", r.delays, &s.Delays).needed("is required: one delay per attempt, the first is the wait before attempt 1"),
			text(r, "tail", &s.Tail))
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

func (r *reader) delays(n node, into *[]Duration) { *into, _ = list(r, n, r.duration) }

func (r *reader) jitter(n node, into *Jitter) {
	var j Jitter
	switch n.kind {
	case kindNumber:
		r.float(n, &j.Fraction)
	case kindObject:
		r.members(n, "", of("add", r.duration, &j.Add).needed("is required: the most that is added"))
	default:
		r.wrong(n.pointer, `is %s where a fraction such as 0.1 or {"add":"5s"} was expected`, n.kind)
		return
	}
	*into = j
}

func (r *reader) success(n node, into *[]string) {
	if set, ok := list(r, n, func(n node, into *string) { word(r, n, into) }); ok {
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
		if word(r, m.node, &d) {
			rules[m.name] = d
		}
	}
	*into = rules
}

func (r *reader) limits(n node, into *[]Limit) {
	limits, ok := list(r, n, func(n node, into *Limit) {
		if r.is(n, kindObject) {
			r.members(n, "",
				of("codes", r.success, &into.Codes).needed("is required: statuses or error classes, as in classify").withNull(),
				of("attempts", r.integer, &into.Attempts).needed("is required: the most attempts after such an answer").withNull(),
				of("within", r.age, &into.Within).withNull())
		}
	})
	if ok {
		*into = limits
	}
}

func (r *reader) disable(n node, into *Disable) {
	if r.is(n, kindObject) {
		r.members(n, "",
			of("consecutive", r.integer, &into.Consecutive),
			text(r, "of", &into.Of),
			of("after", r.duration, &into.After),
			text(r, "pending", &into.Pending))
	}
}

func (r *reader) breaker(n node, into **Breaker) {
	switch {
	case n.kind == kindBool && !n.truth:
		*into = &Breaker{Off: true}
	case n.kind != kindObject:
		r.wrong(n.pointer, "is neither false, which is no breaker, nor null, which is the default one, nor an object")
	default:
		b := DefaultBreaker()
		r.members(n, "",
			of("failures", r.integer, &b.Failures),
			of("ratio", r.float, &b.Ratio),
			of("window", r.duration, &b.Window),
			of("probe", r.duration, &b.Probe),
			of("probe_max", r.duration, &b.ProbeMax))
		*into = &b
	}
}
