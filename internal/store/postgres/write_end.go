package postgres

import (
	"cmp"
	"context"
	"math"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	oldestQuery = `SELECT seq FROM pending WHERE target = (SELECT number FROM target WHERE endpoint = $1) AND seq > $2 AND seq <= $3
		ORDER BY seq LIMIT $4`
	lateQuery = `SELECT seq FROM pending p WHERE target = (SELECT number FROM target WHERE endpoint = $1) AND due > $2 AND wide < $3
		AND NOT EXISTS (SELECT FROM lease WHERE delivery = p.seq) ORDER BY due, seq LIMIT $4`
)

// numbers returns the first column of a query.
func (s *changer) numbers(ctx context.Context, query string, args ...any) ([]int64, error) {
	list, err := rows.FirstColumn[int64](rows.Ask(ctx, s.pool, query, args...))
	return list, readError(ctx, err)
}

// End takes the oldest first. So if it stops in a lane, it stops at the lowest position left, which
// is then the head.
func (s *changer) End(ctx context.Context, endpoint string, e store.Ending, limit int) (int, error) {
	last, upTo := int64(0), cmp.Or(e.UpTo, math.MaxInt64)
	return s.paged(ctx, endpoint, e.Epoch, limit, func(most int) ([]int64, error) {
		seqs, err := s.numbers(ctx, oldestQuery, endpoint, last, upTo, most)
		if len(seqs) > 0 {
			last = seqs[len(seqs)-1]
		}
		return seqs, err
	}, func(t *tx, p *place) bool {
		t.release(p)
		t.finish(p, e, nil, 0)
		return true
	})
}

// MakeDue takes the earliest first.
func (s *changer) MakeDue(ctx context.Context, endpoint string, h store.MakingDue, limit int) (int, error) {
	at, before := codec.Micros(h.At), codec.Micros(h.Before)
	return s.paged(ctx, endpoint, h.Epoch, limit, func(most int) ([]int64, error) {
		return s.numbers(ctx, lateQuery, endpoint, at, before, most)
	}, func(_ *tx, p *place) bool {
		if !p.Late(at, before) {
			return false
		}
		p.MakeDue(at)
		p.dirty = true
		return true
	})
}

// paged does the same with pending deliveries of an endpoint, a page in each transaction, and
// returns with how many, at most limit. find looks for the next ones; do says whether it did
// anything.
func (s *changer) paged(ctx context.Context, endpoint string, epoch int64, limit int,
	find func(most int) ([]int64, error), do func(*tx, *place) bool) (n int, err error) {
	for n < limit {
		seqs, err := find(min(limit-n, s.bounds.EndPage))
		if err != nil || len(seqs) == 0 {
			return n, err
		}
		done := 0
		err = s.write(ctx, &change{
			needs: func(n *needs) {
				n.deliveries = append(n.deliveries, seqs...)
				n.guard(endpoint, epoch)
			},
			do: func(t *tx) error {
				if fenced(t, endpoint, epoch) {
					return store.ErrFenced
				}
				done = 0
				for _, seq := range seqs {
					if p := t.places[seq]; p != nil && do(t, p) {
						done++
					}
				}
				return nil
			},
		})
		if err != nil {
			return n, err
		}
		n += done
	}
	return n, nil
}
