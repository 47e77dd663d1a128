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
	if err != nil || !at.There {
		return err
	}
	return t.q.setStanding.Text(s.Endpoint).Int(s.Number).Blob(body).Run()
}

// Standings are sorted by endpoint.
func (s *Store) Standings(ctx context.Context) (all []store.Standing, err error) {
	err = s.read(ctx, func(r *sqlite3.Conn) error {
		all = nil
		q := r.Query(standingsQuery)
		defer q.Reset()
		for q.More(&err) {
			one := store.Standing{Endpoint: q.String(0), Number: q.Integer(1)}
			if one.Standing, err = codec.DecodeStanding(0, q.Bytes(2)); err != nil {
				return err
			}
			all = append(all, one)
		}
		return err
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
		n := 0
		if err := s.write(ctx, &change{shrinks: true, do: func(t *tx) (err error) {
			n, err = t.hasten(found, codec.Micros(h.At), codec.Micros(h.Before))
			return err
		}}); err != nil {
			return hastened, err
		}
		hastened += n
	}
	return hastened, nil
}

// hasten makes those heads due that are still late, and counts them.
func (t *tx) hasten(deliveries []int64, at, before int64) (n int, err error) {
	for _, seq := range deliveries {
		if err := t.q.hasten.Int(at).Int(seq).Int(at).Int(before).Run(); err != nil {
			return 0, err
		}
		n += t.conn.Changed()
	}
	return n, nil
}

// late returns the row ids of the heads that Hasten selects, at most limit.
func (s *Store) late(ctx context.Context, endpoint string, h store.Hastening, limit int) (found []int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		target, err := integer(r.Query(targetQuery).Text(endpoint))
		if err != nil || target == 0 {
			return err
		}
		found, err = integers(r.Query(lateQuery).Int(target).Int(codec.Micros(h.At)).Int(codec.Micros(h.Before)).Int(int64(limit)))
		return err
	})
	return found, err
}
