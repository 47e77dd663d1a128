package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func statsRoutes() []route {
	span := []param{
		{name: "from", form: "time", doc: "30 days before to if not given; 24 hours for hours"},
		{name: "to", form: "time", doc: "now if not given"},
		{name: "bucket", one: []string{"hour", "day"}, doc: "the parts of the answer; hours for up to 7 days if not given. At most 31 days of hours and 3660 days of days"},
	}
	const about = "From totals that are written in the transaction of what they count and stay when deliveries are purged. A part into which from or to falls is " +
		"taken whole; parts in which nothing happened are left out. Hours that are older than 90 days are kept as days."
	return []route{
		{method: "GET", path: "/v1/endpoints/{id}/stats", scope: grapnel.ScopeRead, handle: stats,
			name: "endpoint-stats", tag: "Statistics", summary: "What became of an endpoint's deliveries, by hour or day", about: about,
			query: span, gives: map[int]any{200: statsView{}}},
		{method: "GET", path: "/v1/stats", scope: grapnel.ScopeRead, handle: stats,
			name: "stats", tag: "Statistics", summary: "What became of all deliveries, by hour or day", about: about,
			query: append([]param{tenantParam}, span...), gives: map[int]any{200: statsView{}}},
	}
}

// statsView is what happened within a time.
type statsView struct {
	From   stamp        `json:"from" doc:"the beginning of the first part"`
	To     stamp        `json:"to" doc:"the end of the last part"`
	Bucket string       `json:"bucket" enum:"hour,day"`
	Data   []bucketView `json:"data" nullable:"false" doc:"the oldest first"`
	Totals Totals       `json:"totals" doc:"of all parts"`
}

// bucketView is what happened within a part of it.
type bucketView struct {
	At stamp `json:"at" doc:"its beginning"`
	Totals
}

// Totals count deliveries when they end and attempts when they are recorded.
type Totals struct {
	Delivered           int64       `json:"delivered"`
	Failed              int64       `json:"failed" doc:"became dead letters"`
	Dropped             int64       `json:"dropped"`
	Discarded           int64       `json:"discarded"`
	Skipped             int64       `json:"skipped"`
	Retried             int64       `json:"retried" doc:"of those that ended: more than one attempt was made"`
	FirstAttemptSuccess int64       `json:"first_attempt_success" doc:"of those that were delivered: one attempt was made"`
	Attempts            int64       `json:"attempts"`
	Latency             latencyView `json:"latency" doc:"of the attempts that got an answer; exact to a fifth"`
}

// latencyView are percentiles; null when no attempt got an answer.
type latencyView struct {
	P50 *span `json:"p50" nullable:"true"`
	P95 *span `json:"p95" nullable:"true"`
	P99 *span `json:"p99" nullable:"true"`
}

func viewTotals(t *grapnel.Totals) Totals {
	part := func(p float64) *span {
		if d := t.Latency.Percentile(p); d > 0 {
			s := span(d)
			return &s
		}
		return nil
	}
	return Totals{
		Delivered: t.Delivered, Failed: t.Failed, Dropped: t.Dropped, Discarded: t.Discarded, Skipped: t.Skipped, Retried: t.Retried,
		FirstAttemptSuccess: t.FirstAttemptSuccess, Attempts: t.Attempts, Latency: latencyView{part(.5), part(.95), part(.99)},
	}
}

const (
	day           = 24 * time.Hour
	longestFine   = 31 * day
	longestCoarse = 3660 * day
	hoursUpTo     = 7 * day // of what is given without saying how
	hoursSince    = day
	daysSince     = 30 * day
)

// stats adds up what happened at one endpoint, or at all.
func stats(a *api, c *call) (answer, error) {
	q, v, err := c.totals()
	if err != nil {
		return answer{}, err
	}
	if q.Endpoint = c.PathValue("id"); q.Endpoint != "" {
		if err := a.known(c, q.Endpoint); err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
			return answer{}, err
		} else if err != nil {
			// Totals outlive everything else.
			if past, err := a.History.Totals(c.Context(), c.scope, store.TotalsQuery{Endpoint: q.Endpoint, Daily: true}); err != nil || len(past) == 0 {
				return answer{}, cmp.Or(err, store.ErrNotFound("endpoint"))
			}
		}
	}
	parts, err := a.History.Totals(c.Context(), c.scope, q)
	if err != nil {
		return answer{}, err
	}
	var all grapnel.Totals
	for i := range parts {
		v.Data = append(v.Data, bucketView{stamp(parts[i].At), viewTotals(&parts[i].Totals)})
		all.Add(&parts[i].Totals)
	}
	v.Totals = viewTotals(&all)
	return jsonAnswer(http.StatusOK, v), nil
}

// totals is which totals are asked for, and the answer before anything is in it.
func (c *call) totals() (store.TotalsQuery, statsView, error) {
	from, to := c.query.span()
	bucket := c.query.text("bucket")
	if to.IsZero() {
		to = c.now.UTC()
	}
	if bucket == "" {
		bucket = "day"
		if from.IsZero() || to.Sub(from) <= hoursUpTo {
			bucket = "hour"
		}
	}
	width, most, since := day, longestCoarse, daysSince
	if bucket == "hour" {
		width, most, since = time.Hour, longestFine, hoursSince
	}
	if from.IsZero() {
		from = to.Add(-since)
	}
	switch {
	case to.Before(from):
		c.query.faults.Add("?from", "must not be after to, or after now")
	case to.Sub(from) > most:
		c.query.faults.Add("?from", "must be at most %d days before to when the parts are a %s long", most/day, bucket)
	}
	from = from.Truncate(width)
	if cut := to.Truncate(width); !cut.Equal(to) {
		to = cut.Add(width)
	}
	return store.TotalsQuery{Tenant: c.query.text("tenant"), From: from, To: to, Daily: bucket == "day"},
		statsView{From: stamp(from), To: stamp(to), Bucket: bucket, Data: []bucketView{}}, c.query.faults.Err()
}
