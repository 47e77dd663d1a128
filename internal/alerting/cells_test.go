package alerting_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/alert"
	"github.com/grapnelhq/grapnel/internal/alerting"
	"github.com/grapnelhq/grapnel/internal/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestOperatorsAlertsOfAllCells: the operator's channels are in the first cell and get the alerts
// about each cell. What cannot be read stays as it is. Rules for all tenants hold in each cell.
func TestOperatorsAlertsOfAllCells(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		var measured sync.Mutex // the keeper measures in a goroutine of its own
		free, fault := uint64(5), error(nil)
		disk := func(now uint64, err error) {
			measured.Lock()
			defer measured.Unlock()
			free, fault = now, err
		}
		west := &world{t: t, store: memory.New(), net: pipenet.New(), home: func() alerting.Store { return w.store }}
		west.start()
		defer west.net.Close()
		defer west.end()
		w.disk = func(context.Context) (uint64, uint64, error) { return 80, 100, nil }
		w.cells = func() []alerting.Cell {
			return []alerting.Cell{{Name: "west", Engine: west.engine, Store: west.mortal,
				Disk: func(context.Context) (uint64, uint64, error) {
					measured.Lock()
					defer measured.Unlock()
					return free, 100, fault
				}}}
		}
		w.kill()
		ops, shop := w.channel("ops", grapnel.OperatorTenant), west.channel("shop", "acme")
		time.Sleep(2 * time.Minute)
		if got := titles(ops.messages()); got != "cell west: the disk is nearly full" {
			t.Errorf("the operator got %s", got)
		}
		disk(5, errors.New("the disk cannot be measured"))
		time.Sleep(20 * time.Minute)
		if open := w.alerts(alerting.Query{State: alert.Firing}); len(open) != 1 || open[0].Subject.ID != "west" {
			t.Errorf("while the disk cannot be measured, open are %+v", open)
		}
		disk(50, nil)
		time.Sleep(20 * time.Minute)
		if got := titles(ops.messages()); got != "cell west: the disk is nearly full | Resolved: cell west: the disk is nearly full" {
			t.Errorf("the operator got %s", got)
		}
		// A rule that is off for all is off in the other cell, and is not set there.
		off := false
		set := func(k *alerting.Keeper) error {
			_, err := k.SetRule(ctx, store.Everyone(), "", alert.EndpointDisabled, grapnel.By{Actor: "key_1"},
				func(alerting.Rule) (alert.Setting, error) { return alert.Setting{Enabled: &off}, nil })
			return err
		}
		if err := set(west.keeper); grapnel.CodeOf(err) != grapnel.CodeMoved {
			t.Errorf("a rule for all in the other cell: %v", err)
		}
		w.must(set(w.keeper))
		west.disabled(1)
		time.Sleep(time.Minute)
		if rules, err := west.keeper.Rules(ctx, "acme"); err != nil || len(shop.messages()) != 0 || len(rules) == 0 {
			t.Errorf("%v; the tenant of the other cell got %v", err, shop.messages())
		}
		off = true
		w.must(set(w.keeper))
		time.Sleep(time.Minute)
		if got := titles(shop.messages()); got != "ep_0000.test: is disabled" {
			t.Errorf("the tenant of the other cell got %s", got)
		}
		if all := west.alerts(alerting.Query{}); len(all) != 1 || all[0].Tenant != "acme" {
			t.Errorf("the other cell has the alerts %+v", all)
		}
	})
}
