package configuration

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// WhileKey returns a context that also ends when the configuration has no key with the hash for
// which may is true. It ends before the change of the key is answered. The caller has to call the
// CancelFunc.
func (b *Book) WhileKey(ctx context.Context, hash [32]byte, may func(*grapnel.Key) bool) (context.Context, context.CancelFunc) {
	return b.while(ctx, func(c *Snapshot) bool {
		at, known := c.byHash[hash]
		return known && may(&c.keys[at]) && c.Accepts(c.keys[at].Tenant) == nil
	})
}

// WhilePass is the same for a pass: the context also ends when the pass is revoked.
func (b *Book) WhilePass(ctx context.Context, p *pass.Pass) (context.Context, context.CancelFunc) {
	return b.while(ctx, func(c *Snapshot) bool { return p.Holds(c) && c.Accepts(p.Tenant) == nil })
}

func (b *Book) while(ctx context.Context, valid func(*Snapshot) bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{valid, cancel}
	b.sessions.mu.Lock()
	defer b.sessions.mu.Unlock()
	if b.sessions.all == nil {
		b.sessions.all = map[*session]struct{}{}
	}
	b.sessions.all[s] = struct{}{}
	s.compare(b.Snapshot())
	return ctx, func() {
		cancel()
		b.sessions.mu.Lock()
		defer b.sessions.mu.Unlock()
		delete(b.sessions.all, s)
	}
}

func (s *session) compare(c *Snapshot) {
	if !s.valid(c) {
		s.end()
	}
}

// adopt makes a configuration the current one.
func (b *Book) adopt(c *Snapshot) {
	b.current.Store(c)
	b.sessions.mu.Lock()
	defer b.sessions.mu.Unlock()
	for s := range b.sessions.all {
		s.compare(c)
	}
}
