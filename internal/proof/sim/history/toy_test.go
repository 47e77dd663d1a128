package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// bug is a kind of mistake that the toy system can make.
type bug int

const (
	sound           bug = iota
	losesDelivery       // an accepted event never becomes a delivery
	sendsRefused        // an event is sent although its publishing was refused
	sendsToOthers       // an event is sent to an endpoint that it does not match
	changesBytes        // one receipt has other data
	changesEnvelope     // the body changes between two attempts
	badSignature        //
	getsStuck           // a delivery stays pending
	claimsSuccess       // delivered without a 2xx
	givesUpEarly        // exhausted below the limit
	overtakes           // a failed delivery does not hold its lane
	regresses           // an old event is sent again after a newer one
	repeats             // an event is sent again after its 2xx
	repeatsTwice        // one crash repeats an event twice
	sendsInParallel     // two requests of a lane in flight
	ignoresDelete       // the deliveries continue after the delete was acknowledged
	retriesEarly        // shorter waits than configured
	forgetsAttempts     // fewer attempts recorded than sent
	deliversTwice       // two deliveries for one event and endpoint
	swapsPositions      // positions against the order of the commits
	skipsPosition       // a hole in a lane
	miscounts           // the counts in a sample are off by one
	skipsAlone          // skipped without an operator
	drops               // dropped without an operator
	forgetsReplay       // the delivery created by a retry is missing
	inventsReplay       // a replay without an order
	bugs            = iota
	toyDelay        = time.Second
	toyCommit       = 5 * time.Millisecond
	toyMost         = 4 // attempts
)

// caughtAs says which rule must catch each bug.
var caughtAs = map[bug]Rule{losesDelivery: Lost, sendsRefused: Phantom, sendsToOthers: Phantom, changesBytes: Corrupt,
	changesEnvelope: Corrupt, badSignature: Signature, getsStuck: Stuck, claimsSuccess: FalseSuccess, givesUpEarly: EarlyDead,
	overtakes: FIFO, regresses: Regress, repeats: Dup, repeatsTwice: Dup, sendsInParallel: Overlap, ignoresDelete: AfterDelete,
	retriesEarly: Schedule, forgetsAttempts: Conserve, deliversTwice: Conserve, swapsPositions: FIFO, skipsPosition: Conserve,
	miscounts: Conserve, skipsAlone: Lost, drops: Lost, forgetsReplay: Lost, inventsReplay: Conserve}

// toy is a small system with publishers, flaky endpoints, crashes and operators. It writes its own
// history and knows whether its bug came into effect.
type toy struct {
	*rand.Rand
	bug       bug
	manifest  bool
	h         History
	committed []toyEvent
	flaky     map[string]int // percent of attempts that fail
	deleted   map[string]time.Duration
	crashes   []Fault
	next      int // delivery number
}

type toyEvent struct {
	id, key   string
	at        time.Duration // of the commit
	ok        bool
	invoke    time.Duration
	returned  time.Duration
	endpoints []string
}

func run(seed uint64, b bug) *toy {
	t := &toy{Rand: rand.New(rand.NewPCG(seed, 7)), bug: b, flaky: map[string]int{}, deleted: map[string]time.Duration{}}
	t.h.Limits = Limits{Commit: toyCommit}
	for i := range 1 + t.IntN(3) {
		name := fmt.Sprintf("ep%d", i)
		t.flaky[name] = []int{0, 20, 60, 95}[t.IntN(4)]
		t.h.Endpoints = append(t.h.Endpoints, Endpoint{ID: name, Unordered: t.IntN(5) == 0, MaxAttempts: toyMost, Permanent: []int{400},
			Delays: []time.Duration{toyDelay, 2 * toyDelay}})
	}
	for range t.IntN(5) {
		at := t.upTo(20 * time.Second)
		t.crashes = append(t.crashes, Fault{Kind: Crash, Start: at, End: at + t.upTo(300*time.Millisecond)})
	}
	slices.SortFunc(t.crashes, func(a, b Fault) int { return int(a.Start - b.Start) })
	t.h.Faults = append(slices.Clone(t.crashes), Fault{Kind: CleanStop, Start: 0, End: time.Hour})
	if last := t.h.Endpoints[len(t.h.Endpoints)-1].ID; t.IntN(3) == 0 {
		at := t.upTo(20 * time.Second)
		t.deleted[last] = at
		t.h.Actions = append(t.h.Actions, Action{Kind: Delete, Endpoint: last, Invoke: at - time.Millisecond, Return: at})
	}
	for p := range 1 + t.IntN(3) {
		t.publish(p)
	}
	slices.SortFunc(t.committed, func(a, b toyEvent) int { return int(a.at - b.at) })
	for i := range t.h.Endpoints {
		t.deliver(&t.h.Endpoints[i])
	}
	t.operate()
	t.sample()
	t.Shuffle(len(t.h.Receipts), func(i, j int) { t.h.Receipts[i], t.h.Receipts[j] = t.h.Receipts[j], t.h.Receipts[i] })
	return t
}

func (t *toy) upTo(d time.Duration) time.Duration { return time.Duration(t.Int64N(int64(d))) }

// once says whether the bug shall occur here, and remembers that it did.
func (t *toy) once(b bug, possible bool) bool {
	if t.bug != b || t.manifest || !possible || t.IntN(3) == 0 {
		return false
	}
	t.manifest = true
	return true
}

func (t *toy) publish(publisher int) {
	now := t.upTo(time.Second)
	for i := range 3 + t.IntN(20) {
		e := toyEvent{id: fmt.Sprintf("evt_%d_%d", publisher, i)}
		if t.IntN(4) > 0 {
			e.key = fmt.Sprintf("k%d", t.IntN(3))
		}
		var perhaps []string
		call := now + time.Millisecond + t.upTo(10*time.Millisecond)
		e.invoke, e.at = call, call+1+t.upTo(20*time.Millisecond)
		e.returned = e.at + 1 + t.upTo(20*time.Millisecond)
		for _, ep := range t.h.Endpoints {
			gone, deleted := t.deleted[ep.ID]
			switch {
			case t.IntN(6) == 0: // its filter does not match
			case !deleted || e.returned < gone-time.Millisecond:
				e.endpoints = append(e.endpoints, ep.ID)
			case e.invoke <= gone:
				perhaps = append(perhaps, ep.ID)
			}
		}
		p := Publish{ID: e.id, Key: e.key, Hash: "#" + e.id, Invoke: call, Return: e.returned, Endpoints: e.endpoints, Perhaps: perhaps}
		switch r := t.IntN(10); {
		case r == 0: // refused
			p.Result = Failed
			t.h.Publishes = append(t.h.Publishes, p)
			if t.once(sendsRefused, len(e.endpoints) > 0) {
				t.committed = append(t.committed, e)
			}
		case r == 1: // unknown, and without effect; maybe repeated
			p.Result, p.Return = Unknown, 0
			t.h.Publishes = append(t.h.Publishes, p)
			if t.IntN(2) == 0 {
				p.Result, p.Invoke, p.Return = OK, e.returned+5*time.Millisecond, e.returned+time.Second
				e.at, e.ok, e.returned = e.returned+20*time.Millisecond, true, p.Return
				p.Endpoints = slices.DeleteFunc(slices.Clone(p.Endpoints), func(ep string) bool {
					_, deleted := t.deleted[ep]
					return deleted
				})
				e.endpoints = p.Endpoints
				t.h.Publishes = append(t.h.Publishes, p)
				t.committed = append(t.committed, e)
			}
		case r == 2: // unknown, and with effect
			p.Result, p.Return = Unknown, 0
			t.h.Publishes = append(t.h.Publishes, p)
			t.committed = append(t.committed, e)
		default:
			e.ok = true
			t.h.Publishes = append(t.h.Publishes, p)
			if !t.once(losesDelivery, len(e.endpoints) > 0) {
				t.committed = append(t.committed, e)
			}
		}
		now = max(e.returned, p.Return)
	}
}

// toyLane is a lane of the toy: one delivery is attempted at a time.
type toyLane struct {
	free     time.Duration // when the next attempt may start
	position int64
	last     *toyDone
}

type toyDone struct {
	event toyEvent
	final int
	end   time.Duration
}

func (t *toy) deliver(ep *Endpoint) {
	lanes := map[string]*toyLane{}
	for _, e := range t.committed {
		if !slices.Contains(e.endpoints, ep.ID) && !t.once(sendsToOthers, t.deleted[ep.ID] == 0) {
			continue
		}
		l := &toyLane{}
		if e.key != "" && !ep.Unordered {
			if lanes[e.key] == nil {
				lanes[e.key] = l
			}
			l = lanes[e.key]
			l.position++
			if t.once(skipsPosition, l.position > 1) {
				l.position++
			}
		}
		t.one(ep, e, l)
	}
}

// one delivers one event, from its first attempt to its end.
func (t *toy) one(ep *Endpoint, e toyEvent, l *toyLane) {
	t.next++
	id := fmt.Sprintf("dlv_%d", t.next)
	f := Final{Delivery: id, Event: e.id, Endpoint: ep.ID, Position: l.position, Status: grapnel.Pending}
	inLane := l.position > 0
	now := max(e.at, l.free) + t.upTo(30*time.Millisecond)
	gone, deleted := t.deleted[ep.ID]
	switch {
	case t.once(getsStuck, !deleted):
		t.end(f, l, e, now, nil)
		return
	case t.once(claimsSuccess, true):
		f.Status, f.Attempts = grapnel.Delivered, 1
		t.end(f, l, e, now, nil)
		return
	case t.once(skipsAlone, true):
		f.Status = grapnel.Skipped
		t.end(f, l, e, now, nil)
		return
	case t.once(drops, !deleted):
		f.Status = grapnel.Dropped
		t.end(f, l, e, now, nil)
		return
	}
	overtaken := false
	var sent []int
	for !f.Status.Final() {
		for down := t.crashed(now, now); down != nil; down = t.crashed(now, now) {
			now = down.End + 1 + t.upTo(50*time.Millisecond)
		}
		if deleted && now > gone && !t.once(ignoresDelete, true) {
			f.Status = grapnel.Dropped
			break
		}
		r := Receipt{Event: e.id, Endpoint: ep.ID, Delivery: id, Position: l.position, Hash: "#" + e.id, Body: "body of " + e.id,
			Start: now, End: now + time.Millisecond + t.upTo(100*time.Millisecond), Status: 200, Attempt: f.Attempts + 1,
			Trigger: grapnel.TriggerSchedule}
		if t.IntN(100) < t.flaky[ep.ID] {
			r.Status = []int{503, 500, 400, 0}[t.IntN(4)]
		}
		if r.Status == 200 && t.IntN(20) == 0 {
			r.AnswerLost = true
		}
		if t.once(changesBytes, true) {
			r.Hash = "#other"
		}
		if t.once(changesEnvelope, len(sent) > 0) {
			r.Body = "another body"
		}
		r.BadSignature = t.once(badSignature, true)
		t.h.Receipts = append(t.h.Receipts, r)
		sent = append(sent, len(t.h.Receipts)-1)
		if t.once(sendsInParallel, r.End-r.Start > 1) {
			r.Start++
			t.h.Receipts = append(t.h.Receipts, r)
		}
		if crash := t.crashed(r.Start, r.End+toyCommit); crash != nil {
			now = max(r.End, crash.End) + t.upTo(50*time.Millisecond)
			if r.Status == 200 && !r.AnswerLost && t.bug == repeatsTwice && !t.manifest && t.crashed(now, now+time.Second) == nil {
				t.manifest = true
				for range 2 {
					r.Start, r.End = now, now+time.Millisecond
					t.h.Receipts = append(t.h.Receipts, r)
					now += 10 * time.Millisecond
				}
			}
			continue // the outcome is forgotten
		}
		f.Attempts++
		now = r.End + toyCommit
		switch {
		case r.success() && !r.AnswerLost:
			f.Status = grapnel.Delivered
			if t.once(repeats, true) {
				r.Start, r.End = now, now+time.Millisecond
				t.h.Receipts = append(t.h.Receipts, r)
				now = r.End
			}
		case r.Status == 400:
			f.Status, f.ReasonCode = grapnel.Failed, grapnel.ReasonPermanent
		case f.Attempts == toyMost || t.once(givesUpEarly, true):
			f.Status, f.ReasonCode = grapnel.Failed, grapnel.ReasonExhausted
		default:
			if inLane && t.bug == overtakes && !overtaken {
				l.free, overtaken = now, true
			}
			wait := ep.Delays[min(f.Attempts-1, len(ep.Delays)-1)]
			jitter := t.upTo(wait / 5)
			if t.once(retriesEarly, t.crashed(now, now+wait) == nil) {
				jitter = -50 * time.Millisecond
			}
			now += wait + jitter
		}
	}
	if t.once(forgetsAttempts, f.Attempts > 1 && f.ReasonCode != grapnel.ReasonExhausted && !t.nearCrash(sent)) {
		f.Attempts--
	}
	if t.once(deliversTwice, !deleted) {
		g := f
		g.Delivery, g.Position = id+"b", 0
		t.h.Finals = append(t.h.Finals, g)
	}
	if overtaken {
		now = l.free
	}
	t.end(f, l, e, now, sent)
}

// end finishes a delivery and starts the next of its lane, unless the bug concerns two neighbours
// in a lane.
func (t *toy) end(f Final, l *toyLane, e toyEvent, now time.Duration, sent []int) {
	t.h.Finals = append(t.h.Finals, f)
	l.free = now
	this := &toyDone{event: e, final: len(t.h.Finals) - 1, end: now}
	if before := l.last; f.Position > 0 && before != nil && len(sent) > 0 && before.event.ok && before.event.returned < e.invoke {
		older := &t.h.Finals[before.final]
		if t.once(regresses, older.Status != grapnel.Dropped) {
			t.h.Receipts = append(t.h.Receipts, Receipt{Event: older.Event, Endpoint: older.Endpoint, Delivery: older.Delivery,
				Position: older.Position, Hash: "#" + older.Event, Start: now, End: now + 1, Status: 200, Trigger: grapnel.TriggerSchedule})
			l.free++
		}
		if t.once(swapsPositions, true) {
			newer := &t.h.Finals[this.final]
			older.Position, newer.Position = newer.Position, older.Position
			for i := range t.h.Receipts {
				switch r := &t.h.Receipts[i]; r.Delivery {
				case older.Delivery:
					r.Position = older.Position
				case newer.Delivery:
					r.Position = newer.Position
				}
			}
		}
		if t.bug == overtakes && firstOf(t.h.Receipts, f.Delivery) < lastOf(t.h.Receipts, older.Delivery) {
			t.manifest = true
		}
	}
	l.last = this
}

func (t *toy) crashed(from, to time.Duration) *Fault {
	for i := range t.crashes {
		if t.crashes[i].overlaps(from, to) {
			return &t.crashes[i]
		}
	}
	return nil
}

func (t *toy) nearCrash(sent []int) bool {
	return slices.ContainsFunc(sent, func(i int) bool {
		return t.crashed(t.h.Receipts[i].Start, t.h.Receipts[i].End+toyCommit) != nil
	})
}

// operate retries and skips some deliveries of unordered events at the end.
func (t *toy) operate() {
	for _, f := range slices.Clone(t.h.Finals) {
		if f.Position > 0 || t.deleted[f.Endpoint] > 0 || f.Status != grapnel.Failed {
			continue
		}
		again := Final{Delivery: f.Delivery + "r", Event: f.Event, Endpoint: f.Endpoint, ReplayOf: f.Delivery, Status: grapnel.Delivered,
			Attempts: 1}
		retry := Action{Kind: Retry, Endpoint: f.Endpoint, Delivery: f.Delivery, Invoke: time.Hour, Return: time.Hour + 1, Made: again.Delivery}
		if !t.once(inventsReplay, true) {
			t.h.Actions = append(t.h.Actions, retry)
		}
		if t.once(forgetsReplay, true) {
			continue
		}
		t.h.Finals = append(t.h.Finals, again)
		t.h.Receipts = append(t.h.Receipts, Receipt{Event: f.Event, Endpoint: f.Endpoint, Delivery: again.Delivery, Hash: "#" + f.Event,
			Start: time.Hour, End: time.Hour + 1, Status: 204, Attempt: 1, Trigger: grapnel.TriggerReplay})
	}
}

// sample counts at the very end, when no publisher is active.
func (t *toy) sample() {
	for _, ep := range t.h.Endpoints {
		s := Sample{At: 2 * time.Hour, Endpoint: ep.ID, Counts: map[grapnel.Status]int64{}}
		for _, f := range t.h.Finals {
			if f.Endpoint == ep.ID {
				s.Counts[f.Status]++
			}
		}
		if t.once(miscounts, t.deleted[ep.ID] == 0) {
			for _, p := range t.h.Publishes { // each of these may or may not have been committed
				if p.Result == Unknown {
					s.Counts[grapnel.Delivered]--
				}
			}
			s.Counts[grapnel.Delivered]--
		}
		t.h.Samples = append(t.h.Samples, s)
	}
}

func firstOf(all []Receipt, delivery string) time.Duration {
	first := never
	for _, r := range all {
		if r.Delivery == delivery {
			first = min(first, r.Start)
		}
	}
	return first
}

func lastOf(all []Receipt, delivery string) time.Duration {
	last := time.Duration(0)
	for _, r := range all {
		if r.Delivery == delivery {
			last = max(last, r.Start)
		}
	}
	return last
}
