//go:build linux && prove

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// doubter refuses every event for good the first time and accepts replayed ones. So every event
// published for it becomes a dead letter, and each one it accepts came from a replay.
type doubter struct {
	refused, taken *site
	answered       chan struct{} // gets a token after each accepted event, if a test reads them
}

func newDoubter() *doubter {
	d := &doubter{refused: newSite(), taken: newSite(), answered: make(chan struct{})}
	d.refused.turn(way{status: http.StatusBadRequest})
	d.taken.turn(way{after: 5 * time.Millisecond})
	return d
}

func (d *doubter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("grapnel-trigger") == string(grapnel.TriggerReplay) {
		d.taken.ServeHTTP(w, r)
		_ = http.NewResponseController(w).Flush()
		select {
		case d.answered <- struct{}{}:
		default:
		}
		return
	}
	d.refused.ServeHTTP(w, r)
}

// replayOf is a replay as the API shows it.
type replayOf struct {
	ID        string               `json:"id"`
	Status    grapnel.ReplayStatus `json:"status"`
	Total     int                  `json:"total"`
	Made      int                  `json:"made"`
	Done      int                  `json:"done"`
	Delivered int                  `json:"delivered"`
	Failed    int                  `json:"failed"`
}

func (c *child) replay(id string) (r replayOf) {
	c.t.Helper()
	c.must(http.StatusOK, http.MethodGet, "/v1/replays/"+id, nil, &r)
	return r
}

// steer pauses or resumes a replay.
func (c *child) steer(id, verb string) {
	c.t.Helper()
	c.must(http.StatusOK, http.MethodPost, "/v1/replays/"+id+"/"+verb, nil, nil)
}

// endpointTotals are the totals of an endpoint's deliveries over all time.
func (c *child) endpointTotals(id string) (sums endedSums) {
	c.t.Helper()
	var answer struct {
		Totals endedSums `json:"totals"`
	}
	c.must(http.StatusOK, http.MethodGet, "/v1/endpoints/"+id+"/stats?bucket=day", nil, &answer)
	return answer.Totals
}

// endedSums are the totals of finished deliveries.
type endedSums struct {
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
	Dropped   int `json:"dropped"`
	Discarded int `json:"discarded"`
	Skipped   int `json:"skipped"`
	Attempts  int `json:"attempts"`
}

// Thousands of dead letters over hundreds of keys are replayed while other publishers work, and the
// server is killed repeatedly meanwhile. Each dead letter gets exactly one new delivery, in the
// order of its key; only deliveries cut off by a kill arrive twice. Other traffic is unaffected:
// the p99 in windows with the replay running is within 1.2 times of that in windows with the replay
// paused.
func TestReplayThroughKills(t *testing.T) {
	beside(t, busy)
	const rate = 100 // the default
	letters, keys, kills, perSecond := 1500, 75, 3, 200
	least, most, quantile, length := 3, 5, 75, time.Second
	if soak() {
		letters, keys, kills, perSecond = 10_000, 500, 5, 800
		least, most, quantile, length = 9, 15, 50, 5*time.Second
	}
	dice := newDice(t)
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	receiver := newDoubter()
	policy, _ := inline(5*time.Second, 3, time.Second)
	endpoint, _ := c.endpoint("http://"+newDoor(t, "127.0.14.1", receiver).addr+"/",
		map[string]any{"event_types": []string{"dead.*"}, "policy": policy})
	if err := c.publishMany(t.Context(), numbered("dead", "k", keys, 1, letters/keys)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "everything is a dead letter", func() bool { return c.endpointTotals(endpoint).Failed == letters })
	b := newBeat(t, c, "127.0.15", 5, perSecond)
	b.window(length, b.sites) // warms up

	// A caller that gets no answer asks again.
	var r, again replayOf
	c.once(t.Name(), "/v1/endpoints/"+endpoint+"/replay", map[string]any{"rate": rate}, &r)
	c.once(t.Name(), "/v1/endpoints/"+endpoint+"/replay", map[string]any{"rate": rate}, &again)
	if r.Total != letters || again.ID != r.ID {
		t.Errorf("the replay is about %d of %d dead letters; asked for again it is %s, not %s", r.Total, letters, again.ID, r.ID)
	}
	killed := 0
	fell := func() {
		receiver.awaits(t, dice.n(60)+5)
		pause(t.Context(), dice.between(0, time.Millisecond)+1) // between the answer and its record, or a little later
		c.kill()
		c.start()
		if dice.percent(30) { // once more, during the recovery
			pause(t.Context(), dice.between(time.Millisecond, 150*time.Millisecond))
			c.kill()
			c.start()
			killed++
		}
		c.ready(30 * time.Second)
		killed++
		b.window(length/2, b.sites)
	}
	var lagWithout, lagWith []time.Duration
	made := 0 // in the windows in which the replay runs
	ratio, without, with := inTurn(least, most, quantile, 1.2, func() (a, z time.Duration) {
		c.steer(r.ID, "pause")
		eventually(t, 30*time.Second, "what the replay has made is over", func() bool { p := c.replay(r.ID); return p.Done == p.Made })
		before := c.replay(r.ID)
		a, lag := b.window(length, b.sites)
		lagWithout = append(lagWithout, lag)
		if now := c.replay(r.ID); now.Made != before.Made {
			t.Errorf("%d deliveries were made while the replay was paused", now.Made-before.Made)
		}
		c.steer(r.ID, "resume")
		z, lag = b.window(length, b.sites)
		lagWith = append(lagWith, lag)
		after := c.replay(r.ID)
		made += after.Made - before.Made
		if after.Status != grapnel.ReplayRunning {
			t.Fatalf("the replay is %s before its time: this test shows nothing", after.Status)
		}
		if killed < kills {
			fell()
		}
		return a, z
	})
	for killed < kills {
		fell()
	}
	if p := c.replay(r.ID); p.Status != grapnel.ReplayRunning {
		t.Errorf("at the last kill the replay is %s: this test shows less than it says", p.Status)
	}
	eventually(t, 5*time.Minute, "the replay is over", func() bool { return c.replay(r.ID).Status.Final() })
	twice := receiver.judge(t, c, endpoint, r.ID, letters, keys, killed)
	t.Logf("%d dead letters over %d keys, %d kills, %d events arrived twice; at %d events/s, %d pairs of windows of %v: p99 from acceptance to arrival %v "+
		"while the replay was paused and %v while it made %.0f/s, ratio %.2f (to the %d. percentile: %.2f); from when they should have been published %v and %v",
		letters, keys, killed, twice, perSecond, len(with), length, median(without), median(with),
		float64(made)/(length.Seconds()*float64(len(with))),
		float64(median(with))/float64(median(without)), quantile, ratio, median(lagWithout), median(lagWith))
	if soak() && ratio > 1.2 {
		t.Errorf("the p99 of the others is %.2f times what it is without the replay: %v against %v", ratio, with, without)
	}
}

// awaits waits until the receiver has accepted the given number of further events of the replay.
func (d *doubter) awaits(t *testing.T, more int) {
	t.Helper()
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	for range more {
		select {
		case <-d.answered:
		case <-timer.C:
			t.Fatal("the replay does not go on")
		}
	}
}

// judge compares what the receiver got, and what the server says, with the promises of a replay. It
// returns the number of events that came twice.
func (d *doubter) judge(t *testing.T, c *child, endpoint, id string, letters, keys, kills int) (twice int) {
	t.Helper()
	if p := c.replay(id); p.Status != grapnel.ReplayCompleted || p.Made != letters || p.Done != letters || p.Delivered != letters ||
		p.Failed != 0 {
		t.Errorf("in the end the replay is %+v", p)
	}
	originals, copies := map[string]bool{}, map[string]row{}
	for _, made := range c.rows(url.Values{"endpoint": {endpoint}}) {
		switch {
		case made.ReplayOf == "" && made.Status == grapnel.Failed:
			originals[made.ID] = true
		case made.ReplayOf == "":
			t.Errorf("the original %s is %s", made.ID, made.Status)
		case copies[made.ReplayOf].ID != "":
			t.Errorf("of %s both %s and %s were made", made.ReplayOf, copies[made.ReplayOf].ID, made.ID)
		case made.Status != grapnel.Delivered:
			t.Errorf("the new delivery %s is %s", made.ID, made.Status)
		default:
			copies[made.ReplayOf] = made
		}
	}
	for original := range originals {
		if copies[original].ID == "" {
			t.Errorf("%s was skipped", original)
		}
	}
	if len(originals) != letters || len(copies) != letters {
		t.Errorf("there are %d dead letters and %d new deliveries; %d were published", len(originals), len(copies), letters)
	}
	items := map[string]string{}
	for _, i := range c.items(id) {
		items[i.Original] = i.Delivery
		if i.Status != grapnel.Delivered || copies[i.Original].ID != i.Delivery {
			t.Errorf("the replay says that it made %s of %s, which is %s; the list of deliveries has %s", i.Delivery, i.Original, i.Status,
				copies[i.Original].ID)
		}
	}
	if len(items) != letters {
		t.Errorf("the replay lists %d deliveries", len(items))
	}
	if n := d.taken.taken(); n != letters {
		t.Errorf("%d of %d events arrived", n, letters)
	}
	most := kills * min(keys, 64) // the replay's own limit of deliveries in flight
	for _, wrong := range d.taken.disorder(most) {
		t.Error(wrong)
	}
	if sums := c.endpointTotals(endpoint); sums.Failed != letters || sums.Delivered != letters {
		t.Errorf("the totals are %+v", sums)
	}
	return len(d.taken.seen(0)) - letters
}

// item is one line of a replay's report.
type item struct {
	Original string         `json:"original_id"`
	Delivery string         `json:"delivery_id"`
	Status   grapnel.Status `json:"status"`
}

// items reads a replay's whole report.
func (c *child) items(id string) []item {
	return pages[item](c, "/v1/replays/"+id+"/items", url.Values{}, math.MaxInt)
}

// once makes a call that takes effect once however often it is repeated under the same name, and
// decodes its answer.
func (c *child) once(name, path string, in, out any) {
	c.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+c.addr+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", name)
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 == 2 {
		err = json.Unmarshal(answer, out)
	}
	if err != nil || resp.StatusCode/100 != 2 {
		c.t.Fatalf("POST %s: answered %d, %v: %s", path, resp.StatusCode, err, answer)
	}
}
