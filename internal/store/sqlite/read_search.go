package sqlite

import (
	"bytes"
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// DeliverySearch searches the data of the deliveries that a DeliveryList would show. Corrupt data
// contain no text. If it is unknown which of two filters leaves fewer rows, it tries both, each for
// a part of the time, and takes the one that comes further.
func (s *reader) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		list, resume = nil, 0
		if q.Limit <= 0 {
			return nil
		}
		l := newLister(ctx, s.database, r, scope, q)
		l.look = newLook(&s.bounds, s.now, q.Within)
		ways, err := l.ways()
		if err != nil {
			return err
		}
		data := search{readEvent: s.readEvent, r: r, text: []byte(text), look: l.look}
		for i, way := range ways {
			l.look.begin(len(ways))
			found, rest, err := l.read(way, l.look.enough, data.contains)
			if err != nil {
				return err
			}
			if i == 0 || rest < resume {
				list, resume = found, rest
			}
			if rest == 0 || len(found) == q.Limit {
				list, resume = found, rest
				return nil
			}
		}
		return nil
	})
	return list, resume, err
}

// search looks for a text.
type search struct {
	readEvent func(*sqlite3.Stmt) (*grapnel.Event, error)
	r         *sqlite3.Conn
	text      []byte
	look      *look
	event     int64 // the last examined one: deliveries of one event follow each other
	found     bool
}

func (s *search) contains(event int64) (bool, error) {
	if len(s.text) == 0 {
		return true, nil
	}
	if s.event == event {
		return s.found, nil
	}
	e, err := rows.First(s.r.Query(eventQuery).Int(event), nil, s.readEvent)
	if err != nil {
		return false, err
	}
	if s.event, s.found = event, false; e != nil {
		s.look.bytes += len(e.Data)
		s.found = bytes.Contains(e.Data, s.text)
	}
	return s.found, nil
}
