//go:build linux && prove

package e2e

import (
	"context"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// A harness that has never failed proves nothing. Here it runs against a small server that keeps
// the promises, and against the same server with one mistake at a time. It must report each mistake
// and no other.
func TestHarnessTellsGoodFromBad(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		bug  string
		want history.Rule
	}{
		{"none", ""},
		{"forgets events", history.Lost},
		{"forgets outcomes", history.Dup},
		{"lets later ones pass", history.FIFO},
		{"re-encodes data", history.Corrupt},
	} {
		t.Run(test.bug, func(t *testing.T) {
			beside(t, busy)
			x := newTrial(t, program{path: self, env: []string{fakeVariable + "=" + test.bug}}, func(d *dice) []*target {
				return []*target{healthy(d), halting(d)}
			})
			x.load.batch = false
			x.under(4, func(ctx context.Context) {
				for range 3 {
					x.nemesis(ctx)
				}
				pause(ctx, 300*time.Millisecond)
			})
			found := x.verdict(20 * time.Second)
			switch {
			case test.want == "":
				x.convict(found)
			case !slices.ContainsFunc(found, func(v history.Violation) bool { return v.Rule == test.want }):
				t.Errorf("the harness did not find %s; it found %v", test.want, found)
			}
		})
	}
}

// halting fails often, so that lanes have deliveries behind their heads, however few events a busy
// machine accepts.
func halting(d *dice) *target {
	_, rules := inline(0, 0, time.Second)
	rules.MaxAge = 0
	return &target{name: "halting", create: map[string]any{}, rules: rules, behave: func() reply {
		if d.percent(60) {
			return reply{status: http.StatusServiceUnavailable}
		}
		return reply{status: http.StatusOK}
	}}
}
