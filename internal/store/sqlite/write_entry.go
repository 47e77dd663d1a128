package sqlite

import (
	"fmt"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// entry is an operation that the journal can hold. Applied again to the same tables it has the same
// effect, because apply depends on nothing but the tables and these fields: no clock, no chance, no
// memory that is not in the tables.
type entry interface {
	operation
	// kind is the number that stands before the entry in the journal. An operation whose fields
	// change gets another number; the former one must be readable until no journal has it any more.
	// The bytes of each kind are frozen in testdata/entries.txt.
	kind() int
	// flow writes or reads all fields that apply uses.
	flow(*codec.Flow)
}

func (*appending) kind() int   { return 1 }
func (*recording) kind() int   { return 2 }
func (*claiming) kind() int    { return 3 }
func (*extending) kind() int   { return 4 }
func (*makingDue) kind() int   { return 5 }
func (*documenting) kind() int { return 6 }
func (*answering) kind() int   { return 7 }

// anew makes an empty entry of a kind, or nil.
func anew(kind int) entry {
	for _, e := range []entry{new(appending), new(recording), new(claiming), new(extending), new(makingDue), new(documenting),
		&answering{recording: new(recording)}} {
		if e.kind() == kind {
			return e
		}
	}
	return nil
}

// writeEntry writes the entry of an operation. false: the journal can not hold it.
func writeEntry(f *codec.Flow, o operation) bool {
	e, is := o.(entry)
	if !is {
		return false
	}
	kind := e.kind()
	codec.Number(f, &kind)
	e.flow(f)
	return true
}

// replay applies the entries of a frame again.
func (t *tx) replay(frame []byte) error {
	f := codec.From(frame)
	var event, delivery, until int64
	codec.Number(f, &event)
	codec.Number(f, &delivery)
	codec.Number(f, &until)
	t.data.reaches(until)
	t.events.repeat(event)
	t.deliveries.repeat(delivery)
	for f.More() {
		kind := 0
		codec.Number(f, &kind)
		e := anew(kind)
		if e == nil {
			return fmt.Errorf("%w: it has an entry of kind %d, which this program does not know", errReplay, kind)
		}
		if e.flow(f); f.Bad() {
			break
		}
		if err := t.do(e); err != nil {
			return fmt.Errorf("%w: %w", errReplay, err)
		}
	}
	if err := f.End(); err != nil {
		return fmt.Errorf("%w: %w", errReplay, err)
	}
	return nil
}

func (o *appending) flow(f *codec.Flow) {
	codec.Maybe(f, &o.batch, (*batch).flow)
	codec.Maybe(f, &o.once, flowOnce)
	if o.once == nil {
		return
	}
	codec.Number(f, &o.made.Status)
	codec.Blob(f, &o.made.Body)
	if f.Reads() {
		o.once.Answer = func(any) store.Answer { return o.made }
	}
}

func flowOnce(o *store.Once, f *codec.Flow) {
	codec.Text(f, &o.Key)
	codec.Fixed(f, o.Fingerprint[:])
	codec.Time(f, &o.Expires)
	codec.Time(f, &o.Now)
}

func (b *batch) flow(f *codec.Flow) {
	codec.Number(f, &b.config)
	codec.Many(f, &b.events, (*incoming).flow)
}

func (e *incoming) flow(f *codec.Flow) {
	codec.Text(f, &e.ID)
	codec.Text(f, &e.Tenant)
	codec.Text(f, &e.Type)
	codec.Text(f, &e.Key)
	codec.Text(f, &e.ContentType)
	codec.Text(f, &e.Source)
	codec.Time(f, &e.OccurredAt)
	codec.Time(f, &e.AcceptedAt)
	codec.Blob(f, &e.frozen.Data)
	codec.Number(f, &e.frozen.Packed)
	codec.Blob(f, &e.frozen.Metadata)
	codec.Blob(f, &e.frozen.Intake)
	codec.Number(f, &e.frozen.Sum)
	codec.Maybe(f, &e.known, (*known).flow)
	codec.Many(f, &e.targets, flowTarget)
	codec.Time(f, &e.notBefore)
}

func (k *known) flow(f *codec.Flow) {
	codec.Fixed(f, k.key[:])
	codec.Fixed(f, k.sum[:])
	codec.Number(f, &k.until)
}

func flowTarget(t *store.Target, f *codec.Flow) {
	codec.Text(f, &t.Endpoint)
	codec.Truth(f, &t.Ordered)
	codec.Text(f, &t.Trigger)
	codec.Number(f, &t.Delay)
	codec.Text(f, &t.Drop)
	codec.Truth(f, &t.Uncounted)
}

func (o *recording) flow(f *codec.Flow) { codec.Many(f, &o.turns, (*turn).flow) }

func (o *answering) flow(f *codec.Flow) {
	o.recording.flow(f)
	codec.Many(f, &o.answers, (*answered).flow)
}

func (a *answered) flow(f *codec.Flow) {
	codec.Number(f, &a.turn)
	codec.Text(f, &a.Key)
	codec.Fixed(f, a.Answer.Fingerprint[:])
	codec.Number(f, &a.Answer.Status)
	codec.Blob(f, &a.Answer.Body)
	codec.Time(f, &a.Expires)
	codec.Time(f, &a.Now)
}

func (c *turn) flow(f *codec.Flow) {
	if f.Reads() {
		c.Change = new(store.Change)
	}
	codec.Number(f, &c.Delivery)
	codec.Number(f, &c.Identity.Event)
	codec.Text(f, &c.Identity.Endpoint)
	codec.Time(f, &c.Identity.CreatedAt)
	codec.Number(f, &c.Expect)
	codec.Time(f, &c.At)
	codec.Text(f, &c.Status)
	codec.Text(f, &c.ReasonCode)
	codec.Text(f, &c.Reason)
	codec.Time(f, &c.Due)
	codec.Truth(f, &c.Blocked)
	codec.Text(f, &c.Trigger)
	codec.Time(f, &c.Anchor)
	codec.Truth(f, &c.EndpointWide)
	codec.Maybe(f, &c.Audit, flowAudit)
	codec.Maybe(f, &c.Lease, flowSettlement)
	codec.Truth(f, &c.Uncounted)
	codec.Number(f, &c.NextDelay)
	codec.Blob(f, &c.attempt)
	codec.Text(f, &c.tried.Class)
	codec.Truth(f, &c.tried.Answered)
	codec.Number(f, &c.tried.Duration)
	codec.Truth(f, &c.tried.Again)
	codec.Maybe(f, &c.Standing, flowStanding)
	codec.Blob(f, &c.standing)
	codec.Maybe(f, &c.tell, (*batch).flow)
}

func flowAudit(a *grapnel.AuditEntry, f *codec.Flow) {
	codec.Time(f, &a.At)
	codec.Text(f, &a.Tenant)
	codec.Text(f, &a.Actor)
	codec.Text(f, &a.Verb)
	codec.Text(f, &a.Endpoint)
	codec.Text(f, &a.Delivery)
	codec.Text(f, &a.Reason)
}

func flowSettlement(s *store.Settlement, f *codec.Flow) {
	codec.Text(f, &s.Token)
	codec.Truth(f, &s.Over)
}

// flowStanding leaves out the body, which the turn has in the form in which it is stored.
func flowStanding(s *store.Standing, f *codec.Flow) {
	codec.Text(f, &s.Endpoint)
	codec.Number(f, &s.Number)
}

func (o *claiming) flow(f *codec.Flow) {
	codec.Text(f, &o.claim.Queue)
	codec.Many(f, &o.claim.Wants, flowWant)
	codec.Time(f, &o.claim.Now)
}

func flowWant(w *store.Want, f *codec.Flow) {
	codec.Text(f, &w.Token)
	codec.Text(f, &w.Consumer)
	codec.Number(f, &w.For)
	codec.Number(f, &w.Most)
}

func (o *extending) flow(f *codec.Flow) {
	codec.Text(f, &o.token)
	codec.Time(f, &o.now)
	codec.Number(f, &o.by)
}

func (o *makingDue) flow(f *codec.Flow) {
	codec.Text(f, &o.endpoint)
	codec.Time(f, &o.at)
	codec.Time(f, &o.before)
	codec.Number(f, &o.after.due)
	codec.Number(f, &o.after.seq)
	codec.Number(f, &o.limit)
	codec.Number(f, &o.look)
}

func (o *documenting) flow(f *codec.Flow) {
	codec.Many(f, &o.writes, flowDocument)
	codec.Maybe(f, &o.audit, flowAudit)
}

func flowDocument(w *store.DocumentWrite, f *codec.Flow) {
	codec.Text(f, &w.Tenant)
	codec.Text(f, &w.Kind)
	codec.Text(f, &w.ID)
	codec.Number(f, &w.Revision)
	codec.Time(f, &w.At)
	codec.Blob(f, &w.Body)
	codec.Truth(f, &w.Delete)
}

// do does an operation.
func (t *tx) do(o operation) error {
	t.pending.reuse(t.bounds.Batch)
	switch o.(type) {
	case *appending, *recording, nothing, flushing:
	case looking, seeing:
		if err := t.store(); err != nil {
			return err
		}
	default:
		if err := t.store(); err != nil {
			return err
		}
		clear(t.pending.lanes) // it may change rows of theirs
	}
	return o.apply(t)
}
