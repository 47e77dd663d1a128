package alarm

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

func (a *Alarm) lasts() bool { return a.State == alert.Firing }

func (t *Trouble) key() key { return key{t.Rule, t.Node} }
func (a *Alarm) key() key   { return key{a.Rule, a.Subject.ID} }

func (k *Keeper) at(of key) *watch {
	w := k.watched[of]
	if w == nil {
		w = &watch{}
		k.watched[of] = w
	}
	return w
}

// step begins and ends alarms.
func (k *Keeper) step(now time.Time, h *Health) {
	seen := map[key]bool{}
	for _, t := range h.Troubles {
		seen[t.key()] = true
		k.rises(now, t, k.at(t.key()))
	}
	for _, a := range k.alarms {
		k.at(a.key())
	}
	for of, w := range k.watched {
		if !seen[of] && !slices.Contains(h.Unknown, of.rule) {
			k.falls(now, of, w)
		}
	}
	n := len(k.alarms)
	k.alarms = slices.DeleteFunc(k.alarms, func(a *Alarm) bool {
		return !a.lasts() && (now.Sub(a.ResolvedAt) >= k.bounds.Retire || !slices.ContainsFunc(k.listeners, a.waits))
	})
	k.dirty = k.dirty || len(k.alarms) != n
	open := map[string]int{}
	for _, a := range k.alarms {
		if a.lasts() {
			open[a.Rule]++
		}
	}
	k.open.Store(&open)
}

// alarm is the alarm with a key that lasts; nil: none does.
func (k *Keeper) alarm(of key) *Alarm {
	for _, a := range k.alarms {
		if a.lasts() && a.key() == of {
			return a
		}
	}
	return nil
}

// rises notes that a trouble is there, and begins its alarm when it is time.
func (k *Keeper) rises(now time.Time, t Trouble, w *watch) {
	w.elsewhere = t.Elsewhere
	if w.good = (time.Time{}); w.bad.IsZero() {
		w.bad = now
	}
	if k.alarm(t.key()) != nil || !t.Sure && now.Sub(w.bad) < k.bounds.Hold || !w.ended.IsZero() && now.Sub(w.ended) < k.bounds.Again {
		return
	}
	k.dirty = true
	name := cmp.Or(t.Name, k.o.Name())
	k.alarms = append(k.alarms, &Alarm{elsewhere: t.Elsewhere, Alert: alert.Alert{
		ID: id(t, now), Rule: t.Rule, Severity: grapnel.SeverityPage, State: alert.Firing,
		Subject: alert.Subject{Kind: "server", ID: t.Node, Name: name},
		Title:   name + ": " + ruleOf(t.Rule).Title, Text: t.Text, Since: moment(w.bad)}})
	k.log.Warn("alarm begun", "rule", t.Rule, "about", name, "text", t.Text, "told", !t.Elsewhere)
}

// falls notes that a trouble is away, and ends its alarm when it is time.
func (k *Keeper) falls(now time.Time, of key, w *watch) {
	if w.bad = (time.Time{}); w.good.IsZero() {
		w.good = now
	}
	a := k.alarm(of)
	switch {
	case a == nil:
		if now.Sub(w.good) >= k.bounds.Again {
			delete(k.watched, of)
		}
	case now.Sub(w.good) >= k.bounds.Calm:
		a.State, a.ResolvedAt, w.ended = alert.Resolved, moment(w.good), now
		a.failed, k.dirty = nil, true
		if w.elsewhere {
			a.Told, a.elsewhere = nil, false // another node tells all of the end
		}
		k.log.Info("alarm ended", "rule", a.Rule, "about", a.Subject.Name, "after", a.ResolvedAt.Sub(a.Since).Round(time.Second).String())
	}
}

// waits says whether an endpoint has to be told of what the alarm is now.
func (a *Alarm) waits(l Listener) bool {
	told := a.Told[l.Endpoint.ID]
	switch {
	case !slices.Contains(l.Rules, a.Rule):
		return false
	case a.lasts():
		return told == "" && !a.elsewhere
	}
	return told == alert.Fire || told == "" && a.elsewhere
}

// letters are the messages whose time has come.
func (k *Keeper) letters(now time.Time) (all []letter) {
	for _, a := range k.alarms {
		is := alert.Fire
		if !a.lasts() {
			is = alert.Resolve
		}
		for _, l := range k.listeners {
			if a.waits(l) && !now.Before(a.failed[l.Endpoint.ID].next) {
				m := letter{to: l, about: a, is: is}
				m.mail = m.delivery(now, k.o.URL)
				all = append(all, m)
			}
		}
	}
	return all
}

// delivery is the message as egress sends those of deliveries: with the request of the channel's
// service, the same guard of addresses, and the endpoint's timeout.
func (m *letter) delivery(now time.Time, url string) egress.Delivery {
	now = now.Round(0).UTC()
	return egress.Delivery{Endpoint: m.to.Endpoint, Event: m.event(now, url),
		ID: grapnel.NewID(grapnel.DeliveryPrefix, now, rand.Reader), Number: m.about.failed[m.to.Endpoint.ID].n + 1,
		Trigger: grapnel.TriggerSchedule, CreatedAt: now}
}

// event is the event of the message. Its id is the same in every attempt, so a service that knows
// it drops a repetition.
func (m *letter) event(now time.Time, url string) *grapnel.Event {
	a, at := m.about.Alert, m.about.Since
	if m.is == alert.Resolve {
		at = a.ResolvedAt
	}
	is := (&alert.Change{Alert: &a, Transition: m.is}).Alone(at)
	is.Data.URL = url
	return &grapnel.Event{ID: is.Event, Tenant: grapnel.OperatorTenant, Type: is.Type, Key: a.ID, Data: is.Data.Encode(),
		ContentType: grapnel.JSONType, OccurredAt: at, AcceptedAt: now}
}

// forFile are the alarms that the file has. Of lost nodes no restarted node knows whether they are
// still lost.
func (k *Keeper) forFile() (all []*Alarm) {
	for _, a := range k.alarms {
		if a.Subject.ID == "" {
			all = append(all, a)
		}
	}
	return all
}

// Sample is an event like that of an alarm of a rule, to find the endpoints that want it.
func Sample(rule string) *grapnel.Event {
	m := letter{about: &Alarm{Alert: alert.Alert{Rule: rule, Severity: grapnel.SeverityPage, State: alert.Firing}}, is: alert.Fire}
	return m.event(time.Time{}, "")
}

// ByRule turns the endpoints that want each rule into listeners, by their ids.
func ByRule(wants func(rule string) []*grapnel.Endpoint) []Listener {
	all := map[string]*Listener{}
	for _, r := range rules {
		for _, ep := range wants(r.Name) {
			if all[ep.ID] == nil {
				all[ep.ID] = &Listener{Endpoint: ep}
			}
			all[ep.ID].Rules = append(all[ep.ID].Rules, r.Name)
		}
	}
	list := []Listener{}
	for _, l := range slices.SortedFunc(maps.Values(all), func(a, b *Listener) int { return strings.Compare(a.Endpoint.ID, b.Endpoint.ID) }) {
		list = append(list, *l)
	}
	return list
}

// id is the id of an alarm. The one about another node is the same on all nodes, so that the end
// closes the incident of the beginning, also if another node tells it.
func id(t Trouble, now time.Time) string {
	if t.Node != "" {
		return alert.NewID(alert.Key{Rule: t.Rule, ID: t.Node}, time.Unix(0, 0))
	}
	return grapnel.NewID(alert.IDPrefix, now, rand.Reader)
}

// moment is a time as messages and the file have it.
func moment(t time.Time) time.Time { return t.Round(0).UTC().Truncate(time.Microsecond) }
