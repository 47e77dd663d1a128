package api

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

func overviewRoutes() []route {
	return []route{{method: "GET", path: "/v1/overview", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: overview,
		name: "overview", tag: "Statistics",
		summary: "Count endpoints by health, pending deliveries by state, dead letters and attempts ahead",
		about: "The numbers of the dashboard's first page and of grapnel top. " +
			"Numbers of pending deliveries and dead letters are of this moment. " +
			"At most 20,000 heads of keys and 20,000 dead letters are counted; with more of them, more is true.",
		query: []param{tenantParam}, gives: map[int]any{200: wire.Overview{}}}}
}

// mostAttention is how many endpoints an overview names in each list.
const mostAttention = 50

// survey is an overview being made.
type survey struct {
	wire.Overview
	c        *call
	now      time.Time
	tenant   string
	totals   map[time.Time]*grapnel.Totals
	ahead    store.Backlog
	letters  []wire.EndpointDeadLetters
	troubles []trouble
}

// trouble is an endpoint that is not healthy.
type trouble struct {
	endpoint *grapnel.Endpoint
	health   *grapnel.Health
	held     int64
}

// overview counts the endpoints and deliveries in scope.
func overview(a *api, c *call) (answer, error) {
	s := survey{c: c, now: c.now.UTC(), tenant: c.query.text("tenant"), totals: map[time.Time]*grapnel.Totals{}}
	if err := s.count(a); err != nil {
		return answer{}, err
	}
	if a.Ready != nil {
		if why := a.Ready(); why != nil {
			s.Refuses = Plainly(why)
		}
	}
	return jsonAnswer(http.StatusOK, s.view()), nil
}

// count adds the numbers.
func (s *survey) count(a *api) error {
	var (
		list    []store.Backlog
		parts   []grapnel.Bucket
		eps     []*grapnel.Endpoint
		healths []grapnel.Health
		ask     errgroup.Group // three questions to which other parts of the server know the answers
	)
	s.HoursFrom = s.now.Add(-day).Truncate(time.Hour)
	ask.Go(func() (err error) {
		list, err = a.History.Backlogs(s.c.Context(), s.c.scope, s.tenant, s.now, a.Bounds.Counted)
		return err
	})
	ask.Go(func() (err error) {
		parts, err = a.History.Totals(s.c.Context(), s.c.scope,
			store.TotalsQuery{Tenant: s.tenant, From: s.HoursFrom, To: s.now.Truncate(time.Hour).Add(time.Hour)})
		return err
	})
	ask.Go(func() error {
		var ids []string
		eps, ids = a.wanted(s.c.scope, func(ep *grapnel.Endpoint) bool {
			return s.tenant == "" || ep.Tenant == s.tenant || ep.Channel != nil // an operator's channel gets alerts of all tenants
		})
		healths = a.Engine.Healths(ids)
		return nil
	})
	if err := ask.Wait(); err != nil {
		return err
	}
	held := map[string]bool{} // as Engine.Held says it of all endpoints
	for i := range healths {
		if eps[i].Status != grapnel.EndpointEnabled || healths[i].State == grapnel.HealthOpen {
			held[eps[i].ID] = true
		}
	}
	for i := range list {
		s.backlog(&list[i], held[list[i].Endpoint])
	}
	for i := range healths {
		if !eps[i].Receives() {
			continue // they are no endpoints of customers; only their backlog counts
		}
		health := &healths[i]
		state := cmp.Or(health.State, "unknown")
		s.Endpoints.All++
		*s.Endpoints.State(state)++
		if state == grapnel.HealthHealthy {
			continue
		}
		health.State = state
		t := trouble{endpoint: eps[i], health: health}
		if at, found := sort.Find(len(list), func(k int) int { return cmp.Compare(eps[i].ID, list[k].Endpoint) }); found {
			t.held = list[at].Pending
		}
		s.troubles = append(s.troubles, t)
	}
	for i := range parts {
		if s.totals[parts[i].At] == nil {
			s.totals[parts[i].At] = new(grapnel.Totals)
		}
		s.totals[parts[i].At].Add(&parts[i].Totals)
	}
	return nil
}

// backlog adds the pending deliveries and the dead letters of an endpoint.
func (s *survey) backlog(b *store.Backlog, held bool) {
	p := &s.Pending
	p.All, p.Leased, p.Waiting, p.Held = p.All+b.Pending, p.Leased+b.Leased, p.Waiting+b.Waiting, p.Held+b.Blocked
	p.More = p.More || b.More
	if held {
		p.Held += b.Ready + b.Scheduled()
	} else {
		p.Ready, p.Scheduled = p.Ready+b.Ready, p.Scheduled+b.Scheduled()
		s.ahead.Later += b.Later
		for part, n := range b.Ahead {
			s.ahead.Ahead[part] += n
		}
	}
	if !b.Oldest.IsZero() && (s.OldestPending == nil || b.Oldest.Before(*s.OldestPending)) {
		s.OldestPending = &b.Oldest
	}
	s.DeadLetters.All += b.Dead
	s.DeadLetters.More = s.DeadLetters.More || b.DeadMore
	if b.Dead > 0 {
		s.letters = append(s.letters, wire.EndpointDeadLetters{Endpoint: b.Endpoint, Count: b.Dead, More: b.DeadMore})
	}
}

// view is the overview of the added numbers.
func (s *survey) view() *wire.Overview {
	slices.SortStableFunc(s.letters, func(a, b wire.EndpointDeadLetters) int { return cmp.Compare(b.Count, a.Count) })
	s.DeadLetters.Endpoints = len(s.letters)
	s.DeadLetters.ByEndpoint = append([]wire.EndpointDeadLetters{}, s.letters[:min(len(s.letters), mostAttention)]...)
	s.AheadLater = s.ahead.Later
	var from policy.Duration
	for part, n := range s.ahead.Ahead {
		until := policy.Duration(store.AheadEnd(part))
		s.Ahead = append(s.Ahead, wire.Ahead{From: from, Until: until, Attempts: n})
		from = until
	}
	ranks := wire.Troubles()
	rank := func(t *trouble) int { return slices.Index(ranks, t.health.State) }
	slices.SortStableFunc(s.troubles, func(a, b trouble) int { return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.held, a.held)) })
	s.Attention = []wire.OverviewEndpoint{}
	for i := range s.troubles[:min(len(s.troubles), mostAttention)] {
		t := &s.troubles[i]
		s.Attention = append(s.Attention, wire.OverviewEndpoint{ID: t.endpoint.ID, Tenant: t.endpoint.Tenant, Description: t.endpoint.Description,
			URL: withoutQuery(t.endpoint.URL), DisabledReason: t.endpoint.DisabledReason, Health: viewHealth(*t.health, int(t.held), s.now)})
	}
	s.Hours = []wire.Bucket{}
	var all grapnel.Totals
	for _, at := range slices.SortedFunc(maps.Keys(s.totals), time.Time.Compare) {
		s.Hours = append(s.Hours, wire.Bucket{At: at, Totals: viewTotals(s.totals[at])})
		all.Add(s.totals[at])
	}
	s.Totals = viewTotals(&all)
	return &s.Overview
}
