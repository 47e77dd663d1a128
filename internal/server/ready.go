package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel"
)

// ready answers /readyz and /status: the reason for which the server accepts no events; nil: it
// accepts them.
func (s *Server) ready() error {
	if s.stopping.Load() {
		return grapnel.Errorf(grapnel.CodeUnavailable, "the server is shutting down")
	}
	return s.probes.found(s.lives.now.Load().unable())
}

// unable is the reason for which the server cannot accept events, from its store or from its
// engine.
func (l *life) unable() error {
	if l.closed.Load() {
		return grapnel.Errorf(grapnel.CodeUnavailable, "the database went back; it is being opened again")
	}
	if err := storeUnable(l.store); err != nil {
		return err
	}
	if err := l.engine.Unable(); err != nil {
		return err
	}
	return l.engine.Shards().Reaches()
}

// Answers says whether the store answers until ctx ends: a read and a write return, with or without
// an error. A store that says itself why it cannot commit (its disk is full, its database away)
// counts as one that answers, because a restart of this process would change nothing.
func (s *Server) Answers(ctx context.Context) bool {
	l := s.lives.now.Load()
	_, _, _ = l.store.Version(ctx)
	// Nothing is as old as that, so the write changes nothing; it takes its turn like any other.
	_, _ = l.store.Forget(ctx, time.Unix(0, 0), 1)
	return ctx.Err() == nil || l.closed.Load() || storeUnable(l.store) != nil
}

// storeUnable is why a store cannot commit new events; nil: it can, or does not know.
func storeUnable(db any) error {
	if asked, knows := db.(interface{ Unable() error }); knows {
		return asked.Unable()
	}
	return nil
}

// full is 1 while the server refuses new events because its storage is full.
func (l *life) full() float64 {
	for _, err := range []error{storeUnable(l.store), l.engine.Unable()} {
		if grapnel.CodeOf(err) == grapnel.CodeStorageFull {
			return 1
		}
	}
	return 0
}

func newProbes(log *slog.Logger) *probes { return &probes{log: log, now: time.Now} }

// found records the result of one probe, and returns it.
func (p *probes) found(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := p.now(); {
	case err != nil && p.notReady.IsZero():
		p.notReady = now
		level := slog.LevelInfo
		if p.was {
			level = slog.LevelWarn
		}
		p.log.Log(context.Background(), level, "server not ready; /readyz answers 503", "err", err)
	case err == nil && !p.notReady.IsZero():
		p.log.Info("server ready again", "after", now.Sub(p.notReady).Round(time.Millisecond).String())
		p.notReady = time.Time{}
	}
	p.was = p.was || err == nil
	return err
}
