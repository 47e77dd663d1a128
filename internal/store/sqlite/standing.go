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
