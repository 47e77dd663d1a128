package alerting_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
)

// titles are the titles of messages, in order.
func titles(all []message) string {
	var s []string
	for _, m := range all {
		s = append(s, m.data.Title)
	}
	return strings.Join(s, " | ")
}

// TestAlertsFireAndResolve: an endpoint that fails is told to the tenant's other endpoints that
// subscribe, once each way.
func TestAlertsFireAndResolve(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		bad := &receiver{down: true}
		w.endpoint("bad", bad, func(ep *grapnel.Endpoint) { ep.EventTypes = []string{"order.paid", grapnel.ChannelPattern} })
		chat, foreign := w.channel("chat", "acme"), w.channel("foreign", "other")
		w.publish("evt_1", "order.paid")
		time.Sleep(4 * time.Minute)
		open := w.alerts(alerting.Query{State: alert.Firing})
		if len(open) != 1 || open[0].Rule != alert.EndpointFailing || open[0].Subject.ID != "bad" || len(open[0].Messages) != 1 {
			t.Fatalf("open: %+v", open)
		}
		got := chat.messages()
		if len(got) != 1 || got[0].kind != grapnel.EventAlertFired || got[0].id != open[0].Messages[0].Event {
			t.Fatalf("chat got %v", got)
		}
		d := got[0].data
		if d.AlertID != open[0].ID || d.Severity != grapnel.SeverityWarning || d.URL != "https://hooks.example/base/alerts/"+d.AlertID ||
			!strings.HasPrefix(d.AcknowledgeURL, "https://hooks.example/base/alerts/acknowledge?link=") ||
			d.Title != "bad.test: no attempt succeeds" {
			t.Errorf("%+v", d)
		}
		bad.set(false)
		time.Sleep(2 * time.Hour)
		if got := titles(chat.messages()); got != "bad.test: no attempt succeeds | bad.test: circuit is open | Resolved: bad.test: circuit is open | Resolved: bad.test: no attempt succeeds" &&
			got != "bad.test: no attempt succeeds | Resolved: bad.test: no attempt succeeds" {
			t.Errorf("chat got %s", got)
		}
		if open := w.alerts(alerting.Query{State: alert.Firing}); len(open) != 0 {
			t.Errorf("open: %+v", open)
		}
		if resolved := w.alerts(alerting.Query{State: alert.Resolved, Rule: alert.EndpointFailing}); len(resolved) != 1 ||
			len(resolved[0].Messages) != 2 {
			t.Errorf("resolved: %+v", resolved)
		}
		if len(foreign.messages()) != 0 {
			t.Error("another tenant was told")
		}
		for _, m := range bad.messages() {
			if grapnel.IsAlert(m.kind) {
				t.Error("the endpoint was told of itself")
			}
		}
	})
}

// disabled makes n endpoints that Grapnel has disabled.
func (w *world) disabled(n int) {
	w.t.Helper()
	for i := range n {
		w.endpoint(fmt.Sprintf("ep_%04d", i), nil, func(ep *grapnel.Endpoint) {
			ep.EventTypes = []string{"order.paid"}
			ep.Status, ep.DisabledReason, ep.DisabledAt = grapnel.EndpointDisabled, "100 deliveries in a row failed", time.Now()
		})
	}
}

// TestAStormIsOneDigest: a thousand endpoints at once are one message for each channel.
func TestAStormIsOneDigest(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		chat, mail := w.channel("chat", "acme"), w.channel("mail", "acme")
		time.Sleep(65 * time.Second) // in the middle between two rounds
		w.disabled(1000)
		time.Sleep(time.Minute)
		for name, r := range map[string]*receiver{"chat": chat, "mail": mail} {
			got := r.messages()
			if len(got) != 1 || got[0].kind != grapnel.EventAlertDigest || got[0].data.Count != 1000 || len(got[0].data.Alerts) != 20 {
				t.Errorf("%s got %d messages: %.2000v", name, len(got), got)
			}
		}
		if open := w.alerts(alerting.Query{}); len(open) != 1000 || len(open[0].Messages) != 2 {
			t.Errorf("%d alerts", len(open))
		}
	})
}

// TestAStormOfSeveralCommits: alerts that fire at once and are too many for one commit are in two
// digests, each with an id of its own.
func TestAStormOfSeveralCommits(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		chat := w.channel("chat", "acme")
		time.Sleep(65 * time.Second) // in the middle between two rounds
		w.disabled(1500)
		time.Sleep(3 * time.Minute)
		told := 0
		for _, m := range chat.messages() {
			told += m.data.Count
		}
		if told != 1500 {
			t.Errorf("the channel was told of %d alerts", told)
		}
	})
}

// TestNothingIsLostOrToldTwice kills the process at many moments, loses answers of the store, and
// keeps the channel down for a while. In the end the channel has each transition once.
func TestNothingIsLostOrToldTwice(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		chat := w.channel("chat", "acme")
		w.disabled(3)
		chat.set(true)
		time.Sleep(25 * time.Second)
		want := 3
		for i := range 12 {
			switch i % 4 {
			case 0:
				w.mortal.lose.Store(1)
			case 1, 3:
				w.kill()
			case 2:
				// it is enabled and disabled again: a resolution, and another firing after the
				// pause
				w.change("ep_0000", func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledReason = grapnel.EndpointEnabled, "" })
				time.Sleep(11 * time.Minute)
				w.kill()
				w.change("ep_0000", func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledReason = grapnel.EndpointDisabled, "again" })
				want += 2
			}
			time.Sleep(time.Duration(7+i) * time.Second)
		}
		time.Sleep(time.Minute)
		if n := len(chat.messages()); n != 0 {
			t.Fatalf("a channel that is down got %d messages", n)
		}
		chat.set(false)
		time.Sleep(3 * time.Hour)
		states := map[string]string{}
		n := 0
		for _, m := range chat.messages() {
			if m.data.Rule == alert.EndpointDisabled && !strings.HasPrefix(m.data.Title, "Still: ") {
				n++
				if states[m.data.AlertID] == m.data.State {
					t.Errorf("%s was told twice", m)
				}
				states[m.data.AlertID] = m.data.State
			}
		}
		if n != want {
			t.Errorf("the channel was told of %d transitions, not of %d: %s", n, want, titles(chat.messages()))
		}
	})
}

// TestAReopenedStoreSendsWhatItHad: the alert is committed while its channel is down; the process
// is killed, and the next one, on the reopened file, delivers it.
func TestAReopenedStoreSendsWhatItHad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grapnel.db")
	synctest.Test(t, func(t *testing.T) {
		open := func() store.Store {
			s, err := sqlite.Open(ctx, path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		w := &world{t: t, store: open(), net: pipenet.New()}
		w.start()
		chat := w.channel("chat", "acme")
		chat.set(true)
		w.disabled(8) // more than fit in single messages
		time.Sleep(30 * time.Second)
		w.mortal.dead.Store(true)
		w.end()
		w.must(w.store.Close())
		w.store = open()
		w.start()
		chat.set(false)
		time.Sleep(30 * time.Minute)
		got := chat.messages()
		if len(got) != 1 || got[0].data.Count != 8 {
			t.Errorf("the channel got %v", got)
		}
		w.end()
		w.net.Close()
		w.must(w.store.Close())
	})
}

// TestQuietHoursOfAChannel: the channel's own hours, in its time zone, hold an alert below a page;
// the digest at their end is for this channel alone. Another channel is told at once.
func TestQuietHoursOfAChannel(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		info := grapnel.SeverityInfo
		_, err := w.keeper.SetRule(ctx, store.Everyone(), "", alert.EndpointDisabled, grapnel.By{Actor: "key_1"},
			func(alerting.Rule) (alert.Setting, error) { return alert.Setting{Severity: &info}, nil })
		w.must(err)
		awake := w.channel("awake", "acme")
		w.channel("asleep", "acme")
		w.change("asleep", func(ep *grapnel.Endpoint) {
			ep.Channel = &grapnel.Channel{QuietHours: &grapnel.QuietHours{From: "22:00", To: "07:00", TZ: "UTC"}}
		})
		w.disabled(2) // at midnight
		messages := func() (all []string) {
			list, err := w.store.EventList(ctx, store.Of("acme"), store.EventQuery{Type: grapnel.ChannelPattern, Limit: 10})
			w.must(err)
			for i := range list {
				_, made, err := w.store.Event(ctx, store.Of("acme"), "acme", list[i].ID)
				w.must(err)
				for _, d := range made {
					all = append(all, d.EndpointID+" "+strings.TrimPrefix(list[i].Type, "grapnel.alert."))
				}
			}
			return all
		}
		held := func() (all []string) {
			for _, a := range w.alerts(alerting.Query{}) {
				for _, m := range a.Messages {
					_, held, err := w.keeper.Message(ctx, store.Of("acme"), &a, m)
					if w.must(err); held != nil {
						all = append(all, held.Recipient+" "+held.Until.Format(time.TimeOnly))
					}
				}
			}
			return all
		}
		time.Sleep(6*time.Hour + 59*time.Minute)
		if got := fmt.Sprint(messages()); got != "[awake fired awake fired]" || len(awake.messages()) != 2 {
			t.Errorf("in quiet hours there are %s", got)
		}
		if got := fmt.Sprint(held()); got != "[asleep 07:00:00 asleep 07:00:00]" {
			t.Errorf("in quiet hours %s are held", got)
		}
		w.kill()
		time.Sleep(2 * time.Minute)
		if got := fmt.Sprint(messages()); got != "[asleep digest awake fired awake fired]" {
			t.Errorf("after quiet hours there are %s", got)
		}
		if got := held(); len(got) != 0 {
			t.Errorf("after quiet hours %s are held", got)
		}
	})
}

// TestAcknowledgedAlertsAreNotRepeated: an unacknowledged page is repeated every 4 hours.
func TestAcknowledgedAlertsAreNotRepeated(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		chat := w.channel("chat", "acme")
		w.disabled(1)
		time.Sleep(9 * time.Hour)
		if got := titles(chat.messages()); got != "ep_0000.test: is disabled | Still: ep_0000.test: is disabled | Still: ep_0000.test: is disabled" {
			t.Fatalf("got %s", got)
		}
		id := w.alerts(alerting.Query{})[0].ID
		if _, _, err := w.keeper.Acknowledge(ctx, store.Of("other"), id, grapnel.By{Actor: "key_2"},
			nil); grapnel.CodeOf(err) != grapnel.CodeNotFound {
			t.Errorf("another tenant acknowledges: %v", err)
		}
		for range 2 {
			a, _, err := w.keeper.Acknowledge(ctx, store.Of("acme"), id, grapnel.By{Actor: "key_1"}, nil)
			if err != nil || a.State != alert.Acknowledged || a.AcknowledgedBy != "key_1" {
				t.Fatalf("%+v %v", a, err)
			}
		}
		time.Sleep(24 * time.Hour)
		if n := len(chat.messages()); n != 3 {
			t.Errorf("after it was acknowledged it was told %d times", n-3)
		}
	})
}

// TestAnAlertThatLastsForMonths stays the one that a person has acknowledged, until its rule's
// condition ends, although nothing writes it meanwhile.
func TestAnAlertThatLastsForMonths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		w := &world{t: t, store: memory.New(), net: pipenet.New(), every: 6 * time.Hour, keep: 30 * day}
		w.start()
		chat := w.channel("chat", "acme")
		w.disabled(1)
		time.Sleep(day + time.Hour) // between two looks, of which each repeats the alert
		before := w.alerts(alerting.Query{})
		if len(before) != 1 {
			t.Fatalf("%v fire", before)
		}
		_, _, err := w.keeper.Acknowledge(ctx, store.Everyone(), before[0].ID, grapnel.By{Actor: "key_1"}, nil)
		w.must(err)
		told := len(chat.messages())
		time.Sleep(100 * day)
		now := w.alerts(alerting.Query{})
		if len(now) != 1 || now[0].ID != before[0].ID || now[0].State != alert.Acknowledged || len(chat.messages()) != told {
			t.Errorf("after 100 days there are %v, and the channel got %s", now, titles(chat.messages()))
		}
		w.end()
		w.net.Close()
	})
}

// TestTheOperatorsAlerts go to the operator's channels, and the operator's alone.
func TestTheOperatorsAlerts(t *testing.T) {
	var free atomic.Uint64
	free.Store(50)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memory.New(), net: pipenet.New(),
			disk: func(context.Context) (uint64, uint64, error) { return free.Load(), 100, nil }}
		w.start()
		ops, chat := w.channel("ops", grapnel.OperatorTenant), w.channel("chat", "acme")
		time.Sleep(5 * time.Minute)
		free.Store(14)
		time.Sleep(5 * time.Minute)
		if got := titles(ops.messages()); got != "the disk is nearly full" {
			t.Errorf("the operator got %s", got)
		}
		if list, _, err := w.keeper.List(ctx, store.Of("acme"), alerting.Query{Limit: 10}); err != nil || len(list) != 0 ||
			len(chat.messages()) != 0 {
			t.Errorf("a tenant sees %v %v", list, err)
		}
		w.end()
		w.net.Close()
	})
}

// TestRulesCanBeChanged: off, another threshold, another severity; for a tenant or for all.
func TestRulesCanBeChanged(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		off, info := false, grapnel.SeverityInfo
		set := func(tenant string, s alert.Setting) {
			t.Helper()
			_, err := w.keeper.SetRule(ctx, store.Everyone(), tenant, alert.EndpointDisabled, grapnel.By{Actor: "key_1"},
				func(alerting.Rule) (alert.Setting, error) { return s, nil })
			w.must(err)
		}
		set("", alert.Setting{Enabled: &off})
		w.disabled(1)
		time.Sleep(time.Minute)
		if open := w.alerts(alerting.Query{}); len(open) != 0 {
			t.Fatalf("%+v", open)
		}
		on := true
		set("acme", alert.Setting{Enabled: &on, Severity: &info})
		time.Sleep(time.Minute)
		if open := w.alerts(alerting.Query{}); len(open) != 1 || open[0].Severity != info {
			t.Fatalf("%+v", open)
		}
		rules, err := w.keeper.Rules(ctx, "acme")
		w.must(err)
		for _, r := range rules {
			if r.Rule.Name == alert.EndpointDisabled && (!r.Enabled || r.InForce.Severity != info) || !r.Tenants {
				t.Errorf("%+v", r)
			}
		}
		if _, err := w.keeper.SetRule(ctx, store.Everyone(), "acme", alert.DiskFull, grapnel.By{},
			nil); grapnel.CodeOf(err) != grapnel.CodeNotFound {
			t.Errorf("a tenant changes a rule of the operator's: %v", err)
		}
		b, err := w.keeper.Backtest(ctx, store.Everyone(), "acme", alert.DeadLetters, 28*24*time.Hour, nil)
		w.must(err)
		if !b.Known || b.Sentence != "This rule would have fired 0 times in the last 28 days." {
			t.Errorf("%+v", b)
		}
		if b, err = w.keeper.Backtest(ctx, store.Everyone(), "", alert.DiskFull, 28*24*time.Hour, nil); err != nil || b.Known ||
			!strings.Contains(b.Sentence, "no history") {
			t.Errorf("%+v %v", b, err)
		}
		for _, actor := range []string{grapnel.ActorItself, "key_1"} { // only the first disabling is the rule's
			w.must(w.store.Note(ctx, grapnel.AuditEntry{At: time.Now(), Tenant: "acme", Actor: actor, Verb: grapnel.VerbDisable,
				Endpoint: "ep_0000"}))
		}
		if b, err = w.keeper.Backtest(ctx, store.Everyone(), "acme", alert.EndpointDisabled, 24*time.Hour, nil); err != nil || !b.Known ||
			len(b.Fired) != 1 || b.Sentence != "This rule would have fired once in the last 24 h." {
			t.Errorf("%+v %v", b, err)
		}
	})
}

// TestTheLinkOfAMessage names its alert, until it expires; nothing else is such a link.
func TestTheLinkOfAMessage(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		chat := w.channel("chat", "acme")
		w.disabled(1)
		time.Sleep(time.Minute)
		m := chat.messages()[0].data
		_, token, _ := strings.Cut(m.AcknowledgeURL, "?link=")
		if id, tenant, valid := w.keeper.Follow(token); !valid || id != m.AlertID || tenant != "acme" {
			t.Errorf("%q %q %v", id, tenant, valid)
		}
		if _, _, valid := w.keeper.Follow(token[:len(token)-2] + "AA"); valid {
			t.Error("a forged link is valid")
		}
		time.Sleep(2 * time.Hour)
		if _, _, valid := w.keeper.Follow(token); valid {
			t.Error("a link is valid for ever")
		}
	})
}

// TestPages: a list has each alert once, in pages of any size.
func TestPages(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.disabled(25)
		time.Sleep(time.Minute)
		for i := range 10 {
			w.change(fmt.Sprintf("ep_%04d", i), func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledReason = grapnel.EndpointEnabled, "" })
		}
		time.Sleep(time.Minute)
		for _, size := range []int{1, 7, 15, 100} {
			seen := map[string]bool{}
			q := alerting.Query{Limit: size}
			for {
				list, next, err := w.keeper.List(ctx, store.Of("acme"), q)
				w.must(err)
				for i := range list {
					if seen[list[i].ID] || list[i].State == alert.Firing && len(seen) >= 15 {
						t.Fatalf("in pages of %d, %s is number %d", size, list[i].ID, len(seen))
					}
					seen[list[i].ID] = true
				}
				if q.After = next; next == "" {
					break
				}
			}
			if len(seen) != 25 {
				t.Errorf("in pages of %d there are %d alerts", size, len(seen))
			}
		}
	})
}

// TestTheServersOwnCertificate: the operator hears of a certificate that ends, once, also over a
// restart, and over days in which it cannot be read.
func TestTheServersOwnCertificate(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		until, fault, looks := time.Now().Add(20*24*time.Hour), error(nil), 0
		var mu sync.Mutex // the keeper looks at the same moments at which the test wakes
		w.shows = func(context.Context) (time.Time, error) {
			mu.Lock()
			defer mu.Unlock()
			looks++
			return until, fault
		}
		w.every = 10 * time.Minute // nine days of rounds every ten seconds take seven seconds of a processor
		w.kill()
		ops := w.channel("ops", grapnel.OperatorTenant)
		time.Sleep(5 * 24 * time.Hour)
		mu.Lock()
		if len(ops.messages()) != 0 || looks > 5*24+1 {
			t.Errorf("after %d looks in 5 days the operator got %v", looks, ops.messages())
		}
		mu.Unlock()
		time.Sleep(2 * 24 * time.Hour)
		mu.Lock()
		fault = errors.New("refused")
		mu.Unlock()
		w.kill()
		time.Sleep(2 * 24 * time.Hour)
		if got := titles(ops.messages()); got != "hooks.example: the certificate expires" {
			t.Errorf("the operator got %s", got)
		}
		mu.Lock()
		until, fault = until.Add(90*24*time.Hour), nil
		mu.Unlock()
		time.Sleep(2 * time.Hour)
		if got := titles(ops.messages()); got != "hooks.example: the certificate expires | Resolved: hooks.example: the certificate expires" {
			t.Errorf("the operator got %s", got)
		}
	})
}
