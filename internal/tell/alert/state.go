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
	Rule    string
	Tenant  string // empty: the operator
	Subject Subject
	Value   float64
	Text    string // sentences about the measurement
	Also
}

// Also is what few samples have.
type Also struct {
	Severity string    // instead of the rule's own; empty: that
	Part     string    // of the subject that the alert is about; empty: all of it
	Last     time.Time // of the newest occurrence, for rules that are Hourly
}

// Key identifies the alert that the sample is about.
func (s *Sample) Key() Key { return Key{s.Rule, s.Tenant, s.Subject.Kind, s.Subject.ID, s.Part} }

// Round is the input of one step.
type Round struct {
	Now      time.Time
	Samples  []Sample
	Unread   Unread
	Open     []*Alert // of all tenants, as stored
	Settings Settings
}

// Unread are rules whose facts could not be read: their alerts stay as they are. UnreadIn makes the
// names of rules about one tenant or queue, or about the server's public address.
type Unread map[string]bool

// UnreadIn is the name of a rule about one of these.
func UnreadIn(rule, of string) string { return rule + "@" + of }

func (u Unread) has(k Key) bool {
	if k.Kind == "server" && k.ID != "" {
		return u[UnreadIn(k.Rule, k.ID)]
	}
	return u[k.Rule] || u[UnreadIn(k.Rule, k.ID)] || u[UnreadIn(k.Rule, k.Tenant)]
}

// Change is one transition of an alert. Silent ones are told to incident services only.
type Change struct {
	Alert      *Alert // after it; a copy
	Transition Transition
	Silent     bool
	Gathered   bool // those of a round are one digest
}

// Memory is the state of a step that need not be durable: since when values are bad or good. After
// a restart such a time begins anew. It is not safe for concurrent use.
type Memory struct {
	b      Bounds
	rising map[Key]time.Time // not firing: since when the value is bad
	calm   map[Key]time.Time // open: since when the value is good
	milder map[Key]time.Time // open: since when the sample's severity is below the alert's
	fired  map[Key]time.Time // the last firing, for as long as it keeps the alert from firing again
}

// NewMemory makes an empty memory. The bounds are filled.
func NewMemory(b Bounds) *Memory {
	return &Memory{b: b, rising: map[Key]time.Time{}, calm: map[Key]time.Time{}, milder: map[Key]time.Time{}, fired: map[Key]time.Time{}}
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
	samples := r.merged()
	for i := range samples {
		s := &samples[i]
		rule, known := RuleOf(s.Rule)
		if !known {
			continue
		}
		is := r.Settings.Of(rule, s.Tenant)
		if !is.Enabled {
			continue // an open alert of it is resolved below
		}
		seen[s.Key()] = true
		if a := open[s.Key()]; a != nil {
			delete(m.rising, s.Key())
			changes = m.goesOn(changes, rule, is, a, s, r.Now)
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

// merged has one sample for each alert. Of several, such as the windows of all promises, those at
// the threshold count together: by the gravest severity and the worst value, with all their texts.
func (r *Round) merged() []Sample {
	at := make(map[Key]int, len(r.Samples))
	all := make([]Sample, 0, len(r.Samples))
	for _, s := range r.Samples {
		i, there := at[s.Key()]
		if !there {
			at[s.Key()] = len(all)
			all = append(all, s)
			continue
		}
		rule, known := RuleOf(s.Rule)
		if !known {
			continue
		}
		threshold, is := r.Settings.Of(rule, s.Tenant).Threshold, &all[i]
		switch was, also := rule.bad(is.Value, threshold), rule.bad(s.Value, threshold); {
		case was && also:
			if s.Text, s.Value = is.Text+" "+s.Text, rule.worse(is.Value, s.Value); rank(is.Severity) < rank(s.Severity) {
				s.Severity = is.Severity
			}
			*is = s
		case also, !was && rule.worse(is.Value, s.Value) == s.Value:
			*is = s
		}
	}
	return all
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
	last, before := m.fired[k]
	return lasts(m.rising, k, now) >= rule.Hold && (!before || now.Sub(last).Abs() >= m.b.Again)
}

// lasts is for how long something has been so, by the time since when it is. That is now at first,
// and if the clock was ahead.
func lasts(since map[Key]time.Time, k Key, now time.Time) time.Duration {
	if at, there := since[k]; !there || at.After(now) {
		since[k] = now
	}
	return now.Sub(since[k])
}

func fired(rule *Rule, is InForce, s *Sample, now time.Time) Change {
	title := rule.Title
	if s.Part != "" {
		title += " (" + s.Part + ")"
	}
	if s.Subject.Name != "" {
		title = cut(s.Subject.Name, mostTitle-len(title)-2) + ": " + title
	}
	return Change{Transition: Fire, Alert: &Alert{ID: NewID(s.Key(), now), Rule: s.Rule, Tenant: s.Tenant,
		Severity: severity(rule, is, s), Subject: s.Subject, Part: s.Part, State: Firing, Title: title, Text: cut(s.Text, mostText),
		Value: s.Value, Threshold: is.Threshold, Since: now, RepeatedAt: now}}
}

// severity is the one that a sample has in its own right, unless a person has set the rule's.
func severity(rule *Rule, is InForce, s *Sample) string {
	if s.Severity != "" && is.Severity == rule.Severity {
		return s.Severity
	}
	return is.Severity
}

// goesOn resolves, repeats or worsens an open alert, or does nothing.
func (m *Memory) goesOn(changes []Change, rule *Rule, is InForce, a *Alert, s *Sample, now time.Time) []Change {
	if rule.good(s.Value, is.Threshold) {
		return m.resolves(changes, rule, a, now)
	}
	delete(m.calm, a.Key())
	if c := m.graver(rule, is, a, s, now); c != nil {
		return append(changes, *c)
	}
	if a.State == Firing && a.Severity == grapnel.SeverityPage && !rule.Once && now.Sub(a.RepeatedAt).Abs() >= m.b.Repeat {
		next := *a
		next.RepeatedAt = now
		return append(changes, Change{Alert: &next, Transition: Repeat})
	}
	// By the clock, so that all groups with news of the hour before are told in one round.
	if rule.Hourly && a.State == Firing && now.Truncate(time.Hour).After(a.RepeatedAt) && s.Last.After(a.RepeatedAt) {
		next := *a
		next.RepeatedAt, next.Text = now, cut(s.Text, mostText)
		return append(changes, Change{Alert: &next, Transition: Repeat, Gathered: true})
	}
	return changes
}

// graver is the change of an alert whose samples have severities of their own. A graver severity is
// sent at once. A milder one counts after Bounds.Again and is not sent, so that the next graver one
// is sent again: an incident that is open for days does not hide the next outage.
func (m *Memory) graver(rule *Rule, is InForce, a *Alert, s *Sample, now time.Time) *Change {
	by := rank(severity(rule, is, s)) - rank(a.Severity)
	if s.Severity == "" || by <= 0 || !rule.bad(s.Value, is.Threshold) {
		delete(m.milder, a.Key())
	}
	if s.Severity == "" || by == 0 || !rule.bad(s.Value, is.Threshold) {
		return nil
	}
	next := *a
	next.Severity = severity(rule, is, s)
	if by > 0 {
		if lasts(m.milder, a.Key(), now) < m.b.Again {
			return nil
		}
		return &Change{Alert: &next, Transition: Ease}
	}
	next.State, next.AcknowledgedAt, next.AcknowledgedBy = Firing, time.Time{}, ""
	next.Text, next.Value, next.RepeatedAt = cut(s.Text, mostText), s.Value, now
	return &Change{Alert: &next, Transition: Worsen}
}

// resolves resolves an alert whose value is back for long enough.
func (m *Memory) resolves(changes []Change, rule *Rule, a *Alert, now time.Time) []Change {
	if lasts(m.calm, a.Key(), now) < rule.Calm {
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
	maps.DeleteFunc(m.milder, func(k Key, _ time.Time) bool { return open[k] == nil })
	maps.DeleteFunc(m.fired, func(k Key, at time.Time) bool { return open[k] == nil && r.Now.Sub(at).Abs() >= m.b.Again })
}

// rank orders severities, the gravest first.
func rank(severity string) int {
	return slices.Index([]string{grapnel.SeverityPage, grapnel.SeverityWarning, grapnel.SeverityInfo}, severity)
}
