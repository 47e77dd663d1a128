package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	standingsQuery = "SELECT endpoint, number, body FROM standing ORDER BY endpoint"
	// lateQuery begins behind the heads that are due already, of which there may be many after an
	// outage. EndpointWide is not in the index: hardly any head is delayed for another reason.
	lateQuery = "SELECT seq FROM pending WHERE head = 1 AND target = ? AND due > ? AND wide < ? AND token IS NULL ORDER BY due, seq LIMIT ?"
)

// stand stores a change's standing, unless a newer one is stored or the endpoint was removed: no
// call would delete that standing any more.
func (t *tx) stand(s *store.Standing, body []byte) error {
	at, err := t.endpointRow(s.Endpoint)
	if err != nil || !at.there {
		return err
	}
	return t.q.setStanding.Text(s.Endpoint).Int(s.Number).Blob(body).Run()
}

// Standings are sorted by endpoint.
func (s *Store) Standings(ctx context.Context) (all []store.Standing, err error) {
	err = s.read(ctx, func(r *sqlite3.Conn) error {
		all = nil
		q, err := r.Prepare(standingsQuery)
		if err != nil {
			return err
		}
		defer q.Reset()
		for {
			more, err := q.Next()
			if !more {
				return err
			}
			one := store.Standing{Endpoint: q.String(0), Number: q.Integer(1)}
			if one.Standing, err = codec.DecodeStanding(0, q.Bytes(2)); err != nil {
				return err
			}
			all = append(all, one)
		}
	})
	return all, err
}

// Hasten takes the earliest first. It looks heads up on a connection for reading, so that Record
// need not wait for that. The writer then makes the pending ones due.
func (s *Store) Hasten(ctx context.Context, endpoint string, h store.Hastening, limit int) (int, error) {
	hastened := 0
	for hastened < limit {
		found, err := s.late(ctx, endpoint, h, limit-hastened)
		if err != nil || len(found) == 0 {
			return hastened, err
		}
		o := &hastening{deliveries: found, hastening: h}
		if err := s.write(ctx, o); err != nil {
			return hastened, err
		}
		hastened += o.hastened
	}
	return hastened, nil
}

// hastening is the operation of Hasten.
type hastening struct {
	deliveries []int64
	hastening  store.Hastening
	hastened   int
}

func (o *hastening) grows() bool { return false }

func (o *hastening) apply(t *tx) error {
	o.hastened = 0
	at, before := codec.Micros(o.hastening.At), codec.Micros(o.hastening.Before)
	for _, seq := range o.deliveries {
		if err := t.q.hasten.Int(at).Int(seq).Int(at).Int(before).Run(); err != nil {
			return err
		}
		o.hastened += t.conn.Changed()
	}
	return nil
}

// late returns the row ids of the heads that Hasten selects, at most limit.
func (s *Store) late(ctx context.Context, endpoint string, h store.Hastening, limit int) (found []int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		target, err := integer(r, targetQuery, func(q *sqlite3.Stmt) { q.Text(endpoint) })
		if err != nil || target == 0 {
			return err
		}
		q, err := r.Prepare(lateQuery)
		if err != nil {
			return err
		}
		found, err = integers(q.Int(target).Int(codec.Micros(h.At)).Int(codec.Micros(h.Before)).Int(int64(limit)))
		return err
	})
	return found, err
}
