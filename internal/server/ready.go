package server

import (
	"log/slog"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
)

// ready is what /readyz and /status ask: why the server does not accept events; nil: it does, in all of its cells.
func (s *Server) ready() error {
	if s.stopping.Load() {
		return grapnel.Errorf(grapnel.CodeUnavailable, "the server is shutting down")
	}
	return s.probes.found(s.unable())
}

// unable is why one of the cells cannot take events; nil: all can.
func (s *Server) unable() error {
	for _, c := range s.cells {
		if err := c.unable(); err != nil {
			return s.of(c, err)
		}
	}
	return nil
}

// unable is why the cell cannot take events: its store says so, or its engine refuses them before the store suffers.
func (c *cell) unable() error {
	if c.closed.Load() {
		return grapnel.Errorf(grapnel.CodeUnavailable, "the database went back; it is being read anew")
	}
	if err := storeUnable(c.store); err != nil {
		return err
	}
	if err := c.engine.Unable(); err != nil {
		return err
	}
	return c.engine.Reaches()
}

// storeUnable is why a store cannot commit new events; nil: it can, or does not know.
func storeUnable(db any) error {
	if asked, knows := db.(interface{ Unable() error }); knows {
		return asked.Unable()
	}
	return nil
}

// full is 1 while the cell refuses new events for lack of room.
func (c *cell) full() float64 {
	for _, err := range []error{storeUnable(c.store), c.engine.Unable()} {
		if grapnel.CodeOf(err) == grapnel.CodeStorageFull {
			return 1
		}
	}
	return 0
}

// probes logs when readiness changes. A load balancer asks every second or more often: its questions are not logged.
type probes struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	notReady time.Time // since when, as far as anybody has asked; zero: ready when last asked
}

func newProbes(log *slog.Logger) *probes { return &probes{log: log, now: time.Now} }

// found takes what one probe found, and returns it.
func (p *probes) found(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := p.now(); {
	case err != nil && p.notReady.IsZero():
		p.notReady = now
		p.log.Warn("server not ready; /readyz answers 503", "err", err)
	case err == nil && !p.notReady.IsZero():
		p.log.Info("server ready again", "after", now.Sub(p.notReady).Round(time.Millisecond).String())
		p.notReady = time.Time{}
	}
	return err
}
