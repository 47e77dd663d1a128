package alert

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Bounds are the limits of this package; see package bounds.
type Bounds struct {
	Again  time.Duration `bound:"10m" tiny:"1s"` // after an alert has fired, until the same one may fire again
	Repeat time.Duration `bound:"4h"  tiny:"4s"` // between two messages of an unacknowledged page
	Open   int           `bound:"2000"`          // open alerts of one tenant; more do not fire until some are resolved
	Burst  int           `bound:"5"`             // messages to one channel within Window; more become one digest
	Window time.Duration `bound:"1m" tiny:"1s"`
	Titles int           `bound:"20"` // titles in a digest; more are only counted
	// digests of one channel whose incidents are closed once their alerts have ended
	Digests int `bound:"32"`
	// endpoints of one tenant that get messages; the first by their ids
	Recipients int `bound:"32"`
}

// Sample is one measured value of a rule.
type Sample struct {
	Rule     string
	Tenant   string // empty: the operator
	Subject  Subject
	Value    float64
	Text     string // one or two sentences about the measurement
	Severity string // instead of the rule's own; empty: that
}

// Key identifies the alert that the sample is about.
func (s *Sample) Key() Key { return Key{s.Rule, s.Tenant, s.Subject.Kind, s.Subject.ID} }

// Round is the input of one step.
type Round struct {
	Now      time.Time
	Samples  []Sample
	Unread   Unread
	Open     []*Alert // of all tenants, as stored
	Settings Settings
}

// Unread are rules whose facts could not be read: their alerts stay as they are. UnreadIn makes the
// names of rules about one cell, tenant or queue, or about the server's public address.
type Unread map[string]bool

// UnreadIn is the name of a rule about one of these.
func UnreadIn(rule, of string) string { return rule + "@" + of }

func (u Unread) has(k Key) bool {
	if k.Kind == "server" && k.ID != "" {
		return u[UnreadIn(k.Rule, k.ID)]
	}
	return u[k.Rule] || u[UnreadIn(k.Rule, k.ID)]
}

// Change is one transition of an alert. Silent ones are told to incident services only.
type Change struct {
	Alert      *Alert // after it; a copy
	Transition Transition
	Silent     bool
}

// Memory is the state of a step that need not be durable: since when values are bad or good. After
// a restart such a time begins anew. It is not safe for concurrent use.
type Memory struct {
	b      Bounds
	rising map[Key]time.Time // not firing: since when the value is bad
	calm   map[Key]time.Time // open: since when the value is good
	fired  map[Key]time.Time // the last firing, for as long as it keeps the alert from firing again
}

// NewMemory makes an empty memory. The bounds are filled.
func NewMemory(b Bounds) *Memory {
	return &Memory{b: b, rising: map[Key]time.Time{}, calm: map[Key]time.Time{}, fired: map[Key]time.Time{}}
}

// Remember notes when a stored alert fired, so that a restart does not let it fire again too early.
func (m *Memory) Remember(a *Alert) {
	if a.Since.After(m.fired[a.Key()]) {
		m.fired[a.Key()] = a.Since
	}
}

// Step returns the transitions that follow from the samples, sorted by tenant. It changes no alert:
// a caller that cannot store a transition calls Step again later, and gets it again.
func (m *Memory) Step(r Round) []Change {
	open := make(map[Key]*Alert, len(r.Open))
	count := map[string]int{}
	for _, a := range r.Open {
		open[a.Key()] = a
		count[a.Tenant]++
		m.fired[a.Key()] = a.Since // no later firing can count: of one, the clock was ahead
	}
	var changes []Change
	seen := make(map[Key]bool, len(r.Samples))
	for i := range r.Samples {
		s := &r.Samples[i]
		rule, known := RuleOf(s.Rule)
		if !known || seen[s.Key()] {
			continue
		}
		is := r.Settings.Of(rule, s.Tenant)
		if !is.Enabled {
			continue // an open alert of it is resolved below
		}
		seen[s.Key()] = true
		if a := open[s.Key()]; a != nil {
			delete(m.rising, s.Key())
			changes = m.goesOn(changes, rule, is, a, s.Value, r.Now)
		} else if m.fires(rule, is, s, r.Now) && count[s.Tenant] < m.b.Open {
			count[s.Tenant]++
			changes = append(changes, fired(rule, is, s, r.Now))
		}
	}
	for _, a := range r.Open {
		rule, known := RuleOf(a.Rule)
		if !known {
			rule = &Rule{}
		}
		if !seen[a.Key()] && !(r.Unread.has(a.Key()) && r.Settings.Of(rule, a.Tenant).Enabled) {
			changes = m.resolves(changes, rule, a, r.Now) // what it is about is deleted or well
		}
	}
	m.prune(r, seen, open)
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Alert.Tenant, b.Alert.Tenant), rank(a.Alert.Severity)-rank(b.Alert.Severity),
			strings.Compare(a.Alert.Rule, b.Alert.Rule), strings.Compare(a.Alert.Subject.ID, b.Alert.Subject.ID))
	})
	return changes
}

// fires says whether an alert that is not open fires now.
func (m *Memory) fires(rule *Rule, is InForce, s *Sample, now time.Time) bool {
	k := s.Key()
	if !rule.bad(s.Value, is.Threshold) {
		if rule.good(s.Value, is.Threshold) {
			delete(m.rising, k)
		}
		return false
	}
	since, there := m.rising[k]
	if !there || since.After(now) {
		since, m.rising[k] = now, now
	}
	last, before := m.fired[k]
	return now.Sub(since) >= rule.Hold && (!before || now.Sub(last).Abs() >= m.b.Again)
}

func fired(rule *Rule, is InForce, s *Sample, now time.Time) Change {
	title, severity := rule.Title, is.Severity
	if s.Severity != "" && severity == rule.Severity { // no person has set another one
		severity = s.Severity
	}
	if s.Subject.Name != "" {
		title = cut(s.Subject.Name, mostTitle-len(title)-2) + ": " + title
	}
	return Change{Transition: Fire, Alert: &Alert{ID: newID(s.Key(), now), Rule: s.Rule, Tenant: s.Tenant,
		Severity: severity, Subject: s.Subject, State: Firing, Title: title, Text: cut(s.Text, mostText), Value: s.Value,
		Threshold: is.Threshold, Since: now, RepeatedAt: now}}
}

// goesOn resolves or repeats an open alert, or does neither.
func (m *Memory) goesOn(changes []Change, rule *Rule, is InForce, a *Alert, value float64, now time.Time) []Change {
	if rule.good(value, is.Threshold) {
		return m.resolves(changes, rule, a, now)
	}
	delete(m.calm, a.Key())
	if a.State == Firing && a.Severity == grapnel.SeverityPage && !rule.Once && now.Sub(a.RepeatedAt).Abs() >= m.b.Repeat {
		next := *a
		next.RepeatedAt = now
		return append(changes, Change{Alert: &next, Transition: Repeat})
	}
	return changes
}

// resolves resolves an alert whose value is back for long enough.
func (m *Memory) resolves(changes []Change, rule *Rule, a *Alert, now time.Time) []Change {
	since, there := m.calm[a.Key()]
	if !there || since.After(now) {
		since, m.calm[a.Key()] = now, now
	}
	if now.Sub(since) < rule.Calm {
		return changes
	}
	next := *a
	next.State, next.ResolvedAt = Resolved, now
	return append(changes, Change{Alert: &next, Transition: Resolve, Silent: rule.Once})
}

// prune forgets what no sample and no alert is about any more.
func (m *Memory) prune(r Round, seen map[Key]bool, open map[Key]*Alert) {
	maps.DeleteFunc(m.rising, func(k Key, _ time.Time) bool { return !seen[k] && !r.Unread.has(k) })
	maps.DeleteFunc(m.calm, func(k Key, _ time.Time) bool { return open[k] == nil })
	maps.DeleteFunc(m.fired, func(k Key, at time.Time) bool { return open[k] == nil && r.Now.Sub(at).Abs() >= m.b.Again })
}

// rank orders severities, the gravest first.
func rank(severity string) int {
	return slices.Index([]string{grapnel.SeverityPage, grapnel.SeverityWarning, grapnel.SeverityInfo}, severity)
}
