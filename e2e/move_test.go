//go:build linux && prove

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/sim/history"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// residence is a tenant's place, as the API reports it.
type residence struct {
	Cell, State string
	Move        string
	Trouble     string
}

// where is the residence of the tenant of all trials, as far as the server answers.
func (c *child) where() (is residence) {
	status, body, err := c.call(context.Background(), http.MethodGet, "/v1/tenants/default", nil)
	if err == nil && status == http.StatusOK {
		if err := json.Unmarshal(body, &is); err != nil {
			c.t.Errorf("%v in %s", err, body)
		}
	}
	return is
}

// One server serves two cells. Its tenant is moved from one to the other and back while publishers
// work and receivers misbehave. Now and then the server is killed during a move. No acknowledged
// event is lost, keys keep their order, only deliveries in flight at a kill are repeated, and a
// delivery is found by the ids it had before its moves.
func TestTenantsMoveUnderLoad(t *testing.T) {
	beside(t, busy)
	moves := 4
	if soak() {
		moves = 60
	}
	db := pgtest.For(t, pgtest.Options{})
	var urls []string
	for _, name := range []string{"home", "west"} {
		url, err := db.Create(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, url)
	}
	x := newTrial(t, program{flag: []string{"--store", urls[0], "--cell", "west=" + urls[1], "--lease", leaseHere.String()}}, all)
	x.load.every = 100 * time.Millisecond
	x.under(6, func(ctx context.Context) {
		for n := 0; n < moves && !t.Failed(); n++ {
			x.move(ctx, []string{"west", "home"}[n%2], n%2 == 0)
		}
		pause(ctx, time.Second)
	})
	x.rename = x.renumbered
	x.convict(x.verdict(2 * time.Minute))
	if int(x.load.accepted.Load()) < moves*20 {
		t.Errorf("only %d events were accepted over %d moves: the load was too thin to prove anything", x.load.accepted.Load(), moves)
	}
}

// move moves the tenant to a cell and waits for the end of the move. With dies the server is killed
// during it.
func (x *trial) move(ctx context.Context, to string, dies bool) {
	x.t.Helper()
	pause(ctx, x.dice.between(500*time.Millisecond, 1500*time.Millisecond))
	began := time.Now()
	eventually(x.t, 30*time.Second, "the move begins", func() bool {
		status, body, err := x.child.call(ctx, http.MethodPost, "/v1/tenants/default/move", map[string]any{"to": to})
		if err == nil && status != http.StatusAccepted && status < 500 {
			x.t.Fatalf("the move to %s was answered %d %s", to, status, body)
		}
		return err == nil && status == http.StatusAccepted
	})
	if dies {
		pause(ctx, x.dice.between(0, 2*time.Second))
		x.killNow()
		x.child.start()
		x.child.ready(30 * time.Second)
	}
	last := ""
	there := poll(ctx, 60*time.Second, 20*time.Millisecond, func() bool {
		is := x.child.where()
		if now := fmt.Sprintf("%+v", is); now != last {
			last = now
		}
		return is.Cell == to && is.State == "here"
	})
	if !there {
		x.t.Fatalf("a minute later the tenant is not in %s: %s\n%s", to, last, x.child.words(4000))
	}
	x.t.Logf("in %s after %v", to, time.Since(began).Round(time.Millisecond))
}

// renumbered replaces the delivery ids that receivers saw by the final ones. It asks the server by
// the old ids.
func (x *trial) renumbered(h *history.History) {
	x.t.Helper()
	final, now := map[string]bool{}, map[string]string{}
	for _, f := range h.Finals {
		final[f.Delivery] = true
	}
	for i := range h.Receipts {
		was := h.Receipts[i].Delivery
		if final[was] {
			continue
		}
		if now[was] == "" {
			var is row
			x.child.must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+was, nil, &is)
			now[was] = is.ID
		}
		h.Receipts[i].Delivery = now[was]
	}
	x.t.Logf("%d deliveries were found by ids that they had in another cell", len(now))
}
