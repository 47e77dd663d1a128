package api

import (
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// promiseTag is the heading of promises and incidents in the reference.
const promiseTag = "Promises"

func promiseRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/slo", scope: grapnel.ScopeRead, handle: showPromises,
			bound: grapnel.Errorf(codeForbidden, "Promises are about all tenants; the API key is bound to one tenant."),
			name:  "slo", tag: promiseTag, summary: "Show how the server keeps its promises",
			about: "Over 28 days, from counts in slots of five minutes, as of the last half minute. What callers and receivers do wrong is not counted. " +
				"Needs a key that is bound to no tenant.",
			gives: map[int]any{200: wire.SLO{}}},
	}
}

func showPromises(a *api, c *call) (answer, error) {
	r := a.Promises()
	return jsonAnswer(http.StatusOK, viewReport(&r)), nil
}

func viewReport(r *promise.Report) wire.SLO {
	v := wire.SLO{At: r.At, Since: timeOf(r.Since), WindowDays: promise.Days, Promises: []wire.Promise{}, Latency: []wire.PromiseLatency{}}
	for i := range r.Promises {
		v.Promises = append(v.Promises, viewPromise(&r.Promises[i], r.At))
	}
	for _, l := range r.Latency {
		if l.Known {
			v.Latency = append(v.Latency, wire.PromiseLatency{Of: l.Of.String(),
				Latency: wire.Latency{P50: new(policy.Duration(l.P50)), P95: new(policy.Duration(l.P95)), P99: new(policy.Duration(l.P99))}})
		}
	}
	return v
}

func viewPromise(is *promise.Verdict, now time.Time) wire.Promise {
	v := wire.Promise{Name: is.Name, Title: is.Title, Says: is.Says, Objective: is.Share, Good: is.Good, Bad: is.Bad,
		State:    stateOfPromise(is),
		Sentence: is.Budget(now), BudgetLeft: is.Left, BurnRate: is.Rate, Until: timeOf(is.Until), Burns: []wire.PromiseBurn{},
		Days: []wire.PromiseDay{}}
	if is.Share > 0 && is.Share < 1 {
		v.BudgetTime = new(policy.Duration(is.Time()))
	}
	for _, b := range is.Burning {
		v.Burns = append(v.Burns, wire.PromiseBurn{Severity: b.Severity, Long: policy.Duration(b.Long),
			Short: policy.Duration(b.Short), Rate: b.Rate,
			Threshold: b.Threshold, LongRatio: b.LongRatio, ShortRatio: b.ShortRatio, Events: int64(b.Events), Fires: b.Fires})
	}
	for i := range is.Days {
		d := &is.Days[i]
		v.Days = append(v.Days, wire.PromiseDay{Date: d.Date.Format(time.DateOnly), Good: d.Good, Bad: d.Bad, Gaps: d.Gaps})
	}
	return v
}

func stateOfPromise(v *promise.Verdict) string {
	switch {
	case v.Share == 0:
		return "informative"
	case v.Broken():
		return "broken"
	case v.Fires() != "":
		return "burning"
	case !v.Judged:
		return "few"
	}
	return "kept"
}
