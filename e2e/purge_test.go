//go:build linux && prove

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Records older than their retention are purged, and the books balance exactly: the lists
// afterwards are those before without the purged rows, the totals are unchanged, and no file of the
// server contains the bytes of a purged record. No unfinished delivery is purged, nor its event,
// nor a row that a rule retains for longer. The long form kills the server as soon as it has begun
// to purge.
func TestPurgeKeepsTheBooks(t *testing.T) {
	beside(t, busy)
	events := 400
	if soak() {
		events = 5000
	}
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	p := &purged{t: t, child: c, marks: map[string]bool{}}
	p.fill(events)
	before := p.books()
	if code := c.terminate(40 * time.Second); code != 0 {
		t.Fatalf("after SIGTERM the exit code is %d", code)
	}
	if found := p.inFiles(); len(found) != len(p.marks) {
		t.Fatalf("before anything is removed %d of %d payloads are found in the files: looking for them shows nothing", len(found), len(p.marks))
	}

	c.program.flag = []string{"--retention", "1s", "--retention-rule", "type=keep.*,for=1h"}
	c.start()
	c.ready(30 * time.Second)
	if soak() {
		eventually(t, time.Minute, "it purges", func() bool { return c.metric("grapnel_purged_total") > 0 })
		c.kill()
		t.Logf("the kill comes when %d of %d payloads are there; %d have to stay", len(p.inFiles()), len(p.marks), p.kept)
		c.start()
		c.ready(30 * time.Second)
	}
	want := before.without(func(r listed) bool { return r.final() && !strings.HasPrefix(r.Type, "keep.") })
	gone := len(before.rows) - len(want)
	eventually(t, 2*time.Minute, "what is old is removed", func() bool { return len(p.books().rows) <= len(want) })
	// The bytes of the last page are erased after its rows. Events without a delivery may be the last.
	eventually(t, time.Minute, "the bytes of what was removed are gone", func() bool { return len(p.inFiles()) <= p.kept })

	after := p.books()
	for id, row := range want {
		if after.rows[id] != row {
			t.Errorf("%s was %+v and is %+v", id, row, after.rows[id])
		}
	}
	for id, row := range after.rows {
		if want[id] != row {
			t.Errorf("%s is still there, %s, %s", id, row.Type, row.Status)
		}
	}
	if !bytes.Equal(before.totals, after.totals) {
		t.Errorf("the totals were %s and are %s", before.totals, after.totals)
	}
	if sums := before.sums; sums.Delivered != before.count(grapnel.Delivered) || sums.Failed != before.count(grapnel.Failed) ||
		sums.Dropped != before.count(grapnel.Dropped) ||
		sums.Discarded != before.count(grapnel.Discarded) || sums.Skipped != before.count(grapnel.Skipped) {
		t.Errorf("the totals are %+v; listed are %v", sums, before.perStatus())
	}
	for _, status := range []grapnel.Status{grapnel.Delivered, grapnel.Failed, grapnel.Dropped, grapnel.Discarded, grapnel.Skipped,
		grapnel.Held, grapnel.Pending} {
		if before.count(status) == 0 {
			t.Errorf("nothing was %s: this test shows less than it says", status)
		}
	}
	if found := p.inFiles(); len(found) != p.kept {
		t.Errorf("%d payloads are found in the files, %d of them have to be there", len(found), p.kept)
	} else {
		for mark := range found {
			if !p.stays(mark) {
				t.Errorf("the files still have %s", mark)
			}
		}
	}
	if !soak() { // a kill resets the count of rows purged by the process before
		if n := c.metric("grapnel_purged_total"); n != float64(gone+p.unwanted) {
			t.Errorf("%v were removed; %d deliveries and %d events that had none had to be", n, gone, p.unwanted)
		}
	}
	if off := c.metric("grapnel_audit_imbalance"); off != 0 {
		t.Errorf("the books are off by %v", off)
	}
	c.must(http.StatusNotFound, http.MethodGet, "/v1/events/"+p.first, nil, nil)
	t.Logf("before %v; %d deliveries removed; after %v", before.perStatus(), gone, after.perStatus())

	// And the server goes on: pending deliveries are delivered, and new ones get new row ids.
	c.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+p.paused, map[string]any{"status": "enabled"}, nil)
	eventually(t, 30*time.Second, "what waited is delivered", func() bool { return p.books().count(grapnel.Held) == 0 })
}

// purged is a server with deliveries of every status. Each delivery has bytes that are in a file
// only if they were written there.
type purged struct {
	t        *testing.T
	child    *child
	marks    map[string]bool
	kept     int    // number of them that must stay
	unwanted int    // events without a delivery
	first    string // an event that must be purged
	paused   string // an endpoint at which deliveries are held
}

// mark is a text in the data of one event and nowhere else.
func mark(event string) string { return "<<" + event + ">>" }

func (p *purged) stays(mark string) bool {
	return strings.HasPrefix(mark, "<<wait-") || strings.HasPrefix(mark, "<<keep-") || strings.HasPrefix(mark, "<<late-")
}

// publish publishes events of a topic.
func (p *purged) publish(topic string, n int) {
	p.t.Helper()
	var all []newEvent
	for i := range n {
		e := newEvent{ID: fmt.Sprintf("%s-k%d-%d", topic, i%20, i/20+1), Type: topic + ".happened", Key: fmt.Sprintf("%s%d", topic, i%20)}
		e.Data = json.RawMessage(fmt.Sprintf(`{"mark":"%s","pad":"%s"}`, mark(e.ID), strings.Repeat("x", i%900)))
		all = append(all, e)
		p.marks[mark(e.ID)] = true
		if p.stays(mark(e.ID)) {
			p.kept++
		}
	}
	if err := p.child.publishMany(p.t.Context(), all); err != nil {
		p.t.Fatal(err)
	}
}

// fill lets deliveries end in every way there is, and leaves some unfinished.
func (p *purged) fill(events int) {
	p.t.Helper()
	c := p.child
	once := func(status int, more map[string]any) (s *site, id string) {
		policy, _ := inline(5*time.Second, 1, time.Second)
		maps.Copy(policy, more)
		s = newSite()
		s.turn(way{status: status})
		types := policy["types"]
		delete(policy, "types")
		id, _ = c.endpoint("http://"+newDoor(p.t, "127.0.16.1", s).addr+"/", map[string]any{"event_types": types, "policy": policy})
		return s, id
	}
	once(http.StatusOK, map[string]any{"types": []string{"book.*", "keep.*", "wait.*"}})
	refusing, failed := once(http.StatusBadRequest, map[string]any{"types": []string{"book.*"}})
	once(http.StatusServiceUnavailable, map[string]any{"types": []string{"book.*"}, "on_exhausted": "discard"})
	once(http.StatusServiceUnavailable, map[string]any{"types": []string{"late.*"}, "max_attempts": 2,
		"schedule": map[string]any{"mode": "since_previous", "delays": []string{"0s", "20m"}, "tail": "stop"}})
	_, p.paused = once(http.StatusOK, map[string]any{"types": []string{"wait.*", "skip.*"}})
	_, leaver := once(http.StatusOK, map[string]any{"types": []string{"drop.*"}})
	for _, id := range []string{p.paused, leaver} {
		c.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+id, map[string]any{"status": "paused"}, nil)
	}
	p.publish("book", events)
	p.publish("keep", events/10)
	p.publish("wait", events/10)
	p.publish("late", 20)
	p.publish("drop", events/10)
	p.publish("skip", 10)
	p.unwanted = 7
	p.publish("void", p.unwanted)
	p.first = "book-k0-1"
	c.must(http.StatusNoContent, http.MethodDelete, "/v1/endpoints/"+leaver, nil, nil)
	for _, r := range c.rows(url.Values{"endpoint": {p.paused}}) {
		if strings.HasPrefix(r.EventID, "skip-") {
			c.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+r.ID+"/skip", map[string]any{"reason": "not needed"}, nil)
		}
	}
	tries := 3*events + 2*(events/10) + 20 // before the replay
	eventually(p.t, 3*time.Minute, "what can be over is", func() bool {
		b := p.books()
		for _, r := range b.rows {
			if !r.final() && !p.stays("<<"+r.EventID) {
				return false
			}
		}
		return b.sums.Attempts >= tries
	})
	// A replay delivers some of the dead letters.
	refusing.turn(way{})
	var r replayOf
	c.must(http.StatusAccepted, http.MethodPost, "/v1/endpoints/"+failed+"/replay",
		map[string]any{"keys": []string{"book1", "book2"}, "rate": 1000}, &r)
	eventually(p.t, time.Minute, "the replay is over", func() bool { return c.replay(r.ID).Status.Final() })
	if got := c.replay(r.ID); got.Delivered != events/10 {
		p.t.Fatalf("the replay is %+v", got)
	}
}

// listed is a delivery as the list shows it.
type listed struct {
	ID            string         `json:"id"`
	Type          string         `json:"type"`
	EventID       string         `json:"event_id"`
	EndpointID    string         `json:"endpoint_id"`
	Sequence      int64          `json:"sequence"`
	Status        grapnel.Status `json:"status"`
	AttemptsMade  int            `json:"attempts_made"`
	NextAttemptAt string         `json:"next_attempt_at"`
	CreatedAt     string         `json:"created_at"`
	FinishedAt    string         `json:"finished_at"`
	ReplayOf      string         `json:"replay_of"`
	ReplayedAt    string         `json:"replayed_at"`
	ReplayResult  string         `json:"replay_result"`
}

func (r *listed) final() bool { return r.Status != grapnel.Held && r.Status != grapnel.Pending }

// books are all listed deliveries, and the totals over all time.
type books struct {
	rows   map[string]listed
	totals []byte
	sums   endedSums
}

func (p *purged) books() books {
	p.t.Helper()
	b := books{rows: map[string]listed{}}
	for _, r := range pages[listed](p.child, "/v1/deliveries", url.Values{}, math.MaxInt) {
		b.rows[r.ID] = r
	}
	var stats struct{ Totals json.RawMessage }
	p.child.must(http.StatusOK, http.MethodGet, "/v1/stats?bucket=day", nil, &stats)
	b.totals = stats.Totals
	if err := json.Unmarshal(stats.Totals, &b.sums); err != nil {
		p.t.Fatal(err)
	}
	return b
}

// without returns the deliveries for which f is false.
func (b books) without(f func(listed) bool) map[string]listed {
	left := maps.Clone(b.rows)
	maps.DeleteFunc(left, func(_ string, r listed) bool { return f(r) })
	return left
}

func (b books) count(status grapnel.Status) int { return b.perStatus()[status] }

func (b books) perStatus() map[grapnel.Status]int {
	n := map[grapnel.Status]int{}
	for _, r := range b.rows {
		n[r.Status]++
	}
	return n
}

// inFiles are the marks found in the server's files.
func (p *purged) inFiles() map[string]bool {
	p.t.Helper()
	found := map[string]bool{}
	names, err := filepath.Glob(filepath.Join(p.child.dir, "grapnel.db*"))
	if err != nil || len(names) == 0 {
		p.t.Fatal("no files", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			p.t.Fatal(err)
		}
		for {
			at := bytes.Index(text, []byte("<<"))
			if at < 0 {
				break
			}
			text = text[at:]
			if end := bytes.Index(text[:min(len(text), 64)], []byte(">>")); end > 0 && p.marks[string(text[:end+2])] {
				found[string(text[:end+2])] = true
			}
			text = text[2:]
		}
	}
	return found
}

// metric is the value of a metric without labels.
func (c *child) metric(name string) float64 {
	c.t.Helper()
	status, body, err := c.call(c.t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil || status != http.StatusOK {
		c.t.Fatalf("the metrics: %d, %v", status, err)
	}
	lines := strings.Split(string(body), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, name+" ") })
	if at < 0 {
		c.t.Fatalf("there is no metric %s", name)
	}
	value, err := strconv.ParseFloat(strings.TrimPrefix(lines[at], name+" "), 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return value
}
