package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestFiltersTakeTurns: a tenant whose filters do more than they may runs them in one publish at a
// time, another tenant's run at once, and who leaves waits no longer. Later the tenant is free
// again.
func TestFiltersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFilterWork(Bounds{FilterRate: 100, FilterBurst: 200, FilterTenants: 2, FilterPasses: 5}, time.Now)
		greedy := func(ctx context.Context) (*pass, error) { p := w.pass("ant"); return p, p.step(ctx, 0) }
		var all []*pass
		for range 5 {
			p, err := greedy(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		for _, p := range all {
			p.end(100)
		}
		first, err := greedy(t.Context()) // 500 units in debt: 5 s
		if err != nil || !first.holds {
			t.Fatalf("holds a turn: %v, %v", first.holds, err)
		}
		if err := first.step(t.Context(), 100); err != nil { // who has a turn keeps it
			t.Fatal(err)
		}
		gone, leave := context.WithCancel(t.Context())
		done := make(chan error)
		for _, ctx := range []context.Context{gone, t.Context()} {
			go func() {
				p, err := greedy(ctx)
				p.end(0)
				done <- err
			}()
		}
		synctest.Wait()
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("who has left: %v", err)
		}
		select {
		case err := <-done:
			t.Errorf("the second one does not wait: %v", err)
		default:
		}
		for range 3 {
			go func() { p, err := greedy(t.Context()); p.end(0); done <- err }()
		}
		synctest.Wait()
		full, err := greedy(t.Context())
		if !errors.Is(err, errFiltersBusy) {
			t.Errorf("beyond five: %v", err)
		}
		full.end(0)
		other := w.pass("bee")
		if err := other.step(t.Context(), 0); err != nil || other.holds {
			t.Errorf("another tenant: holds a turn %v, %v", other.holds, err)
		}
		other.end(1)
		first.end(0)
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if len(w.share) != 0 || len(first.of.turn) != 0 || len(w.tenants) != 0 {
			t.Error("turns are not given back")
		}
		time.Sleep(5 * time.Second) //nolint:forbidigo // the bubble's time
		if p, err := greedy(t.Context()); err != nil || p.holds {
			t.Errorf("later: holds a turn %v, %v", p.holds, err)
		} else {
			p.end(0)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
		for i := range 10 {
			p := w.pass(fmt.Sprint("tenant", i))
			if err := p.step(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			p.end(1)
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		}
		if len(w.tenants) != 0 {
			t.Errorf("%d tenants are remembered", len(w.tenants))
		}
	})
}
