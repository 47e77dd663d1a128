package sqlite

import (
	"bytes"
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// DeliverySearch searches the data of the deliveries that a DeliveryList would show. Corrupt data
// contain no text.
func (s *Store) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		list, resume = nil, 0
		if q.Limit <= 0 {
			return nil
		}
		l := s.newLister(ctx, r, scope, q)
		streams, err := l.streams()
		if err != nil {
			return err
		}
		look := search{store: s, r: r, text: []byte(text), began: s.now()}
		ended := true
		err = merge(ctx, streams, func(seq int64) (bool, error) {
			if len(list) >= q.Limit || look.enough() {
				ended = false
				return false, nil
			}
			resume = seq
			d, err := fetch(r, seq)
			look.deliveries++
			if err != nil || d == nil || !l.takes(d) {
				return err == nil, err
			}
			found, err := look.contains(d.EventSeq)
			if found {
				list = append(list, d.Delivery)
			}
			return err == nil, err
		})
		if ended {
			resume = 0
		}
		return err
	})
	return list, resume, err
}

// search is the progress of a search.
type search struct {
	store      *Store
	r          *sqlite3.Conn
	text       []byte
	began      time.Time
	deliveries int
	bytes      int
	event      int64 // the last examined one: deliveries of one event follow each other
	found      bool
}

func (s *search) enough() bool {
	b := &s.store.bounds
	switch {
	case s.deliveries >= b.Searched, int64(s.bytes) >= b.SearchedBytes:
		return true
	case s.deliveries < b.LeastSearched, s.deliveries%16 != 0:
		return false
	}
	return s.store.now().Sub(s.began) > b.SearchFor
}

func (s *search) contains(event int64) (bool, error) {
	if s.event == event {
		return s.found, nil
	}
	q, err := s.r.Prepare(eventQuery)
	if err != nil {
		return false, err
	}
	there, err := q.Int(event).Row()
	if err != nil {
		return false, err
	}
	s.event, s.found = event, false
	if there {
		defer q.Reset()
		if e := s.store.readEvent(q); e != nil {
			s.bytes += len(e.Data)
			s.found = bytes.Contains(e.Data, s.text)
		}
	}
	return s.found, nil
}
