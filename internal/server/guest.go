package server

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api"
	"github.com/grapnelhq/grapnel/internal/engine"
	"github.com/grapnelhq/grapnel/internal/pass"
)

// engineFor is the engine behind a cell's API. Keys that are bound to no tenant are stored in the
// first cell (home) and valid in all.
func (c *cell) engineFor(home *cell) api.Engine {
	if c == home {
		return c.engine
	}
	return guest{c.engine, home.engine}
}

// guest is the engine of a cell other than home.
type guest struct {
	*engine.Engine
	home *engine.Engine
}

// Caller finds the cell's own keys if they are bound to a tenant, and home's keys that are not.
func (g guest) Caller(hash [32]byte) (grapnel.Key, bool, error) {
	key, known, err := g.Engine.Caller(hash)
	if err != nil || known && key.Tenant != "" {
		return key, known, err
	}
	key, known, err = g.home.Caller(hash)
	return key, known && key.Tenant == "", err
}

// WhileKey watches a key in the cell in which Caller finds it.
func (g guest) WhileKey(ctx context.Context, hash [32]byte, may func(*grapnel.Key) bool) (context.Context, context.CancelFunc) {
	if key, known := g.Engine.KeyByHash(hash); known && key.Tenant != "" {
		return g.Engine.WhileKey(ctx, hash, may)
	}
	return g.home.WhileKey(ctx, hash, may)
}

// MakerKey finds a key where Caller does.
func (g guest) MakerKey(p *pass.Pass) (grapnel.Key, bool) {
	if p.Tenant == "" {
		return g.home.MakerKey(p)
	}
	return g.Engine.MakerKey(p)
}

// Series is home's for passes of all tenants.
func (g guest) Series(tenant string) string {
	if tenant == "" {
		return g.home.Series(tenant)
	}
	return g.Engine.Series(tenant)
}

// Holds asks the cell of the pass's tenant, and home, which has the era of all passes, the keys
// that are bound to no tenant, and the people whose sessions an admin of all tenants has ended.
func (g guest) Holds(p *pass.Pass) bool {
	if p.Tenant == "" {
		return g.home.Holds(p)
	}
	return g.Engine.Holds(within(p)) && g.home.Holds(anywhere(p))
}

// WhilePass watches a pass where Holds asks.
func (g guest) WhilePass(ctx context.Context, p *pass.Pass) (context.Context, context.CancelFunc) {
	if p.Tenant == "" {
		return g.home.WhilePass(ctx, p)
	}
	ctx, end := g.Engine.WhilePass(ctx, within(p))
	ctx, endHome := g.home.WhilePass(ctx, anywhere(p))
	return ctx, func() { endHome(); end() }
}

// within is a pass as the cell of its tenant knows it.
func within(p *pass.Pass) *pass.Pass {
	own := *p
	own.Era = ""
	if m := p.Maker; m != nil && m.Key != "" && m.Tenant == "" {
		own.Maker = nil
	}
	return &own
}

// anywhere is a pass as home knows it.
func anywhere(p *pass.Pass) *pass.Pass {
	all := *p
	all.Tenant = ""
	if m := p.Maker; m != nil && m.Key != "" && m.Tenant != "" {
		all.Maker = nil
	}
	return &all
}
