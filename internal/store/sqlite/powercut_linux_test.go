//go:build prove

package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

const cutInside = "GRAPNEL_TEST_POWER_CUT"

// TestPowerCuts records the system calls of a store at work, and makes images of its directory as
// the device may have it when the power is lost at any of them: of the unsynced writes none, all,
// or any part, torn at sectors, and names lost. A store must start on each, with all operations
// that were acknowledged before, whole batches only, and no outcome that was not recorded. Every
// second life begins in such an image, so that its recovery is cut off, too.
//
// The test is sharp: without the syncs of the journal's frames, or of the data, it finds losses.
func TestPowerCuts(t *testing.T) {
	if setting := os.Getenv(cutInside); setting != "" {
		var dir, ledger string
		var seed, steps uint64
		if _, err := fmt.Sscan(setting, &dir, &ledger, &seed, &steps); err != nil {
			t.Fatal(err)
		}
		cutWorks(t, filepath.Join(dir, "grapnel.db"), ledger, seed, steps)
		return
	}
	lives, images, sharp := uint64(2), 30, 15
	if slow() {
		images = 5
	}
	if os.Getenv("GRAPNEL_SOAK") != "" {
		lives, images = 100, 60
	}
	var found findings
	without := map[string]bool{".journal": false, ".data": false} // losses were found
	var before powerCut
	for seed := range lives {
		if seed%2 == 0 {
			before = powerCut{dir: t.TempDir()}
		}
		next := powerCut{dir: fast(t)}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			l := liveAndRecord(t, before, seed)
			for i, c := range l.cuts(t, images, nil) {
				if i == images/2 {
					next.deeds = c.deeds
					copyAll(t, c.dir, next.dir)
				}
				found.add(t, fmt.Sprint("image ", i), c.examine(t, cutBounds(seed)))
			}
			l.unsynced(t, sharp, without)
		})
		before = next
	}
	t.Logf("%d images, of which %d had acknowledged writes", found.images, found.told)
	if found.told < found.images/2 {
		t.Errorf("only %d of %d images had acknowledged writes", found.told, found.images)
	}
	// A short life may acknowledge little that only these syncs hold, so more lives are looked at.
	for seed := lives; seed < lives+10 && (!without[".journal"] || !without[".data"]); seed++ {
		liveAndRecord(t, powerCut{dir: t.TempDir()}, seed).unsynced(t, sharp, without)
	}
	for suffix, noticed := range without {
		if !noticed {
			t.Errorf("the test does not notice that %s is not synced", suffix)
		}
	}
}

// unsynced makes images as if a file's syncs did nothing, and notes the files for which it finds
// losses.
func (l *recordedLife) unsynced(t *testing.T, images int, found map[string]bool) {
	t.Helper()
	for suffix := range found {
		deaf := func(call, name string) bool { return call == "fdatasync" && strings.HasSuffix(name, suffix) }
		for _, c := range l.cuts(t, images, deaf) {
			found[suffix] = found[suffix] || len(c.examine(t, cutBounds(l.seed)).lost) > 0
		}
	}
}

// findings are the faults of images.
type findings struct {
	images, told         int
	refused, lost, wrong []string
}

func (f *findings) add(t *testing.T, at string, more findings) {
	t.Helper()
	f.images++
	f.told += more.told
	for _, all := range [][]string{more.refused, more.lost, more.wrong} {
		for _, each := range all[:min(len(all), 5)] {
			t.Errorf("%s: %s", at, each)
		}
	}
}

// powerCut is an image with the deeds before it.
type powerCut struct {
	dir   string
	deeds []deed
}

// recordedLife is a process that was recorded.
type recordedLife struct {
	begin       powerCut
	dir, ledger string
	seed        uint64
	calls       []call
}

func liveAndRecord(t *testing.T, begin powerCut, seed uint64) *recordedLife {
	t.Helper()
	l := &recordedLife{begin: begin, seed: seed, dir: fast(t), ledger: filepath.Join(fast(t), "ledger")}
	copyAll(t, begin.dir, l.dir)
	steps := 60
	if slow() {
		steps = 20
	}
	l.calls = traced(t, fmt.Sprintf("%s=%s %s %d %d", cutInside, l.dir, l.ledger, seed, steps))
	return l
}

func copyAll(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// cuts makes images at random calls. deaf says which syncs do nothing.
func (l *recordedLife) cuts(t *testing.T, images int, deaf func(call, name string) bool) (cuts []powerCut) {
	t.Helper()
	r := rand.New(rand.NewPCG(l.seed, 3))
	d := newDisk(t, l.dir, l.begin.dir, l.ledger)
	d.deaf = deaf
	var at []int
	for range images {
		at = append(at, r.IntN(len(l.calls)))
	}
	slices.Sort(at)
	for seq := range l.calls {
		if err := d.play(&l.calls[seq], seq); err != nil {
			t.Fatal(err)
		}
		for ; len(at) > 0 && at[0] == seq; at = at[1:] {
			c := powerCut{dir: fast(t), deeds: slices.Clone(l.begin.deeds)}
			for line := range bytes.Lines(d.lines.Bytes()) {
				var more deed
				if err := json.Unmarshal(line, &more); err != nil {
					t.Fatal(err)
				}
				c.deeds = append(c.deeds, more)
			}
			if err := d.image(r, c.dir); err != nil {
				t.Fatal(err)
			}
			cuts = append(cuts, c)
		}
	}
	return cuts
}

// examine starts a store on the image and compares it with the deeds.
func (c *powerCut) examine(t *testing.T, b Bounds) (f findings) {
	t.Helper()
	path := filepath.Join(c.dir, "grapnel.db")
	open := func(words string) *Store {
		s, err := Open(t.Context(), path, Options{Ballast: -1, Bounds: b})
		if err != nil {
			f.refused = append(f.refused, fmt.Sprintf("%s is refused: %v", words, err))
		}
		return s
	}
	s := open("the start")
	if s == nil {
		return f
	}
	e := c.expect()
	f.told = min(1, e.acknowledged)
	known := e.compare(t, s, &f)
	if len(f.lost) == 0 {
		f.wrong = append(f.wrong, disagreements(t, s)...)
		if n := numberIn(t, s, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); n > 0 {
			f.wrong = append(f.wrong, fmt.Sprintf("the integrity check finds %d errors", n))
		}
		e.goOn(t, s, known, &f)
	}
	if err := s.Close(); err != nil {
		f.wrong = append(f.wrong, err.Error())
	}
	if len(f.lost) > 0 {
		return f
	}
	if s = open("the second start"); s != nil {
		e.compare(t, s, &f)
		if err := s.Close(); err != nil {
			f.wrong = append(f.wrong, err.Error())
		}
	}
	return f
}

// expectation is the content that deeds leave.
type expectation struct {
	acknowledged int
	batches      map[string]*expectedBatch // by their first event
	of           map[string]*expectedBatch // by each event
	recorded     map[string]bool           // events: recording their deliveries has begun; true: it was acknowledged
	leases       map[string]string         // events by the tokens of granted leases
	settled      map[string]bool           // tokens: their settlement has begun; true: it was acknowledged
}

type expectedBatch struct {
	events             []string
	done, old, perhaps bool // it was acknowledged; will be purged; perhaps it was
}

func (c *powerCut) expect() *expectation {
	e := &expectation{batches: map[string]*expectedBatch{}, of: map[string]*expectedBatch{}, recorded: map[string]bool{},
		leases: map[string]string{}, settled: map[string]bool{}}
	purging := false
	for _, d := range c.deeds {
		if d.Done {
			e.acknowledged++
		}
		switch d.Kind {
		case deedAppend, deedOld:
			if !d.Done {
				e.begin(&expectedBatch{events: d.Events, old: d.Kind == deedOld, perhaps: purging && d.Kind == deedOld})
			}
			e.batches[d.Events[0]].done = d.Done
		case deedRecord:
			for _, id := range d.Events {
				e.recorded[id] = d.Done
			}
			for _, token := range d.Tokens {
				e.settled[token] = d.Done
			}
		case deedClaim:
			for i, token := range d.Tokens {
				e.leases[token] = d.Events[i]
			}
		case deedPurge:
			purging = !d.Done
			for _, b := range e.batches {
				b.perhaps = b.perhaps || b.old
			}
		}
	}
	return e
}

func (e *expectation) begin(b *expectedBatch) {
	e.batches[b.events[0]] = b
	for _, id := range b.events {
		e.of[id] = b
	}
}

// compare returns the events that are there.
func (e *expectation) compare(t *testing.T, s *Store, f *findings) map[string]*grapnel.Event {
	t.Helper()
	lost := func(format string, args ...any) { f.lost = append(f.lost, fmt.Sprintf(format, args...)) }
	wrong := func(format string, args ...any) { f.wrong = append(f.wrong, fmt.Sprintf(format, args...)) }
	all, err := s.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1 << 30})
	if err != nil {
		lost("the deliveries cannot be read: %v", err)
		return nil
	}
	slices.SortFunc(all, func(a, b grapnel.Delivery) int { return int(a.Seq - b.Seq) })
	var seqs []int64
	for _, d := range all {
		seqs = append(seqs, d.EventSeq)
	}
	events, err := s.Events(t.Context(), seqs)
	if err != nil {
		lost("the events cannot be read: %v", err)
		return nil
	}
	known, ofSeq, last := make(map[string]*grapnel.Event), make(map[int64]string), make(map[string]string)
	for i, d := range all {
		done, begun := e.recorded[d.EventID]
		switch b := e.of[d.EventID]; {
		case b == nil || known[d.EventID] != nil:
			wrong("event %s was never published, or is there twice", d.EventID)
			continue
		case events[i] == nil:
			lost("event %s is damaged", d.EventID)
			continue
		case !bytes.Equal(events[i].Data, cutData(d.EventID)):
			wrong("event %s has other data", d.EventID)
		case done && d.Status != grapnel.Delivered:
			lost("the outcome of %s was acknowledged, and it is %s", d.EventID, d.Status)
		case !begun && d.Status != grapnel.Pending:
			wrong("event %s is %s, and no outcome was recorded", d.EventID, d.Status)
		}
		if d.Key != "" && last[d.Key] >= d.EventID {
			wrong("event %s comes after %s in its lane", d.EventID, last[d.Key])
		}
		known[d.EventID], ofSeq[d.Seq], last[d.Key] = events[i], d.EventID, d.EventID
	}
	for _, b := range e.batches {
		n := 0
		for _, id := range b.events {
			if known[id] != nil {
				n++
			}
		}
		switch {
		case n == len(b.events) || b.perhaps:
		case b.done:
			lost("a batch of %d events was acknowledged, and has %d: %v", len(b.events), n, b.events)
		case n > 0:
			wrong("half a batch: %d of %v", n, b.events)
		}
	}
	for token, id := range e.leases {
		l, err := s.Lease(t.Context(), token)
		done, begun := e.settled[token]
		switch {
		case !begun && (err != nil || ofSeq[l.Delivery] != id):
			lost("lease %s of %s: %+v, %v", token, id, l, err)
		case done && grapnel.CodeOf(err) != grapnel.CodeNotFound:
			lost("lease %s was settled, and is there: %+v, %v", token, l, err)
		}
	}
	return known
}

// goOn repeats an event, and publishes new ones, which are expected from then on.
func (e *expectation) goOn(t *testing.T, s *Store, known map[string]*grapnel.Event, f *findings) {
	t.Helper()
	publish := func(events ...*grapnel.Event) []store.Placed {
		b := store.Batch{Config: 1}
		for _, one := range events {
			b.Events = append(b.Events, store.Incoming{Event: one, Targets: []store.Target{{Endpoint: "ep", Ordered: true}}})
		}
		done, err := s.Append(t.Context(), b)
		if err != nil {
			f.wrong = append(f.wrong, fmt.Sprintf("new events: %v", err))
			return make([]store.Placed, len(events))
		}
		return done.Events
	}
	for id, there := range known {
		other := *there
		other.Data = []byte("other")
		if is := publish(there, &other); !is[0].Duplicate || !is[1].Conflict {
			f.wrong = append(f.wrong, fmt.Sprintf("%s, repeated, and with other data: %+v", id, is))
		}
		break
	}
	after := &expectedBatch{done: true}
	var events []*grapnel.Event
	for i := range 5 {
		id := fmt.Sprint("evt_zzz_", i)
		after.events, events = append(after.events, id), append(events, cutEvent(id, "a.b", "after"))
	}
	e.begin(after)
	publish(events...)
}
