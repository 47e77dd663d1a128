package egress

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/grapnelhq/grapnel/policy"
)

// TestWithdrawn: a request withdrawn at the last moment never reaches the receiver, and is no
// attempt, over a new connection and over a reused one.
func TestWithdrawn(t *testing.T) {
	var got atomic.Int64
	srv := server(t, func(http.ResponseWriter, *http.Request) { got.Add(1) })
	s := sender(t, Options{Allow: loopback()})
	wanted := false
	d := delivery(endpoint(srv.URL))
	d.Still = func() bool { return wanted }
	for sent := range int64(3) {
		wanted = false
		if r := send(s, d); r.Outcome.Class != policy.ClassInternal || got.Load() != sent {
			t.Errorf("withdrawn: %+v, %d sent, not %d", r.Outcome, got.Load(), sent)
		}
		wanted = true
		if r := send(s, d); r.Outcome.Class != policy.ClassNone || got.Load() != sent+1 {
			t.Errorf("not withdrawn: %+v %s, %d sent, not %d", r.Outcome, r.Error, got.Load(), sent+1)
		}
	}
}
