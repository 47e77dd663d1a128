package server

import (
	"fmt"
	"html"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// rawTally counts from the deliveries and their attempts alone, as the API shows each.
type rawTally struct {
	o        *outage
	finished map[string]*client.Delivery // that need no other look
	all      []*client.Delivery
	channels map[string]bool
}

func newRawTally(o *outage) *rawTally {
	r := &rawTally{o: o, finished: map[string]*client.Delivery{}, channels: map[string]bool{}}
	for _, ch := range must(o.client.Channels(o.t.Context(), client.ChannelFilter{}))(o.t).Data {
		r.channels[ch.ID] = true
	}
	return r
}

// read reads every delivery with its attempts.
func (r *rawTally) read() {
	r.all = nil
	for f := (client.DeliveryFilter{Limit: 500}); ; {
		page := must(r.o.client.Deliveries(r.o.t.Context(), f))(r.o.t)
		for i := range page.Data {
			id := page.Data[i].ID
			if r.finished[id] == nil {
				d := must(r.o.client.Delivery(r.o.t.Context(), id))(r.o.t)
				if d.FinishedAt != nil {
					r.finished[id] = d
				}
				r.all = append(r.all, d)
				continue
			}
			r.all = append(r.all, r.finished[id])
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return
		}
	}
}

// figures are the totals up to a time of the deliveries that a function selects, by a name that
// another gives; both get the time that counts.
func (r *rawTally) figures(until time.Time, of func(d *client.Delivery, at time.Time) (string, bool)) map[string]*wire.Totals {
	sums := map[string]*wire.Totals{}
	sum := func(d *client.Delivery, at time.Time) *wire.Totals {
		name, counts := of(d, at)
		if !counts || at.After(until) {
			return new(wire.Totals)
		}
		if sums[name] == nil {
			sums[name] = new(wire.Totals)
		}
		return sums[name]
	}
	for _, d := range r.all {
		for i := range d.Attempts {
			a := &d.Attempts[i]
			t := sum(d, a.StartedAt.Add(time.Duration(a.Duration)))
			t.Attempts++
			if a.Number == 1 {
				t.FirstAttempts++
			}
			switch {
			case a.ErrorClass == policy.ClassNone && a.Number == 1:
				t.FirstAttemptSuccess++
			case a.ErrorClass != policy.ClassNone:
				t.FailedAttempts++
				if i+1 < len(d.Attempts) || d.FinishedAt == nil || a.Decision == policy.Retry || a.Decision == policy.Throttle {
					t.TriedAgain++
				}
			}
		}
		if d.FinishedAt == nil {
			continue
		}
		t := sum(d, *d.FinishedAt)
		*map[grapnel.Status]*int64{grapnel.Delivered: &t.Delivered, grapnel.Failed: &t.Failed, grapnel.Dropped: &t.Dropped,
			grapnel.Discarded: &t.Discarded, grapnel.Skipped: &t.Skipped}[d.Status]++
		if len(d.Attempts) > 0 {
			t.Attempted++
		}
		if len(d.Attempts) > 1 {
			t.Retried++
		}
	}
	return sums
}

// counted says whether statistics count a delivery: messages to channels are left out.
func (r *rawTally) counted(d *client.Delivery) bool { return !r.channels[d.EndpointID] }

// hours, endpoints and types group the counted deliveries; whole has all of them in one group.
func (r *rawTally) hours(d *client.Delivery, at time.Time) (string, bool) {
	return at.UTC().Truncate(time.Hour).Format(time.RFC3339), r.counted(d)
}
func (r *rawTally) endpoints(d *client.Delivery, _ time.Time) (string, bool) {
	return d.EndpointID, r.counted(d)
}
func (r *rawTally) types(d *client.Delivery, _ time.Time) (string, bool) { return d.Type, r.counted(d) }
func (r *rawTally) whole(d *client.Delivery, _ time.Time) (string, bool) { return "", r.counted(d) }

// same compares totals; latencies are no counts.
func (o *outage) same(what string, got wire.Totals, want *wire.Totals) {
	o.t.Helper()
	if want == nil {
		want = new(wire.Totals)
	}
	if got.Latency = want.Latency; got != *want {
		o.t.Errorf("%s:\n%+v\nand the attempts say\n%+v", what, got, *want)
	}
}

func (o *outage) number(what string, got, want any) {
	o.t.Helper()
	if !reflect.DeepEqual(got, want) {
		o.t.Errorf("%s: %v, and the attempts say %v", what, got, want)
	}
}

// check compares every figure that is a count or a rate of attempts and deliveries with the raw
// attempts, wherever it is shown.
func (o *outage) check(when string) {
	o.t.Helper()
	time.Sleep(5 * time.Second) //nolint:forbidigo // the bubble's time: statistics may lag two seconds
	o.tally.read()
	now, r := time.Now(), o.tally
	total := r.figures(now, r.whole)[""]
	pending, dead := map[string]int64{}, int64(0)
	for _, d := range r.all {
		if d.FinishedAt == nil && r.counted(d) {
			pending[d.EndpointID]++
			pending[""]++
		}
		if d.Status == grapnel.Failed && !slices.ContainsFunc(r.all, func(again *client.Delivery) bool {
			return again.Status == grapnel.Delivered && again.EventID == d.EventID && again.EndpointID == d.EndpointID
		}) {
			dead++
		}
	}
	o.t.Logf("%s: %+v, %d pending", when, *total, pending[""])

	seen := must(o.client.Overview(o.t.Context(), ""))(o.t)
	o.same(when+", overview", seen.Totals, total)
	hours := r.figures(now, r.hours)
	for i := range seen.Hours {
		o.same(when+", overview's hour", seen.Hours[i].Totals, hours[seen.Hours[i].At.UTC().Format(time.RFC3339)])
	}
	o.number(when+", hours", len(seen.Hours), len(hours))
	o.number(when+", pending", seen.Pending.All, pending[""])
	for _, e := range seen.Attention {
		o.number(when+", deliveries that wait for "+e.Description, int64(e.Health.Held), pending[e.ID])
	}
	o.number(when+", dead letters", seen.DeadLetters.All, dead)

	type grouping = func(*client.Delivery, time.Time) (string, bool)
	for by, of := range map[string]grouping{"hour": r.hours, "endpoint": r.endpoints, "type": r.types} {
		stats := must(o.client.Stats(o.t.Context(), client.StatsFilter{By: by, From: now.Add(-12 * time.Hour)}))(o.t)
		want := r.figures(now, of)
		o.number(when+", groups by "+by, len(stats.Groups), len(want))
		for i := range stats.Groups {
			o.same(when+", "+stats.Groups[i].Name, stats.Groups[i].Totals, want[stats.Groups[i].Name])
			o.rate(when+", "+stats.Groups[i].Name, &stats.Groups[i].Figures)
		}
		o.same(when+", statistics by "+by, stats.All.Totals, total)
		o.number(when+", pending by "+by, *stats.Pending, pending[""])
	}
	o.pagesSay(when, total, pending)
	for name, id := range o.endpoints {
		stats := must(o.client.Stats(o.t.Context(), client.StatsFilter{Endpoint: id, Bucket: "minute"}))(o.t)
		want := r.figures(stats.To.Add(-1), func(d *client.Delivery, at time.Time) (string, bool) {
			return "", d.EndpointID == id && !at.Before(stats.From)
		})[""]
		if want == nil {
			want = new(wire.Totals)
		}
		o.same(when+", minutes of "+name, stats.Totals, want)
	}
	o.metricsSay(when, total)
}

func (o *outage) rate(what string, f *wire.Figures) {
	o.t.Helper()
	var want *float64
	if f.FirstAttempts > 0 {
		want = new(float64)
		*want = float64(f.FirstAttemptSuccess) / float64(f.FirstAttempts)
	}
	o.number(what+", first attempts", f.FirstAttemptSuccessRate, want)
}

// pagesSay reads the overview, the statistics, and the pages of endpoints, in the dashboard and in
// the portal.
func (o *outage) pagesSay(when string, total *wire.Totals, pending map[string]int64) {
	o.t.Helper()
	read := func(b *browser, path string, texts ...string) {
		o.t.Helper()
		status, _, body := b.ask("GET", path, nil)
		body = html.UnescapeString(body)
		for _, text := range texts {
			if status != 200 || !strings.Contains(body, text) {
				o.t.Errorf("%s: %s (%d) does not say %q", when, path, status, text)
			}
		}
	}
	figures := func(t *wire.Totals) []string {
		return []string{"<dd>" + say.Count(t.Delivered) + " ",
			fmt.Sprintf("<dd>%s <small>%%</small>", say.Percent(t.FirstAttemptSuccess, t.FirstAttempts)),
			"of " + say.Many(t.FirstAttempts, "first attempt", "first attempts"), words.FailedAttempts(t),
			say.Count(t.Failed) + " failed in 24 h", "<span>" + say.Count(t.Delivered) + " delivered, "}
	}
	again := func(t *wire.Totals) []string {
		if t.TriedAgain == 0 {
			return nil
		}
		return []string{say.Count(t.TriedAgain) + " tried again"}
	}
	read(o.pages, "/", slices.Concat(figures(total), again(total),
		[]string{"<dd>" + say.Count(pending[""]) + " <small>held or due</small>"})...)
	read(o.pages, "/stats?by=hour&since=24h", slices.Concat(again(total), []string{
		say.Many(pending[""], "delivery is", "deliveries are") + " pending now. ", words.FailedAttempts(total),
		"of " + say.Many(total.FirstAttempts, "first attempt", "first attempts")})...)
	o.openPortal()
	of := o.tally.figures(time.Now(), o.tally.endpoints)
	for _, id := range o.endpoints {
		texts := slices.Concat(figures(of[id]), again(of[id]))
		read(o.pages, "/endpoints/"+id, texts...)
		read(o.portal, "/portal/endpoints/"+id, texts...)
	}
}

// metricsSay compares the counters since the start. They have the messages to channels, too, but
// for first attempts, which are those of the statistics.
func (o *outage) metricsSay(when string, total *wire.Totals) {
	o.t.Helper()
	_, _, body := o.pages.ask("GET", "/metrics", nil)
	value := func(name string, labels ...string) (sum float64) {
		for line := range strings.Lines(body) {
			series, number, _ := strings.Cut(strings.TrimSpace(line), " ")
			is, has, _ := strings.Cut(series, "{")
			if is != name || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(has, l) }) {
				continue
			}
			var n float64
			if _, err := fmt.Sscan(number, &n); err != nil {
				o.t.Fatal(line)
			}
			sum += n
		}
		return sum
	}
	pending := 0
	for _, d := range o.tally.all {
		if d.FinishedAt == nil {
			pending++
		}
	}
	sent := o.tally.figures(time.Now(), func(d *client.Delivery, _ time.Time) (string, bool) {
		return "", !strings.HasPrefix(d.EndpointID, "que_")
	})[""]
	all := o.tally.figures(time.Now(), func(*client.Delivery, time.Time) (string, bool) { return "", true })[""]
	for what, of := range map[string][2]float64{
		"first attempts that succeeded": {value("grapnel_first_attempts_total", `result="success"`), float64(total.FirstAttemptSuccess)},
		"first attempts":                {value("grapnel_first_attempts_total"), float64(total.FirstAttempts)},
		"attempts that succeeded":       {value("grapnel_attempts_total", `result="success"`), float64(sent.Attempts - sent.FailedAttempts)},
		"attempts that failed":          {value("grapnel_attempts_total", `result="failure"`), float64(sent.FailedAttempts)},
		"pending":                       {value("grapnel_pending"), float64(pending)},
		"backlog":                       {value("grapnel_backlog"), float64(pending)},
		"delivered":                     {value("grapnel_deliveries_total", `outcome="delivered"`), float64(all.Delivered)},
		"failed":                        {value("grapnel_deliveries_total", `outcome="failed"`), float64(all.Failed)},
		"dead letters":                  {value("grapnel_dead_letters_total"), float64(all.Failed)},
	} {
		o.number(when+", metrics, "+what, of[0], of[1])
	}
}

// drop is the value of the rule first_attempts at a time, from the raw attempts.
func (o *outage) drop(at time.Time) float64 {
	buckets := func(until time.Time) (list []grapnel.Bucket) {
		by := o.tally.figures(until, o.tally.hours)
		for _, name := range slices.Sorted(maps.Keys(by)) {
			begin, _ := time.Parse(time.RFC3339, name)
			list = append(list, grapnel.Bucket{At: begin, Totals: grapnel.Totals{FirstAttempts: by[name].FirstAttempts,
				FirstAttemptSuccess: by[name].FirstAttemptSuccess}})
		}
		return list
	}
	last, usual := alert.LastHour(buckets(at), at), alert.Usual(buckets(at), at.Truncate(time.Hour).Add(-time.Hour))
	return 100 * (usual.Success - last.Good/last.Firsts)
}

// TestEveryFigureOfAnOutageIsTrue: before, during and after an outage of an hour, every figure of
// the overview, the statistics, the endpoints' pages, the portal and the metrics follows from the
// raw attempts, and the alert about first attempts fires meanwhile with their value, although the
// policy retries for 75 hours.
func TestEveryFigureOfAnOutageIsTrue(t *testing.T) {
	inBubble(t, func(b *bubble) {
		o := newOutage(b)
		o.pass(3 * time.Hour)
		o.check("before")
		o.pass(20 * time.Minute)
		began := time.Now()
		o.down.Store(503)
		o.rejects.Store(422)
		for _, at := range []time.Duration{time.Minute, 6 * time.Minute, 26 * time.Minute, 59 * time.Minute} {
			o.pass(began.Add(at).Sub(time.Now()))
			o.check(fmt.Sprint("outage, ", at))
			for _, name := range []string{"rejects", "picky"} { // a person tries the newest again
				list := must(o.client.Deliveries(o.t.Context(), client.DeliveryFilter{Endpoint: o.endpoints[name], Limit: 1}))(o.t)
				must(o.client.Retry(o.t.Context(), list.Data[0].ID, ""))(o.t)
			}
		}
		fired := must(o.client.Alerts(o.t.Context(), client.AlertFilter{Rule: alert.FirstAttempts}))(o.t).Data
		if len(fired) != 1 || fired[0].ResolvedAt != nil || fired[0].Since.Before(began) {
			o.t.Errorf("during the outage the alert is %+v", fired)
		} else if v := fired[0].Value; v < o.drop(fired[0].Since.Add(-2*time.Minute)) || v > o.drop(fired[0].Since) || v < 20 {
			o.t.Errorf("it fired at %s with %v: %s; the attempts say %v", fired[0].Since, v, fired[0].Text, o.drop(fired[0].Since))
		}
		o.down.Store(200)
		o.rejects.Store(200)
		o.pass(5 * time.Minute)
		o.check("5 minutes after")
		must(o.client.StartReplay(o.t.Context(), o.endpoints["picky"], client.NewReplay{}))(o.t)
		o.pass(2 * time.Hour)
		o.check("2 hours after")
	})
}
