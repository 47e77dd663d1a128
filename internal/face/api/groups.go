package api

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

func statsRoutes() []route {
	const about = "From totals that are written in the transaction of what they count and stay when deliveries are purged. A part into which from or to falls is " +
		"taken whole; parts in which nothing happened are left out. Hours that are older than 90 days are kept as days."
	return []route{
		{method: "GET", path: "/v1/endpoints/{id}/stats", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: endpointStats,
			name: "endpoint-stats", tag: "Statistics", summary: "Count outcomes of an endpoint's deliveries, by minute, hour or day",
			about: about + " Minutes are counted in the memory of the answering node since its start, without latencies: from says since when.",
			query: spanParams(byMinute), gives: map[int]any{200: wire.Stats{}}},
		{method: "GET", path: "/v1/stats", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: statsOfAll,
			name: "stats", tag: "Statistics", summary: "Count outcomes of all deliveries, by hour, day, type, endpoint, tenant or reason",
			about: about + " With by the answer has more figures, by group.",
			query: slices.Concat([]param{tenantParam}, spanParams(), groupParams()), gives: map[int]any{200: wire.Stats{}}},
	}
}

// statsOfAll answers by time, or with figures by group.
func statsOfAll(a *api, c *call) (answer, error) {
	if c.query.text("by") != "" {
		return a.grouped(c)
	}
	for _, name := range []string{"endpoint", "type", "groups"} {
		if c.query.text(name) != "" {
			c.query.faults.Add("?"+name, "only together with by")
		}
	}
	q, v, err := c.totals()
	if err != nil {
		return answer{}, err
	}
	parts, err := a.History.Totals(c.Context(), c.scope, q)
	return summed(v, parts), err
}

func groupParams() []param {
	return []param{
		{name: "by", one: []string{string(store.ByType), string(store.ByEndpoint), string(store.ByTenant), byReason, byHour, byDay},
			doc: "what the figures are grouped by. At most 31 days of hours or endpoints"},
		endpointParam,
		{name: "type", form: "type", doc: "with by: only events of this type. Types and endpoints are not counted together"},
		{name: "groups", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.PageMost) },
			doc: "with by=type, endpoint or tenant: the number of groups, 1 to 500; 50 if not given. Others are added up"},
	}
}

// groupQuery is which totals are asked for, and the answer before anything is in it.
func (c *call) groupQuery() (store.TotalsQuery, wire.Stats, error) {
	by := c.query.text("by")
	if c.query.text("bucket") != "" {
		c.query.faults.Add("?bucket", "not together with by; use by=hour or by=day")
	}
	switch by {
	case byHour, byDay:
		c.query.values.Set("bucket", by)
	default:
		c.query.values.Del("bucket")
	}
	q, v, err := c.totals()
	if err != nil {
		return q, v, err
	}
	v.By = by
	q.Endpoint, q.Type, q.Duplicates = c.query.text("endpoint"), c.query.text("type"), true
	if group := store.Grouping(by); group == store.ByType || group == store.ByEndpoint || group == store.ByTenant {
		q.By = group
	}
	switch {
	case q.By == store.ByEndpoint && q.Type != "", q.Type != "" && q.Endpoint != "":
		c.query.faults.Add("?type", "types are not counted by endpoint; leave one of them out")
	case q.By == store.ByType && q.Endpoint != "":
		c.query.faults.Add("?endpoint", "endpoints are not counted by type; leave one of them out")
	case q.By == store.ByEndpoint && q.To.Sub(q.From) > longestFine+day:
		c.query.faults.Add("?from", "must be at most %d days before to with by=endpoint", longestFine/day)
	}
	return q, v, c.query.faults.Err()
}

// grouped answers with figures by group.
func (a *api) grouped(c *call) (answer, error) {
	most := c.query.number("groups", c.query.bounds.PageDefault)
	q, v, err := c.groupQuery()
	if err != nil {
		return answer{}, err
	}
	list, err := a.History.Totals(c.Context(), c.scope, q)
	if err != nil {
		return answer{}, err
	}
	var all grapnel.Totals
	for i := range list {
		all.Add(&list[i].Totals)
	}
	if q.By != store.ByTime {
		list = store.Busiest(list, most)
	}
	figures := viewFigures(&all)
	v.Data, v.Totals, v.All = []wire.Bucket{}, figures.Totals, &figures
	if v.Pending, err = a.pendingOf(c, &q); err != nil {
		return answer{}, err
	}
	if v.By == byReason {
		v.Reasons = viewReasons(&all)
		return jsonAnswer(http.StatusOK, v), nil
	}
	for i := range list {
		g := wire.Group{Name: list[i].Name, Other: list[i].Name == "", Figures: viewFigures(&list[i].Totals)}
		if q.By == store.ByTime {
			g.Name, g.Other = list[i].At.UTC().Format(time.RFC3339), false
		}
		if q.By == store.ByEndpoint {
			g.EndpointName = a.endpointName(c, g.Name)
		}
		v.Groups = append(v.Groups, g)
	}
	return jsonAnswer(http.StatusOK, v), nil
}

// pendingOf counts the pending deliveries that will be in such totals when they finish; nil: they
// are not counted by type.
func (a *api) pendingOf(c *call, q *store.TotalsQuery) (*int64, error) {
	if q.Type != "" {
		return nil, nil
	}
	counts, err := a.History.Counts(c.Context(), c.scope)
	n := new(int64)
	for id, of := range counts {
		ep, there := a.Engine.Endpoint(c.scope, id)
		if there && (q.Endpoint == "" || q.Endpoint == id) && (q.Tenant == "" || q.Tenant == ep.Tenant) && !ep.Uncounted() {
			*n += of[grapnel.Pending]
		}
	}
	return n, err
}

// viewFigures computes the figures.
func viewFigures(t *grapnel.Totals) wire.Figures {
	f := wire.Figures{Totals: viewTotals(t), TimeToSuccess: viewPercentiles(t.Success.Percentile), Duplicates: t.Duplicates,
		Errors: map[string]int64{}, RetryReasons: map[string]int64{}, EndReasons: map[string]int64{}, AttemptCounts: []wire.AttemptCount{}}
	f.FirstAttemptSuccessRate = f.FirstAttemptRate()
	f.RetryRate = ratio(t.Retried, t.Attempted())
	f.AttemptsPerDelivery = ratio(t.Spent, t.Attempted())
	for attempts, n := range t.Tries {
		if n != 0 {
			f.AttemptCounts = append(f.AttemptCounts, wire.AttemptCount{Attempts: attempts, Deliveries: n})
		}
	}
	for class, n := range t.Classes.By() {
		if class != policy.ClassNone {
			f.Errors[string(class)] = n
		}
	}
	for class, n := range t.Retries.By() {
		f.RetryReasons[string(class)] = n
	}
	for code, n := range t.Reasons.By() {
		if code != grapnel.ReasonNone {
			f.EndReasons[string(code)] = n
		}
	}
	return f
}

func ratio(part, of int64) *float64 {
	if of == 0 {
		return nil
	}
	return new(float64(part) / float64(of))
}

// viewReasons lists the classes of attempts that failed, and the reason codes of deliveries.
func viewReasons(t *grapnel.Totals) []wire.Reason {
	reasons := []wire.Reason{}
	retried := t.Retries.By()
	for class, n := range t.Classes.By() {
		if class != policy.ClassNone {
			reasons = append(reasons, wire.Reason{Name: string(class), Of: "attempts", Count: n, Retried: retried[class]})
		}
	}
	for code, n := range t.Reasons.By() {
		if code != grapnel.ReasonNone {
			reasons = append(reasons, wire.Reason{Name: string(code), Of: "deliveries", Count: n})
		}
	}
	slices.SortFunc(reasons, func(a, b wire.Reason) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return reasons
}
