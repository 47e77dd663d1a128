package policy

import "slices"

// Decide returns the decision for an outcome: that of the rules below, unless the receiver had a
// wish that the policy grants (Heed). From the strongest rule to the weakest:
//
//  1. A fault beside the endpoint (Elsewhere) is always Retry. A lease that was acked is Deliver,
//     one that was rejected Fail.
//  2. A status in the success set that came with a whole response is Deliver.
//  3. A status in Classify, the narrowest entry first: "404" before "400-409" before "4xx". Without
//     an entry, 410 disables, 429 throttles, and 503 with a valid Retry-After throttles.
//  4. An error class in Classify: "timeout".
//  5. Retry.
//
// A response that broke off, as in a 200 whose body never ended, is judged by its error class
// alone.
func (p *Policy) Decide(o Outcome) Decision { return p.Heed(o).Wish.over(p.decide(o)) }

func (p *Policy) decide(o Outcome) Decision {
	switch {
	case o.Elsewhere():
		return Retry
	case o.Class == ClassNone && o.Status == 0:
		return Deliver
	case o.Class == ClassReject:
		return Fail
	}
	if o.Status > 0 && o.complete() {
		if contains(p.Success, o.Status) {
			return Deliver
		}
		if d, ok := p.byStatus(o); ok {
			return d
		}
	}
	if d, ok := p.Classify[string(o.Class)]; ok {
		return d
	}
	return Retry
}

// Heed returns the outcome with the part of its wish that this policy grants. A wish gets at most
// what a 410 would get: where a 410 ends its delivery without disabling, disable is reduced to
// stop, and where a 410 is retried, a wish has no effect. It has none either in an answer that broke
// off or came from elsewhere, or, if it is stop, in a success.
func (p *Policy) Heed(o Outcome) Outcome {
	if o.Wish == WishNone {
		return o
	}
	gone, _ := p.byStatus(Outcome{Status: 410, Class: ClassStatus4xx})
	switch {
	case o.Status == 0, !o.complete(), gone != DisableEndpoint && gone != Fail:
		o.Wish = WishNone
	case gone == Fail:
		o.Wish = WishStop
	}
	if o.Wish == WishStop && contains(p.Success, o.Status) {
		o.Wish = WishNone
	}
	return o
}

// over returns the decision for an outcome whose own decision is d: a wish can end a delivery, and
// never turns a success into a failure or keeps a 410 from disabling.
func (w Wish) over(d Decision) Decision {
	switch {
	case d == Deliver, d == DisableEndpoint, w == WishNone:
		return d
	case w == WishDisable:
		return DisableEndpoint
	}
	return Fail
}

// Elsewhere says whether an attempt failed beside the endpoint: in this process, at a proxy or at a
// token server. It says nothing about the endpoint, so it opens no circuit, disables nothing and
// makes nobody's endpoint failing.
func (o Outcome) Elsewhere() bool {
	return o.Class == ClassInternal || o.Class == ClassProxy || o.Class == ClassToken
}

// complete says whether the status is the receiver's whole answer.
func (o Outcome) complete() bool {
	switch o.Class {
	case ClassDNS, ClassConnect, ClassTLS, ClassTimeout, ClassReset, ClassProtocol, ClassBlocked, ClassInternal, ClassProxy, ClassToken:
		return false
	default:
		return true
	}
}

// byStatus finds the narrowest entry that contains the status. The result does not depend on the
// order of the map: of two entries of one width, the one that starts lower wins.
func (p *Policy) byStatus(o Outcome) (Decision, bool) {
	var best span
	var found Decision
	for key, d := range p.Classify {
		s, ok := parseSpan(key)
		if !ok || o.Status < s.from || o.Status > s.to {
			continue
		}
		if found == "" || s.width() < best.width() || s.width() == best.width() && s.from < best.from {
			best, found = s, d
		}
	}
	if found != "" && best.width() == 1 {
		return found, true
	}
	switch {
	case o.Status == 410:
		return DisableEndpoint, true
	case o.Status == 429:
		return Throttle, true
	case o.Status == 503 && p.asked(o):
		return Throttle, true
	}
	return found, found != ""
}

// span is a set of statuses: one, a range or a family.
type span struct{ from, to int }

func (s span) width() int { return s.to - s.from + 1 }

// parseSpan reads "404", "400-407" or "4xx".
func parseSpan(text string) (span, bool) {
	switch {
	case len(text) == 3 && text[1:] == "xx" && text[0] >= '1' && text[0] <= '5':
		from := int(text[0]-'0') * 100
		return span{from, from + 99}, true
	case len(text) == 3:
		n, ok := parseStatus(text)
		return span{n, n}, ok
	case len(text) == 7 && text[3] == '-':
		from, ok := parseStatus(text[:3])
		to, ok2 := parseStatus(text[4:])
		return span{from, to}, ok && ok2 && from <= to
	}
	return span{}, false
}

func parseStatus(text string) (n int, ok bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, n >= 100 && n <= 599
}

func contains(set []string, status int) bool {
	for _, text := range set {
		if s, ok := parseSpan(text); ok && s.from <= status && status <= s.to {
			return true
		}
	}
	return false
}

// classKeys are the error classes that Classify may name. Classes of a status are named by the
// status; faults beside the endpoint are not for the policy to classify.
func classKeys() []string {
	return []string{
		string(ClassBlocked), string(ClassConnect), string(ClassDNS), string(ClassProtocol),
		string(ClassRedirect), string(ClassReset), string(ClassTimeout), string(ClassTLS), string(ClassNack), string(ClassLease),
	}
}

func isClassKey(text string) bool { return slices.Contains(classKeys(), text) }
