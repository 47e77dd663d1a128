package alerting

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/alert"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A server with several stores (cells) has one operator, whose channels are in the first cell. So
// the Keeper of the first cell evaluates the operator's rules about all cells: a transition and its
// message are one transaction, and only that cell's store has the channels. The other Keepers
// evaluate the rules of their tenants, by the first cell's settings for all tenants.

// Cell is a cell besides the first.
type Cell struct {
	Name   string
	Engine Engine
	Store  Store
	Disk   func(context.Context) (free, total uint64, e error) // as in Options
}

// gatherCells adds the samples about the other cells to a round. A cell whose store does not answer
// within Bounds.Cell costs the others no more than that time, and its alerts stay as they are.
func (k *Keeper) gatherCells(ctx context.Context, r *alert.Round) {
	if k.o.Cells == nil {
		return
	}
	for _, c := range k.o.Cells() {
		g := k.cells[c.Name]
		if g == nil || g.k.o.Engine != c.Engine { // it was opened again
			of := &Keeper{o: Options{Engine: c.Engine, Store: c.Store, Disk: c.Disk}, bounds: k.bounds, log: k.log.With("cell", c.Name)}
			g = newGathering(of)
			g.cell, k.cells[c.Name] = c.Name, g
		}
		reading, cancel := context.WithTimeout(ctx, k.bounds.Cell)
		f := g.gather(reading, r.Now, nil)
		if reading.Err() != nil && ctx.Err() == nil {
			g.k.log.Warn("reading the cell for alert rules took too long; retrying", "limit", k.bounds.Cell.String())
		}
		cancel()
		r.Samples = append(r.Samples, only(f.Samples(), true)...)
		for rule := range f.Unread {
			r.Unread[alert.UnreadIn(rule, c.Name)] = true
		}
	}
}

// only selects the operator's samples, or those of tenants.
func only(all []alert.Sample, operator bool) (some []alert.Sample) {
	for i := range all {
		if (all[i].Tenant == "") == operator {
			some = append(some, all[i])
		}
	}
	return some
}

// settings reads the changes of rules: those of tenants from this cell, those for all from the
// first one. While that one does not answer, its last answer holds.
func (k *Keeper) settings(ctx context.Context) (alert.Settings, error) {
	all, err := k.settingsIn(ctx, k.o.Store)
	if err != nil || k.o.Home == nil {
		return all, err
	}
	first, err := k.settingsIn(ctx, k.o.Home())
	switch {
	case err == nil:
		k.common = first[""]
	case k.common == nil:
		return nil, err
	}
	all[""] = k.common
	return all, nil
}

// sharedStore has the settings for all tenants.
func (k *Keeper) sharedStore() Store {
	if k.o.Home == nil {
		return k.o.Store
	}
	return k.o.Home()
}

// settingDoc reads the setting of one rule of a tenant; empty: for all.
func (k *Keeper) settingDoc(ctx context.Context, scope store.Scope, tenant, rule string) (doc store.Document, err error) {
	from := k.o.Store
	if tenant == "" {
		from = k.sharedStore()
	}
	return from.Document(ctx, scope, tenant, alert.KindRule, alert.SettingID(tenant, rule))
}

// errElsewhere refuses a change of the settings for all tenants in a cell besides the first.
func errElsewhere() error {
	err := grapnel.Errorf(grapnel.CodeMoved, "Rules for all tenants are set in the cell %s.", grapnel.DefaultCell)
	err.Cell = grapnel.DefaultCell
	return err
}
