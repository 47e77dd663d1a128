package promise

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// start is the beginning of a slot, of an hour and of a day.
var start = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// outage is a time in which a share of the events is bad.
type outage struct {
	from, to time.Duration
	share    float64
}

// played is the history of even traffic as it looks at a time.
func played(perSecond float64, now time.Duration, of Indicator, outages ...outage) *History {
	h := NewHistory()
	for at := time.Duration(0); at < now; at += Slot {
		end := min(at+Slot, now)
		bad := 0.0
		for _, o := range outages {
			if over := min(end, o.to) - max(at, o.from); over > 0 {
				bad += o.share * perSecond * over.Seconds()
			}
		}
		all := perSecond * (end - at).Seconds()
		when := start.Add(at)
		hour := h.hours[hourOf(when)]
		if hour == nil {
			hour = new(Hour)
			h.hours[hourOf(when)] = hour
		}
		n := Count{Bad: int64(math.Round(bad))}
		n.Good = int64(math.Round(all)) - n.Bad
		hour.slots[slotOf(when)][of].add(n)
	}
	return h
}

// burning are the long windows that fire.
func burning(h *History, name string, now time.Duration) (all []string) {
	o, _ := Find(name)
	v := Judge(h, o, start.Add(now))
	for _, b := range v.Burning {
		if b.Fires {
			all = append(all, fmt.Sprintf("%.0fh", b.Long.Hours()))
		}
	}
	return all
}

// The outage that Prometheus's own tool plays with the rules of internal/tell/monitoring fires and
// ends here at the same minutes.
func TestAlertsAgreeWithPrometheus(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "tell", "monitoring", "testdata", "outage.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Cases []struct {
				At      string                    `yaml:"eval_time"`
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Tests) != 1 || len(file.Tests[0].Cases) < 9 {
		t.Fatalf("the file has another form: %v", err)
	}
	for _, c := range file.Tests[0].Cases {
		at, err := time.ParseDuration(c.At)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, s := range c.Samples {
			want = append(want, strings.Split(s.Labels, `"`)[1])
		}
		h := played(100, at, Accept, outage{1440 * time.Minute, 1450 * time.Minute, 1})
		if got := burning(h, Availability, at); !slices.Equal(got, want) {
			t.Errorf("after %v %v burn, Prometheus says %v", at, got, want)
		}
	}
}

// Alerts fire and end in the second that the arithmetic of their windows says.
func TestAlertsFireAndEndInTheSecond(t *testing.T) {
	const perSecond = 100
	began := 100 * time.Hour // more than the longest window
	for _, c := range []struct {
		name  string
		of    Indicator
		lasts time.Duration
		share float64
	}{
		{Availability, Accept, 10 * time.Minute, 1},
		{Availability, Receive, time.Hour, .5},
		{Availability, Accept, 3 * time.Hour, .01},
		{Freshness, Dispatch, time.Hour, 1},
		{Freshness, Dispatch, 2 * time.Hour, .3},
	} {
		o, _ := Find(c.name)
		out := outage{began, began + c.lasts, c.share}
		for i, b := range Burns() {
			limit := b.Threshold(&o)
			fires := func(after time.Duration) bool {
				now := began + after
				return Judge(played(perSecond, now, c.of, out), o, start.Add(now)).Burning[i].Fires
			}
			// The long window has limit of bad events after this time; the short one has them earlier.
			needs := time.Duration(limit * float64(b.Long) / c.share)
			if needs > c.lasts {
				if fires(c.lasts) {
					t.Errorf("%s, %v of %v %%: the pair of %v fires and needs %v", c.name, c.lasts, 100*c.share, b.Long, needs)
				}
				continue
			}
			if fires(needs-time.Second) || !fires(needs+time.Second) {
				t.Errorf("%s, %v of %v %%: the pair of %v does not begin after %v", c.name, c.lasts, 100*c.share, b.Long, needs)
			}
			// It ends when either window has fewer: the short one soon after the end, at the latest.
			left := time.Duration(limit * float64(b.Short) / c.share)
			ends := c.lasts + b.Short - left
			if !fires(ends-time.Second) || fires(ends+time.Second) {
				t.Errorf("%s, %v of %v %%: the pair of %v does not end after %v", c.name, c.lasts, 100*c.share, b.Long, ends)
			}
		}
	}
}

// An outage that does not begin and end with a slot ends its alert at most a slot later, and begins
// it in the same second.
func TestOutageInsideASlot(t *testing.T) {
	began := 100*time.Hour + 2*time.Minute
	out := outage{began, began + 4*time.Minute, 1}
	o, _ := Find(Availability)
	fires := func(after time.Duration) bool {
		now := began + after
		return Judge(played(100, now, Accept, out), o, start.Add(now)).Burning[0].Fires
	}
	if fires(23*time.Second) || !fires(26*time.Second) {
		t.Error("the page does not begin after 24 s")
	}
	if !fires(8*time.Minute) || fires(9*time.Minute+Slot) {
		t.Error("the page does not end within a slot of its window's end")
	}
}

func TestLowTraffic(t *testing.T) {
	at := 30 * time.Hour
	// 99 events in five minutes, all of them bad, are too few for the pair of an hour.
	h := played(0.33, at, Accept, outage{at - 10*time.Minute, at, 1})
	if got := burning(h, Availability, at); slices.Contains(got, "1h") {
		t.Errorf("%v burn", got)
	}
	h = played(0.34, at, Accept, outage{at - 10*time.Minute, at, 1})
	if got := burning(h, Availability, at); !slices.Contains(got, "1h") {
		t.Errorf("with enough events %v burn", got)
	}
	o, _ := Find(Availability)
	few := played(0.001, 10*time.Hour, Accept, outage{0, 10 * time.Hour, 1})
	if v := Judge(few, o, start.Add(10*time.Hour)); v.Judged || v.Broken() {
		t.Errorf("36 events are judged: %+v", v.Count)
	}
}

func TestBudget(t *testing.T) {
	o, _ := Find(Availability)
	if o.Time() != 20*time.Minute+9600*time.Millisecond {
		t.Errorf("the budget is %v and not 20.16 minutes", o.Time())
	}
	whole := Window
	for _, c := range []struct {
		out   outage
		says  string
		fires string
	}{
		{outage{}, "budget left 100 %, nothing of it was used", ""},
		// 5 m 50 s of 20.16 m are 29 %, ten days ago.
		{outage{whole - 240*time.Hour, whole - 240*time.Hour + 350*time.Second, 1},
			"budget left 71 %, nothing of it was used in the last day", ""},
		// 0.1 % of the last day is twice the budget's rate: 1/14 is used, and the rest lasts 13 days.
		{outage{whole - 24*time.Hour, whole, .001}, "budget left 92 %, at this rate until 30 December", ""},
		{outage{whole - 24*time.Hour, whole, .0001}, "budget left 99.28 %, at this rate it lasts", ""},
		{outage{whole - time.Hour, whole, 1}, "budget used up 3 times", "page"},
	} {
		h := played(100, whole, Accept, c.out)
		now := start.Add(whole)
		v := Judge(h, o, now)
		if got := v.Budget(now); got != c.says || v.Fires() != c.fires {
			t.Errorf("%+v: %q, fires %q; want %q, %q", c.out, got, v.Fires(), c.says, c.fires)
		}
	}
	fresh, _ := Find(Freshness) // a failure in a day with few events
	quiet, rare := NewHistory(), Hour{}
	rare.slots[0][Dispatch] = Count{Good: 10}
	for day := range Days {
		quiet.Set(start.AddDate(0, 0, day), rare)
	}
	rare.slots[0][Dispatch] = Count{Good: 19, Bad: 1}
	quiet.Set(start.Add(whole-3*time.Hour), rare)
	if v := Judge(quiet, fresh, start.Add(whole)); v.Budget(start.Add(whole)) != "budget left 66 %, too few events in the last day to say how long it lasts" {
		t.Errorf("a quiet day: %+v, %s", v.Count, v.Budget(start.Add(whole)))
	}
	none, _ := Find(NoLoss)
	h := NewHistory()
	hour := Hour{}
	hour.Add(start, Loss, true, 0)
	h.Set(start, hour)
	if v := Judge(h, none, start.Add(time.Minute)); v.Left != 1 || v.Broken() {
		t.Errorf("a balance: %+v", v)
	}
	hour.Add(start, Loss, false, 0)
	h.Set(start, hour)
	if v := Judge(h, none, start.Add(time.Minute)); v.Left != 0 || !v.Broken() {
		t.Errorf("one loss: %+v", v)
	}
}

func TestHoursAreStoredAsTheyAre(t *testing.T) {
	var h, back, sum Hour
	h.Add(start.Add(7*time.Minute), Accept, true, 3*time.Millisecond)
	h.Add(start.Add(59*time.Minute), Dispatch, false, 3*time.Second)
	h.Add(start.Add(59*time.Minute), Loss, true, 0)
	text, err := json.Marshal(h)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || back != h {
		t.Fatalf("%v: %s is read as another hour", err, text)
	}
	sum.Plus(&h)
	sum.Plus(&back)
	if sum.slots[11][Dispatch] != (Count{Bad: 2}) || sum.slots[1][Accept] != (Count{Good: 2}) {
		t.Errorf("the sum is %+v", sum.slots)
	}
	for _, bad := range []string{`{}`, `{"slots":[{}]}`, `[]`, strings.Replace(string(text), `"accept":[1,0]`, `"accept":[-1,0]`, 1),
		strings.Replace(string(text), `"latency":{"accept":{"`, `"latency":{"accept":{"9`, 1)} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is an hour", bad)
		}
	}
}

func TestDaysKnowWhatWasNotMeasured(t *testing.T) {
	h := played(1, 50*time.Hour, Ready, outage{25 * time.Hour, 25*time.Hour + 12*time.Minute, 1})
	delete(h.hours, hourOf(start.Add(30*time.Hour)))
	days := h.Daily(start.Add(50*time.Hour), []Indicator{Ready})
	last := days[len(days)-3:]
	if !days[Days-4].Before || last[0].Before || last[1].Slots != 3 || last[1].Gaps != PerHour || last[1].Bad != 720 || last[2].Gaps != 0 {
		t.Errorf("%+v", last)
	}
	h.Forget(start.Add(Window + 73*time.Hour))
	if len(h.hours) != 1 && len(h.hours) != 2 {
		t.Errorf("%d hours are left", len(h.hours))
	}
}

func TestWords(t *testing.T) {
	for share, want := range map[float64]string{1: "100 %", 0: "0 %", .9995: "99.95 %", .99999: "99.999 %", .999999: "99.999 %",
		.71: "71 %", .055: "5.5 %", .9321: "93 %", .0004: "0.04 %", .99499: "99.49 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v is %s and not %s", share, got, want)
		}
	}
}
