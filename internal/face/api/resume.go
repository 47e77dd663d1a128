package api

import (
	"context"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
)

// The id of an event names its stream and its number in the stream. A consumer that returns with it
// as Last-Event-ID has received everything up to there. So the leases of later messages of that
// stream are released first, and these messages are leased again at once instead of after their
// leases. The leases are remembered in memory: after a restart of the server, or for an old id,
// they expire instead. Either way no message is lost, because an unsettled message is leased again.

// streams are those that are open, and those that may be resumed.
type streams struct {
	mu   sync.Mutex
	byID map[string]*sent
	now  map[string]int // open streams of each tenant
}

// enter counts a stream of a tenant; false: it has too many.
func (ss *streams) enter(tenant string, most int) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.now == nil {
		ss.now = map[string]int{}
	}
	if ss.now[tenant] >= most {
		return false
	}
	ss.now[tenant]++
	return true
}

func (ss *streams) leave(tenant string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.now[tenant]--; ss.now[tenant] == 0 {
		delete(ss.now, tenant)
	}
}

// sent is what one stream has sent.
type sent struct {
	key, queue string // who may resume it, and where
	cancel     context.CancelFunc
	done       chan struct{} // closed when it has ended
	most       int           // leases that are remembered

	mu     sync.Mutex
	first  int // the number of leases[0]
	leases []grapnel.Lease
	ended  time.Time
}

func (s *sent) add(l grapnel.Lease) (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if half := s.most / 2; len(s.leases) == s.most {
		s.first, s.leases = s.first+half, append([]grapnel.Lease(nil), s.leases[half:]...)
	}
	s.leases = append(s.leases, l)
	return s.first + len(s.leases) - 1
}

// after are the leases that were sent after a number.
func (s *sent) after(number int) []grapnel.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := max(number+1-s.first, 0)
	if from >= len(s.leases) {
		return nil
	}
	return s.leases[from:]
}

// open begins a stream.
func (ss *streams) open(id string, s *sent, now time.Time, b *Bounds) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.byID == nil {
		ss.byID = map[string]*sent{}
	}
	ended, oldest, since := 0, "", now
	for other, o := range ss.byID {
		o.mu.Lock()
		at := o.ended
		o.mu.Unlock()
		switch {
		case at.IsZero():
			continue
		case now.Sub(at) > b.StreamKept:
			delete(ss.byID, other)
			continue
		case !at.After(since):
			oldest, since = other, at
		}
		ended++
	}
	if ended >= b.Streams {
		delete(ss.byID, oldest)
	}
	ss.byID[id] = s
}

// take takes out the stream that a caller resumes; nil: it is not known, or was not the caller's.
func (ss *streams) take(id, key, queue string) *sent {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byID[id]
	if s == nil || s.key != key || s.queue != queue {
		return nil
	}
	delete(ss.byID, id)
	return s
}
