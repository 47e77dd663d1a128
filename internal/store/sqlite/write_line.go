package sqlite

import (
	"sync"
	"sync/atomic"
)

// line is the queue of requests for the writer. Each request is answered once, or was abandoned.
//
// Between flushes the writer sleeps only while the line is empty. This holds for two reasons
// together. The request that joins an empty line leaves a token in wake. And the writer goes to
// sleep only after a take that returned nothing, which empties the line. If take could return
// nothing and leave requests in the line, the next request would not be the first, would leave no
// token, and the writer would never be woken again.
//
// While a flush is committed, the writer leaves requests in the line that are not light, and
// sleeps. Each request leaves a token then (wakeEach).
//
// Outcomes go first, and a batch has a limited number of events: see share.
type line struct {
	mu     sync.Mutex
	first  []*request // that need no more space: outcomes, and reads that wait for a flush
	then   []*request
	closed bool
	each   bool          // a request leaves a token even if the line is not empty
	wake   chan struct{} // holds a token if a request has joined an empty line, or any line with each
}

// join puts a request at the end; false: the line is closed.
func (l *line) join(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if r.grows() {
		l.then = append(l.then, r)
	} else {
		l.first = append(l.first, r)
	}
	if l.each || len(l.first)+len(l.then) == 1 {
		select {
		case l.wake <- struct{}{}:
		default: // an earlier token has not been taken yet
		}
	}
	return true
}

// take moves at most `most` requests (at least one) from the line to a batch, and no further events
// after one that has used up their share. Those that go first leave the others up to half of the
// batch: otherwise a thousand readers would keep all events from the batches of a slow disk.
// Abandoned requests leave the line too, but do not count. So if the batch is empty and had no
// share yet, the line is empty.
func (l *line) take(batch []*request, most int, s *share) []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	for pass, queue := range []*[]*request{&l.first, &l.then, &l.first} {
		n, room := 0, most
		if pass == 0 {
			room -= min(len(l.then), most/2)
		}
		for ; n < len(*queue) && room > 0 && (queue == &l.first || s.left()); n++ {
			if r := (*queue)[n]; r.state.CompareAndSwap(waits, taken) {
				batch, room, most = append(batch, r), room-1, most-1
				outcomes, events := s.weigh(r.operation)
				s.outcomes, s.new = s.outcomes+outcomes, s.new+events
			}
		}
		rest := copy(*queue, (*queue)[n:])
		clear((*queue)[rest:])
		*queue = (*queue)[:rest]
	}
	return batch
}

// share limits the events of a batch. While outcomes come in, new events get as many deliveries as
// there are outcomes. Otherwise outcomes, and the next attempts of their lanes, would wait behind
// hundreds of events where the disk is slow.
type share struct {
	most, least   int // Bounds.Events and Bounds.Share
	outcomes, new int // in the batch: changes, and deliveries of events

	weigh func(operation) (outcomes, events int)
}

func (s *share) left() bool {
	if s.outcomes > 0 {
		return s.new < max(s.outcomes, s.least)
	}
	return s.new < s.most
}

// close refuses later requests, and returns the queued ones.
func (l *line) close() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return append(l.first, l.then...)
}

func (l *line) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.first) + len(l.then)
}

// takeLight moves at most `most` requests that are light from the line to a batch. The others stay
// in their order.
func (l *line) takeLight(batch []*request, most int, light func(operation) bool) []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.then[:0]
	for _, r := range l.then {
		if !r.heavy && len(batch) < most {
			if r.heavy = !light(r.operation); !r.heavy && r.state.CompareAndSwap(waits, taken) {
				batch = append(batch, r)
				continue
			}
		}
		kept = append(kept, r)
	}
	clear(l.then[len(kept):])
	l.then = kept
	return batch
}

// wakeEach says whether each request wakes the writer, or only one that joins an empty line.
func (l *line) wakeEach(each bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each = each
}

// request is an operation on its way to the writer and back. It is used again for another one, so
// the writer forgets it when it has answered.
type request struct {
	operation
	err   error
	state atomic.Int32
	heavy bool          // owned by the line: it waits until the flush is committed
	done  chan struct{} // holds a token once it is answered
}

func newRequest() any { return &request{done: make(chan struct{}, 1)} }

// answer sends the request back.
func (r *request) answer() { r.done <- struct{}{} }

// The states of a request. A caller that gives up before its operation was taken has changed
// nothing.
const (
	waits = iota
	taken
	abandoned
)
