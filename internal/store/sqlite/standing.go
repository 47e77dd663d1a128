package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const standingsQuery = "SELECT endpoint, number, body FROM standing ORDER BY endpoint"

// stand stores a change's standing, unless a newer one is stored or the endpoint was removed: no
// call would delete that standing any more.
func (t *tx) stand(s *store.Standing, body []byte) error {
	at, err := t.object(endpoints, s.Endpoint)
	if err != nil || !at.There {
		return err
	}
	return t.q.setStanding.Text(s.Endpoint).Int(s.Number).Blob(body).Run()
}

// Standings are sorted by endpoint.
func (s *Store) Standings(ctx context.Context) ([]store.Standing, error) {
	return reading(ctx, s.read, func(r *sqlite3.Conn) ([]store.Standing, error) {
		return each(r.Query(standingsQuery), func(q *sqlite3.Stmt) (one store.Standing, err error) {
			one.Endpoint, one.Number = q.String(0), q.Integer(1)
			one.Standing, err = codec.DecodeStanding(0, q.Bytes(2))
			return one, err
		})
	})
}
