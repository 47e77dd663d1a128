package postgres

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// writer has the goroutines that run transactions, one for each connection for writing.
type writer struct {
	*database
	keeper   *keeper
	gathers  sync.Mutex    // see next
	together together      // guarded by gathers
	places   chan struct{} // an element for each of the Few transactions that run
	running  sync.WaitGroup
	quit     chan struct{} // closed to stop
}

// next waits for the first request, takes the other queued ones, and waits for a place among the
// Few transactions that run, taking further requests meanwhile. A batch that is a Crowd, or as
// large as a batch may be, does not wait. A few events wait for others: see together. One writer is
// in next at a time, or several would wait with a part of the requests each. After quit next takes
// the rest, and returns false.
func (s *writer) next() (batch []*request, placed, more bool) {
	s.gathers.Lock()
	defer s.gathers.Unlock()
	l := &gathering{bounds: &s.bounds}
	for len(l.requests) == 0 {
		select {
		case r := <-s.requests:
			l.take(r)
		case <-s.quit:
			return l.rest(s.requests), false, false
		}
	}
	if l.queued(s.requests, false); len(l.requests) < s.bounds.Enough {
		runtime.Gosched() // let callers that are about to call do so first
		l.queued(s.requests, false)
	}
	s.together.wait(s, l)
	defer func() {
		if l.events > 0 {
			s.together.began = s.now()
		}
	}()
	for len(l.requests) < s.bounds.Crowd && !l.full() {
		select {
		case s.places <- struct{}{}:
			l.queued(s.requests, false)
			return l.requests, true, true
		case r := <-s.requests:
			l.take(r)
		case <-s.quit:
			return l.rest(s.requests), false, false
		}
	}
	return l.requests, false, true
}

// gathering is the requests of a transaction to be.
type gathering struct {
	bounds   *Bounds
	requests []*request
	bytes    int64
	events   int  // appends among them
	urgent   bool // one of them is neither an append nor has outcomes for which no lane waits
}

func (l *gathering) take(r *request) {
	if !r.state.CompareAndSwap(waits, taken) {
		return
	}
	l.requests = append(l.requests, r)
	l.bytes += int64(r.bytes())
	switch o := r.operation.(type) {
	case *appending:
		l.events++
	case *recording:
		l.urgent = l.urgent || slices.ContainsFunc(o.turns, func(c turn) bool { return !c.Lone })
	default:
		l.urgent = true
	}
}

func (l *gathering) full() bool {
	return len(l.requests) >= l.bounds.Requests || l.bytes >= l.bounds.RequestBytes
}

// queued takes the requests that are queued now, until there are enough, or all of them.
func (l *gathering) queued(line <-chan *request, all bool) {
	for all || !l.full() {
		select {
		case r := <-line:
			l.take(r)
		default:
			return
		}
	}
}

// rest takes all queued requests, and returns all of the gathering.
func (l *gathering) rest(line <-chan *request) []*request {
	l.queued(line, true)
	return l.requests
}

// together has events that come one by one share transactions, whose statements cost more than the
// rows of one event. A transaction with events, but fewer than Together, begins no earlier than
// Apart after the last one with events. An urgent request ends the wait.
//
// After a wait that brought no event the next transaction does not wait, after a second one in a
// row the next three, and so on up to Unshared. So it costs a publisher little that sends the next
// event when the last one was answered.
type together struct {
	began    time.Time // the last transaction with events
	vain     int       // how many transactions shall not wait after a wait that brings no event
	unshared int       // how many still shall not
}

func (p *together) wait(s *writer, l *gathering) {
	b := &s.bounds
	since := s.now().Sub(p.began)
	few := func() bool { return l.events > 0 && l.events < b.Together && !l.urgent && !l.full() }
	switch {
	case since < 0 || since >= b.Apart || !few():
		return
	case p.unshared > 0:
		p.unshared--
		return
	}
	before := l.events
	timer := time.NewTimer(b.Apart - since)
	defer timer.Stop()
	for waiting := true; waiting && few(); {
		select {
		case r := <-s.requests:
			l.take(r)
		case <-timer.C:
			waiting = false
		case <-s.quit:
			return
		}
	}
	if p.vain = min(2*p.vain+1, b.Unshared); l.events > before {
		p.vain = 0
	}
	p.unshared = p.vain
}
