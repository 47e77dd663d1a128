package sqlite

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// finish makes d final and returns the new head of its lane, if there is one. If d was the head,
// that is the next delivery of the lane, which begins with this delay.
func finish(t *tx, d *place, e store.Ending, last []byte, delay time.Duration) (*place, error) {
	if d.ReplayOf != 0 {
		if err := noteRepeated(t, d, e.Status); err != nil {
			return nil, err
		}
	}
	if !t.pending.drop(d) {
		if err := t.q.dropPending.Int(d.Seq).Run(); err != nil {
			return nil, err
		}
	}
	releaseLease(t, d)
	if err := sumQueued(t, d, -1); err != nil {
		return nil, err
	}
	if err := archive(t, d, e, last); err != nil || d.Position == 0 {
		return nil, err
	}
	next, err := t.laneHead(d.target, d.Key)
	if err == nil && next != nil && d.Head {
		if next.Lead(codec.Micros(e.At), delay); t.pending.rows[next.Seq] == nil {
			err = led.Bind(t.q.lead, next).Int(next.Seq).Run()
		}
	}
	return next, err
}

// archive writes the row of a finished delivery.
func archive(t *tx, d *place, e store.Ending, last []byte) error {
	status, known := rows.Statuses.Place(e.Status)
	if !known {
		return fmt.Errorf("sqlite: %q is not a status", e.Status)
	}
	t.tallies[tally{d.target, d.tenant, status}]++
	e = d.End(e)
	if !e.Uncounted {
		if err := sumEnded(t, d, &e); err != nil {
			return err
		}
	}
	d.Code, d.Reason, d.outcome = e.ReasonCode, e.Reason, withReason(d.outcome, e.ReasonCode)
	if status == rows.StatusDelivered {
		if err := noteOutcome(t, d); err != nil {
			return err
		}
	}
	f := ended{place: *d, status: e.Status, at: codec.Micros(e.At), last: last}
	if last != nil && t.deliveries.last-d.Seq > t.bounds.Behind {
		var err error
		if f.ending, err = rows.LookUp(t.q.addEnding.Blob(last)); err != nil {
			return err
		}
	}
	t.deferred.finished = append(t.deferred.finished, f)
	if status != rows.StatusFailed {
		return nil
	}
	return t.conn.Query(addLetterQuery).Int(d.target).Int(d.Seq).Int(d.tenant).Run()
}

const (
	// addLetterQuery adds none that was repeated with success while it was pending.
	addLetterQuery = `INSERT INTO letter (target, seq, tenant) SELECT ?1, ?2, ?3
		WHERE NOT EXISTS (SELECT 1 FROM mark WHERE delivery = ?2 AND replay_result = 3)`
	dropLetterQuery = "DELETE FROM letter WHERE target = ? AND seq = ?"
)

// noteOutcome records where the outcome of d occurs.
func noteOutcome(t *tx, d *place) error {
	if of := (targetOutcome{d.outcome, d.target}); !t.outcomes.targets[of] {
		keep(t.outcomes.targets, t.bounds.Names, of, true)
		if err := t.q.addTargetOutcome.Int(of.outcome).Int(of.target).Run(); err != nil {
			return err
		}
	}
	at := blockOutcome{d.outcome, d.Seq >> rows.BlockBits}
	if t.outcomes.blocks[at] {
		return nil
	}
	keep(t.outcomes.blocks, t.bounds.Names, at, true)
	return t.q.addBlockOutcome.Int(at.outcome).Int(at.block).Run()
}

// noteRepeated records the result of a redelivery: on its original, unless that was redelivered
// once more since, and with the replay that created it, if any.
func noteRepeated(t *tx, d *place, ended grapnel.Status) error {
	if err := t.writeDeferred(); err != nil { // a trigger of mark looks into finished
		return err
	}
	status, _ := rows.Statuses.Place(ended)
	if err := t.q.markResult.Int(status).Int(d.ReplayOf).Int(d.Seq).Run(); err != nil {
		return err
	}
	delivered := status == rows.StatusDelivered
	if delivered {
		if err := resolve(t, d); err != nil {
			return err
		}
	}
	replay, err := rows.Integer(t.q.endItem.Int(status).Int(d.Seq))
	if replay == 0 {
		return err
	}
	t.unflushed.replayed.Store(true)
	return t.q.countItem.Bool(delivered).Bool(!delivered).Bool(delivered).Int(replay).Run()
}

// resolve marks the failed deliveries of an event that a redelivery has delivered to their
// endpoint, unless they were redelivered once more since.
func resolve(t *tx, d *place) error {
	first := d.Seq
	for of, steps := d.ReplayOf, 0; of != 0 && steps < store.MostRedeliveries; steps++ {
		first = of
		there, err := t.find(of)
		if err != nil {
			return err
		}
		if there == nil {
			break
		}
		of = there.ReplayOf
	}
	return t.q.markOthers.Int(d.Seq).Int(d.Created).Int(d.Event).Int(first).Int(d.target).Int(store.MostRedeliveries).Run()
}
