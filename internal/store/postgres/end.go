package postgres

import (
	"context"
	"math"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

const (
	oldestQuery = `SELECT seq FROM pending WHERE target = (SELECT number FROM target WHERE endpoint = $1) AND seq > $2 AND seq <= $3
		ORDER BY seq LIMIT $4`
	lateQuery = `SELECT seq FROM pending p WHERE target = (SELECT number FROM target WHERE endpoint = $1) AND due > $2 AND wide < $3
		AND NOT EXISTS (SELECT FROM lease WHERE delivery = p.seq) ORDER BY due, seq LIMIT $4`
)

// numbers returns the first column of a query.
func (s *Store) numbers(ctx context.Context, query string, args ...any) ([]int64, error) {
	list, err := firstColumn[int64](ask(ctx, s.pool, query, args...))
	return list, readError(ctx, err)
}

// End takes the oldest first. So if it stops in a lane, it stops at the lowest position left, which
// is then the head.
func (s *Store) End(ctx context.Context, endpoint string, e store.Ending, limit int) (ended int, err error) {
	upTo := e.UpTo
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	for last := int64(0); ended < limit; {
		seqs, err := s.numbers(ctx, oldestQuery, endpoint, last, upTo, min(limit-ended, s.bounds.EndPage))
		if err != nil || len(seqs) == 0 {
			return ended, err
		}
		last = seqs[len(seqs)-1]
		done := 0
		err = s.write(ctx, &change{
			needs: func(n *needs) {
				n.deliveries = append(n.deliveries, seqs...)
				n.guard(endpoint, e.Epoch)
			},
			do: func(t *tx) error {
				if t.sealsAny(seqs) {
					return store.ErrFencedBySeal
				}
				if t.fenced(endpoint, e.Epoch) {
					return store.ErrFenced
				}
				done = 0
				for _, seq := range seqs {
					if p := t.places[seq]; p != nil {
						t.release(p)
						t.finish(p, e, nil, 0)
						done++
					}
				}
				return nil
			},
		})
		if err != nil {
			return ended, err
		}
		ended += done
	}
	return ended, nil
}

// Hasten takes the earliest first.
func (s *Store) Hasten(ctx context.Context, endpoint string, h store.Hastening, limit int) (hastened int, err error) {
	at, before := codec.Micros(h.At), codec.Micros(h.Before)
	for hastened < limit {
		seqs, err := s.numbers(ctx, lateQuery, endpoint, at, before, min(limit-hastened, s.bounds.EndPage))
		if err != nil || len(seqs) == 0 {
			return hastened, err
		}
		done := 0
		err = s.write(ctx, &change{
			needs: func(n *needs) {
				n.deliveries = append(n.deliveries, seqs...)
				n.guard(endpoint, h.Epoch)
			},
			do: func(t *tx) error {
				if t.sealsAny(seqs) {
					return store.ErrFencedBySeal
				}
				if t.fenced(endpoint, h.Epoch) {
					return store.ErrFenced
				}
				done = 0
				for _, seq := range seqs {
					p := t.places[seq]
					if p != nil && p.Late(at, before) {
						p.Hasten(at)
						p.dirty = true
						done++
					}
				}
				return nil
			},
		})
		if err != nil {
			return hastened, err
		}
		hastened += done
	}
	return hastened, nil
}
