package postgres

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// batch is a store.Batch as passed to a writer: already encoded as far as possible.
type batch struct {
	config int64
	events []incoming
	packer *codec.Packer
}

// batch freezes b; nil stays nil.
func (s *database) batch(ctx context.Context, b *store.Batch) (*batch, error) {
	if b == nil {
		return nil, nil
	}
	frozen := &batch{config: b.Config, packer: s.packer, events: make([]incoming, len(b.Events))}
	for i, in := range b.Events {
		f, err := s.packer.Freeze(ctx, in.Event)
		if err != nil {
			return nil, err
		}
		frozen.events[i] = incoming{Event: *in.Event, frozen: f, targets: in.Targets, known: freezeKnown(in.Known),
			minted: in.Minted, notBefore: in.NotBefore}
		frozen.events[i].Data, frozen.events[i].Metadata, frozen.events[i].Intake = nil, nil, nil
	}
	return frozen, nil
}

func (b *batch) need(n *needs) {
	if b == nil {
		return
	}
	for i := range b.events {
		e := &b.events[i]
		if name := (eventName{e.ID, e.Tenant}); e.minted {
			n.minted = append(n.minted, name)
		} else {
			n.ids[name] = true
		}
		n.kinds[kindOf(&e.Event)] = true
		if e.known != nil {
			n.known[string(e.known.key)] = true
		}
		n.newEvents++
		n.newNumbers += len(e.targets)
		for _, target := range e.targets {
			n.targets[target.Endpoint] = true
			if target.Drop == "" && target.Ordered && e.Key != "" {
				n.position(target.Endpoint, e.Key)
			}
		}
	}
}

// stale says whether the batch was matched against another version of the configuration than the
// current one. b may be nil.
func (b *batch) stale(t *tx) bool { return b != nil && b.config != t.version }

const (
	// The data of other tenants' events are not read: the time for that would reveal their size.
	metColumns = `SELECT e.id, e.seq, e.accepted, e.made, k.tenant, k.type, e.key,
		CASE WHEN k.tenant = ANY($2) THEN e.data END, e.packed FROM `
	metJoins = " e JOIN kind k ON k.number = e.kind WHERE e."
	nameless = -1 // in place of the number of deliveries, if only the name exists
)

// dropNames deletes the names of events.
const dropNames = "DELETE FROM event_name WHERE seq = ANY($1)"

// metQuery finds events by ids and tenants, and others with these ids: in the tables of days that
// can have them (calendar.holders), and by name.
func metQuery(holders []string) string {
	var b strings.Builder
	for _, table := range holders {
		b.WriteString(metColumns + table + metJoins + "id = ANY($1) UNION ALL ")
	}
	b.WriteString("SELECT n.id, n.seq, 0, -1, '', '', '', NULL, 0::smallint FROM event_name n WHERE n.id = ANY($1) AND n.tenant = ANY($2)")
	return b.String()
}

func (t *tx) readMet(got pgx.Rows) error {
	var id string
	var r met
	into := []any{&id, &r.seq, &r.accepted, &r.made, &r.tenant, &r.typ, &r.key, &r.data, &r.packed}
	return rows.Answered(got).Each(into, func() {
		if m := r; m.made == nameless {
			t.named[m.seq] = true
		} else {
			t.events[eventName{id, m.tenant}] = &m
			delete(t.named, m.seq)
		}
	})
}

// readNamed reads the events that were found by name. If an event was deleted with its day, its
// name may remain for a while; the id is then free.
func readNamed(t *tx) error {
	if len(t.named) == 0 {
		return nil
	}
	seqs := sortedKeys(t.named, cmp.Compare[int64])
	rows, err := t.conn.Query(t.ctx, metColumns+t.calendar.of("event", seqs)+metJoins+"seq = ANY($1)", seqs, t.needs.tenants())
	if err == nil {
		err = t.readMet(rows)
	}
	if err != nil {
		return err
	}
	if free := sortedKeys(t.named, cmp.Compare[int64]); len(free) > 0 {
		t.first = append(t.first, func(b *pgx.Batch) { b.Queue(dropNames, free) })
	}
	return nil
}

// is says whether e repeats this event. One whose data key was destroyed is another.
func (m *met) is(ctx context.Context, e *incoming, packer *codec.Packer) (bool, error) {
	if erased := codec.IsErased(m.packed); erased || m.typ != e.Type || m.key != e.Key {
		return erased && m.typ == e.Type, nil
	}
	same, err := packer.Same(ctx, &e.Event, &e.frozen, m.data, m.packed)
	if errors.Is(err, seal.ErrNoKey) {
		err = nil
	}
	return same, err
}

func (m *met) placed(id string) store.Placed {
	return store.Placed{Seq: m.seq, ID: id, AcceptedAt: codec.Moment(m.accepted), Deliveries: m.made}
}

// accept stores the events of a batch. b may be nil.
func (b *batch) accept(t *tx) (*store.Accepted, error) {
	if b == nil {
		return nil, nil
	}
	done := new(store.Accepted)
	var fresh []*place
	for i := range b.events {
		placed, made, err := b.place(t, &b.events[i])
		if err != nil {
			return nil, err
		}
		done.Events = append(done.Events, placed)
		fresh = append(fresh, made...)
	}
	for _, p := range fresh {
		if p.Head {
			done.Heads = append(done.Heads, p.Shown())
		}
	}
	return done, nil
}

func (b *batch) place(t *tx, e *incoming) (placed store.Placed, fresh []*place, err error) {
	if again, known := recognize(t, e); known {
		publishedAgain(t, e)
		return again, nil, nil
	}
	if there := t.events[eventName{e.ID, e.Tenant}]; there != nil {
		same, err := there.is(t.ctx, e, b.packer)
		if err != nil || !same {
			return store.Placed{Conflict: true}, nil, err
		}
		placed = there.placed(e.ID)
		placed.Duplicate = true
		publishedAgain(t, e)
		return placed, nil, nil
	}
	e.Seq, t.eventSeqs = t.eventSeqs[0], t.eventSeqs[1:]
	if e.kind, err = t.names.kind(kindOf(&e.Event)); err != nil {
		return store.Placed{}, nil, err
	}
	e.first, e.last = 0, 0
	accepted := codec.Micros(e.AcceptedAt)
	for i := range e.targets {
		p, err := e.delivery(t, &e.targets[i], accepted)
		if err != nil {
			return store.Placed{}, nil, err
		}
		if p.fresh {
			fresh = append(fresh, p)
		}
		if e.last = p.Seq; i == 0 {
			e.first = p.Seq
		}
	}
	m := &met{seq: e.Seq, accepted: accepted, made: len(e.targets), tenant: e.Tenant, typ: e.Type, key: e.Key, data: e.frozen.Data,
		packed: e.frozen.Packed}
	t.events[eventName{e.ID, e.Tenant}] = m
	t.newEvents = append(t.newEvents, e)
	placed = m.placed(e.ID)
	familiar(t, e.known, placed)
	return placed, fresh, nil
}

// delivery creates one delivery of e.
func (e *incoming) delivery(t *tx, target *store.Target, accepted int64) (*place, error) {
	number, err := t.names.target(target.Endpoint)
	if err != nil {
		return nil, err
	}
	p := &place{Pending: decide.Pending{Seq: t.draw(), Event: e.Seq, Endpoint: target.Endpoint, Created: accepted, Trigger: target.Trigger},
		target: number, kind: e.kind, tenant: e.Tenant, eventType: e.Type}
	t.tally(p).made++
	if target.Drop != "" {
		// It gets no position in its lane, so that the pending deliveries have positions without gaps.
		t.archive(p, store.Ending{Status: grapnel.Dropped, Reason: target.Drop, At: codec.Moment(accepted), Uncounted: target.Uncounted}, nil)
		return p, nil
	}
	if target.Ordered && e.Key != "" {
		if p.lane, err = t.laneBy(p.target, e.Key); err != nil {
			return nil, err
		}
	}
	t.wait(p, target.Delay, e.notBefore)
	return p, nil
}

// Append checks the idempotency key first, so that a repeated call gets its answer even if the
// configuration has changed since. Then it checks the version of the configuration.
func (s *changer) Append(ctx context.Context, b store.Batch) (store.Accepted, error) {
	o := &appending{once: b.Once}
	var err error
	if o.batch, err = s.batch(ctx, &b); err != nil {
		return store.Accepted{}, err
	}
	return result(&o.done, s.write(ctx, o))
}

type appending struct {
	batch *batch
	once  *store.Once
	done  store.Accepted
}

func (o *appending) bytes() (n int) {
	for i := range o.batch.events {
		n += len(o.batch.events[i].frozen.Data)
	}
	return n
}

func (o *appending) need(n *needs) {
	n.once(o.once)
	o.batch.need(n)
}

func (o *appending) apply(t *tx) error {
	o.done = store.Accepted{}
	then, err := recall(t, o.once)
	if then != nil || err != nil {
		o.done.Answer = then
		return err
	}
	if o.batch.stale(t) {
		return store.ErrStale
	}
	done, err := o.batch.accept(t)
	if err != nil {
		return err
	}
	o.done = *done
	remember(t, o.once, o.done)
	return nil
}
