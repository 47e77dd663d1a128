package engine

import (
	"context"
	"sync"

	"github.com/grapnelhq/grapnel"
)

// sessions are the calls under way that end when their key loses the right to make them. None is
// missed: adopt makes a configuration current and then looks at the list, WhileKey puts a session
// on the list and then looks at the current configuration.
type sessions struct {
	mu  sync.Mutex
	all map[*session]struct{}
}

type session struct {
	hash [32]byte
	may  func(*grapnel.Key) bool
	end  context.CancelFunc
}

// WhileKey returns a context that also ends when the configuration has no key with the hash for
// which may is true. It ends before the change of the key is answered. The caller has to call the
// CancelFunc.
func (e *Engine) WhileKey(ctx context.Context, hash [32]byte, may func(*grapnel.Key) bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{hash, may, cancel}
	e.sessions.mu.Lock()
	defer e.sessions.mu.Unlock()
	if e.sessions.all == nil {
		e.sessions.all = map[*session]struct{}{}
	}
	e.sessions.all[s] = struct{}{}
	s.compare(e.config.Load())
	return ctx, func() {
		cancel()
		e.sessions.mu.Lock()
		defer e.sessions.mu.Unlock()
		delete(e.sessions.all, s)
	}
}

func (s *session) compare(c *configuration) {
	if at, known := c.byHash[s.hash]; !known || !s.may(&c.keys[at]) {
		s.end()
	}
}

// adopt makes a configuration the current one.
func (e *Engine) adopt(c *configuration) {
	e.config.Store(c)
	e.sessions.mu.Lock()
	defer e.sessions.mu.Unlock()
	for s := range e.sessions.all {
		s.compare(c)
	}
}
