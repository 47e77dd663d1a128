package postgres

import "errors"

// writes runs transactions, one after another, until the store is closed; then it runs one for the
// queued requests.
func (s *writer) writes(slot int16) {
	for {
		batch, placed, more := s.next()
		for len(batch) > 0 {
			n := 1
			for !batch[0].alone && n < len(batch) && !batch[n].alone {
				n++
			}
			s.commit(slot, batch[:n])
			batch = batch[n:]
		}
		if placed {
			<-s.places
		}
		s.keeper.daily()
		if !more {
			return
		}
	}
}

// commit runs the requests in one transaction. If that fails for a reason that may be one request's
// fault, each gets its own transaction.
func (s *writer) commit(slot int16, batch []*request) {
	began := s.now()
	err := s.try(slot, batch)
	if err != nil && len(batch) > 1 && !errors.Is(err, errUnknown) && !gone(err) {
		for _, r := range batch {
			s.commit(slot, []*request{r})
		}
		return
	}
	ended := s.now()
	s.stats.committed(len(batch), err, ended.Sub(began))
	s.able.saw(err, ended)
	for _, r := range batch {
		if r.err == nil {
			r.err = err
		}
		close(r.done)
	}
}

// try runs the transaction, again while it conflicts with others or its connection turns out to be
// cut. One deadline covers all tries.
func (s *writer) try(slot int16, batch []*request) (err error) {
	ctx, done := s.writing.bound(s.ctx)
	defer done()
	defer func() {
		if lost := s.refusal(); lost != nil && err != nil && !errors.Is(err, errUnknown) {
			err = lost
		}
	}()
	careful := false
	for range s.bounds.Tries {
		for _, r := range batch {
			r.err = nil
		}
		if err = s.transact(ctx, slot, batch, careful); broken(err) || errors.Is(err, errUnknown) {
			s.cut.Store(s.now().UnixNano())
		}
		switch {
		case errors.Is(err, errUnlike):
			s.stats.spoiled.Add(1)
			careful = true
		case spoiled(err):
			s.stats.spoiled.Add(1)
			s.days.doubted.Store(true) // a day may have begun or been dropped
			careful = true             // another event may have a minted id
		case !broken(err):
			return asError(err)
		}
	}
	return asError(err)
}
