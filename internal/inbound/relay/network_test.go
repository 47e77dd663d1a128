package relay

import (
	"fmt"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// TestNetwork: between relay and database answers are lost, especially those of a COMMIT that
// removed events, and for a while no packet passes. Each event arrives once and in order.
func TestNetwork(t *testing.T) {
	name := fmt.Sprint("network", databases.Add(1))
	url, err := server.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), url, Rights{}); err != nil {
		t.Fatal(err)
	}
	var proxy *pgtest.Proxy
	if proxy, err = server.NewProxy(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, s := pool(t, url), newSink(t, proxy.URL(name))
	r, stop := relaying(t, Options{Engine: s, Store: s.Store, Random: func() float64 { return 0.1 }})
	defer stop() // before the proxy
	_, over := fight(t, p, 8, 5, 200, false)
	state := func(want State) func() bool {
		return func() bool { st, _ := r.Status("src_1"); return st.State == want }
	}
	own := 0
	for _, lost := range []string{"COMMIT", "BEGIN", "COMMIT", "ROLLBACK", "COMMIT"} {
		until(t, "it is relayed", state(Relaying))
		before, _ := r.Status("src_1")
		proxy.LoseNext(lost)
		own++
		// so that there is a commit, whatever the producers do
		do(t, p, event("own", fmt.Sprint(own)))
		// the fault may end before the courier meets it
		until(t, "the loss of "+lost+" is noticed", func() bool {
			st, _ := r.Status("src_1")
			return st.State == Away || st.Since.After(before.Since)
		})
	}
	proxy.Cut(true)
	until(t, "it is away", state(Away))
	counted := over()
	proxy.Cut(false)
	until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	stop()
	counted["own"] = own
	s.ordered(counted)
}
