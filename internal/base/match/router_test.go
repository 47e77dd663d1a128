package match

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

func endpoint(tenant, id, filter string, types ...string) grapnel.Endpoint {
	return grapnel.Endpoint{Tenant: tenant, ID: id, Filter: filter, EventTypes: types}
}

func router(t testing.TB, endpoints ...grapnel.Endpoint) *Router {
	t.Helper()
	r, err := NewRouter(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ids(wanted []*grapnel.Endpoint) []string {
	out := make([]string, len(wanted))
	for i, ep := range wanted {
		out[i] = ep.ID
	}
	return out
}

func TestPatterns(t *testing.T) {
	cases := []struct {
		patterns  []string
		eventType string
		want      bool
	}{
		{nil, "invoice.paid", true},
		{[]string{"*"}, "invoice.paid", true},
		{[]string{"*"}, "ping", true},
		{[]string{"invoice.paid"}, "invoice.paid", true},
		{[]string{"invoice.paid"}, "invoice.paid.late", false},
		{[]string{"invoice.paid"}, "invoice", false},
		{[]string{"invoice.*"}, "invoice.paid", true},
		{[]string{"invoice.*"}, "invoice.line.added", true},
		{[]string{"invoice.*"}, "invoice", false},
		{[]string{"invoice.*"}, "invoices.paid", false},
		{[]string{"*.paid"}, "invoice.paid", true},
		{[]string{"*.paid"}, "invoice.line.paid", true},
		{[]string{"*.paid"}, "paid", false},
		{[]string{"a.*.z"}, "a.b.z", true},
		{[]string{"a.*.z"}, "a.b.c.z", true},
		{[]string{"a.*.z"}, "a.z", false},
		{[]string{"order.*", "invoice.paid"}, "invoice.paid", true},
		{[]string{"order.*", "invoice.*"}, "customer.created", false},
		{[]string{"invoice.paid", "invoice.*", "*"}, "invoice.paid", true},
	}
	for _, c := range cases {
		r := router(t, endpoint("acme", "ep_1", "", c.patterns...))
		wanted := matched(r, &grapnel.Event{Tenant: "acme", Type: c.eventType})
		if got := len(wanted); got > 1 || (got == 1) != c.want {
			t.Errorf("%q and %s: %d deliveries, want %v", c.patterns, c.eventType, got, c.want)
		}
	}
}

func TestEndpointsComeInTheOrderOfTheirIDsAndOnce(t *testing.T) {
	r := router(t,
		endpoint("acme", "ep_5", "", "invoice.paid", "invoice.*"),
		endpoint("acme", "ep_3", ""),
		endpoint("acme", "ep_4", "", "invoice.paid", "invoice.paid"),
		endpoint("acme", "ep_1", "", "invoice.paid"),
		endpoint("acme", "ep_2", "", "*.paid", "*"),
		endpoint("acme", "ep_0", "", "invoice.sent"),
	)
	want := []string{"ep_1", "ep_2", "ep_3", "ep_4", "ep_5"}
	if got := ids(matched(r, invoice())); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDeletedEndpointsWantNothingPausedAndDisabledOnesDo(t *testing.T) {
	gone := endpoint("acme", "ep_1", "")
	gone.DeletedAt = time.Unix(1, 0)
	paused := endpoint("acme", "ep_2", "")
	paused.Status = grapnel.EndpointPaused
	disabled := endpoint("acme", "ep_3", "")
	disabled.Status = grapnel.EndpointDisabled
	if got := ids(matched(router(t, gone, paused, disabled), invoice())); !slices.Equal(got, []string{"ep_2", "ep_3"}) {
		t.Errorf("got %v", got)
	}
}

func TestFiltersDecideAndExplain(t *testing.T) {
	r := router(t,
		endpoint("acme", "ep_1", `event.data.amount > 100`, "invoice.*"),
		endpoint("acme", "ep_2", `event.data.amount > 1000`, "invoice.*"),
		endpoint("acme", "ep_3", `event.data.discount > 0`, "invoice.paid"),
		endpoint("acme", "ep_4", `event.data.currency`),
		endpoint("acme", "ep_5", `event.data.amount > 100`, "order.*"),
	)
	if got := ids(matched(r, invoice())); !slices.Equal(got, []string{"ep_1"}) {
		t.Errorf("got %v", got)
	}
	reasons := []string{"", "the filter is false", "no such key: discount", "not true or false"}
	verdicts := r.Explain(invoice())
	if len(verdicts) != len(reasons) {
		t.Fatalf("%d verdicts: an endpoint that does not subscribe to the type needs none", len(verdicts))
	}
	for i, v := range verdicts {
		if v.Wanted != (reasons[i] == "") || !strings.Contains(v.Reason, reasons[i]) {
			t.Errorf("%s: wanted %v, %q", v.Endpoint.ID, v.Wanted, v.Reason)
		}
	}
}

func TestABrokenFilterStopsOnlyItsOwnEndpoint(t *testing.T) {
	r, err := NewRouter([]grapnel.Endpoint{endpoint("acme", "ep_1", `event.`), endpoint("acme", "ep_2", "")})
	var bad *CompileError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "ep_1") {
		t.Errorf("the error is %v", err)
	}
	if got := ids(matched(r, invoice())); !slices.Equal(got, []string{"ep_2"}) {
		t.Errorf("got %v", got)
	}
	if v := r.Explain(invoice())[0]; v.Wanted || !strings.Contains(v.Reason, "does not compile") {
		t.Errorf("%+v", v)
	}
}

func TestNextTakesOverWhatIsCompiled(t *testing.T) {
	const filter = `event.data.amount > 1`
	first := router(t, endpoint("acme", "ep_1", filter), endpoint("other", "ep_2", filter))
	one, three := endpoint("acme", "ep_1", filter), endpoint("acme", "ep_3", `true`)
	second, err := first.Next([]*grapnel.Endpoint{&one, &three})
	if err != nil {
		t.Fatal(err)
	}
	if first.filters[filter] != second.filters[filter] || len(first.filters) != 1 || len(second.filters) != 2 {
		t.Error("the filter was compiled again, or filters that nobody has are kept")
	}
	third, err := second.Next(nil)
	if err != nil || len(third.filters) != 0 || matched(third, invoice()) != nil {
		t.Errorf("a router of nothing: %v", err)
	}
	if got := ids(matched(first, invoice())); !slices.Equal(got, []string{"ep_1"}) {
		t.Errorf("the old router changed: %v", got)
	}
}

// TestRouterAgreesWithAskingEveryEndpoint compares the index with the plain rule, for several
// tenants at once.
func TestRouterAgreesWithAskingEveryEndpoint(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "c"})
	eventType := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "segments"), ".")
	})
	pattern := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "*"}), 1, 3).Draw(t, "segments"), ".")
	})
	tenant := rapid.SampledFrom([]string{"acme", "other", "default"})
	rapidtest.Check(t, func(t *rapid.T) {
		var endpoints []grapnel.Endpoint
		for i := range rapid.IntRange(0, 12).Draw(t, "endpoints") {
			ep := endpoint(tenant.Draw(t, "tenant"), fmt.Sprintf("ep_%02d", 99-i), "", rapid.SliceOfN(pattern, 0, 4).Draw(t, "patterns")...)
			ep.Filter = rapid.SampledFrom([]string{"", "", `event.type.startsWith("a")`, `event.data.x == 1`}).Draw(t, "filter")
			endpoints = append(endpoints, ep)
		}
		r, err := NewRouter(endpoints)
		if err != nil {
			t.Fatal(err)
		}
		ev := &grapnel.Event{Tenant: tenant.Draw(t, "tenant of the event"), Type: eventType.Draw(t, "type"), Data: []byte(`{"x":1}`)}
		var want []string
		for i := range endpoints {
			ep := &endpoints[i]
			subscribed := len(ep.EventTypes) == 0 || slices.ContainsFunc(ep.EventTypes, func(p string) bool { return grapnel.MatchType(p, ev.Type) })
			passes := !strings.HasPrefix(ep.Filter, "event.type") || strings.HasPrefix(ev.Type, "a")
			if ep.Tenant == ev.Tenant && subscribed && passes {
				want = append(want, ep.ID)
			}
		}
		slices.Sort(want)
		if got := ids(matched(r, ev)); !slices.Equal(got, want) {
			t.Fatalf("%s of %s: got %v, want %v", ev.Type, ev.Tenant, got, want)
		}
	})
}

func TestManyGoroutinesShareARouter(t *testing.T) {
	r := router(
		t,
		endpoint("acme", "ep_1", `event.data.amount > 100 && event.key.matches("^inv_[0-9]+$")`),
		endpoint("acme", "ep_2", `event.data.lines.exists(l, l.qty > 4)`),
	)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got := matched(r, invoice()); len(got) != 2 {
					t.Errorf("got %v", ids(got))
				}
			}
		})
	}
	wg.Wait()
}

func TestMatchBySource(t *testing.T) {
	from := endpoint("acme", "ep_1", "")
	from.Source = "src_a"
	filtered := endpoint("acme", "ep_2", `event.source == "src_b"`)
	anywhere := endpoint("acme", "ep_3", "")
	r := router(t, from, filtered, anywhere)
	for source, want := range map[string]string{"src_a": "ep_1 ep_3", "src_b": "ep_2 ep_3", "": "ep_3"} {
		ev := invoice()
		ev.Source = source
		var got []string
		for _, ep := range matched(r, ev) {
			got = append(got, ep.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("source %q: %v, want %s", source, got, want)
		}
	}
}

// matched is what a router matches without a bound.
func matched(r *Router, ev *grapnel.Event) []*grapnel.Endpoint {
	wanted, _ := r.Match(ev, unbounded())
	return wanted
}

func unbounded() *Budget { return NewBudget(context.Background(), math.MaxInt64) }

// TestBudget: equal filters run once, all filters of a request share one budget, and the end of its
// context ends them.
func TestBudget(t *testing.T) {
	costly := func(i int) string {
		return fmt.Sprintf(`event.data.l.all(x, x != %d)`, 1000000+i)
	}
	data := []byte(`{"l":[` + strings.Repeat("0,", 999) + `0]}`)
	ev := &grapnel.Event{Tenant: "acme", Type: "a", Data: data, ContentType: grapnel.JSONType}
	build := func(n int, filter func(i int) string) *Router {
		var eps []grapnel.Endpoint
		for i := range n {
			eps = append(eps, grapnel.Endpoint{ID: fmt.Sprintf("ep_%03d", i), Tenant: "acme", Filter: filter(i)})
		}
		return router(t, eps...)
	}
	one := NewBudget(t.Context(), math.MaxInt64)
	if got, err := build(1, costly).Match(ev, one); len(got) != 1 || err != nil {
		t.Fatalf("%d endpoints, %v", len(got), err)
	}
	cost := math.MaxInt64 - one.left
	if cost < 1000 {
		t.Fatalf("a filter over 1000 elements costs %d", cost)
	}
	same := NewBudget(t.Context(), math.MaxInt64)
	if got, err := build(
		100,
		func(int) string { return costly(0) },
	).Match(ev, same); len(got) != 100 || err != nil ||
		math.MaxInt64-same.left != cost {
		t.Errorf("%d of 100 endpoints with one filter, which cost %d and not %d: %v", len(got), math.MaxInt64-same.left, cost, err)
	}
	many, b := build(100, costly), NewBudget(t.Context(), 25*cost)
	for n := range 2 { // the events of one request share it
		got, err := many.Match(ev, b)
		if want := 25 * (1 - n); len(got) != want || !errors.Is(err, ErrTooCostly) {
			t.Errorf("event %d: %d filters ran, want %d: %v", n, len(got), want, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := many.Match(ev, NewBudget(ctx, math.MaxInt64)); len(got) != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d filters ran for a caller who is gone: %v", len(got), err)
	}
	if got, err := build(100, func(int) string { return "" }).Match(ev, NewBudget(ctx, 0)); len(got) != 100 || err != nil {
		t.Errorf("%d of 100 endpoints without filter: %v", len(got), err)
	}
}
