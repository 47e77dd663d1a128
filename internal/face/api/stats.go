package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// The groupings of statistics, some of which are buckets. Those of hours and days are by time, and
// reasons are counters of the totals of the whole time.
const (
	byReason = "reason"
	byMinute = "minute" // a bucket of one endpoint, and no grouping
	byHour   = "hour"
	byDay    = "day"
)

func spanParams(more ...string) []param {
	doc := "size of a bucket; hour for up to 7 days if not given. At most 31 days of hours and 3660 days of days"
	if len(more) > 0 {
		doc += "; minute has the last 60 full minutes, without from and to"
	}
	return []param{
		{name: "from", form: "time", doc: "30 days before to if not given; 24 hours for hours"},
		{name: "to", form: "time", doc: "now if not given"},
		{name: "bucket", one: append(more, byHour, byDay), doc: doc},
	}
}

var totalFields = pairOf[grapnel.Totals, wire.Totals]("Attempted", "FailedAttempts", "TriedAgain", "Latency")

func viewTotals(t *grapnel.Totals) (v wire.Totals) {
	totalFields.show(t, &v)
	v.Attempted, v.FailedAttempts, v.TriedAgain = t.Attempted(), t.FailedAttempts(), t.TriedAgain()
	v.Latency = viewPercentiles(t.Latency.Percentile)
	return v
}

func viewPercentiles(percentile func(float64) time.Duration) wire.Latency {
	return wire.Latency{P50: spanOf(percentile(.5)), P95: spanOf(percentile(.95)), P99: spanOf(percentile(.99))}
}

const (
	day           = 24 * time.Hour
	longestFine   = 31 * day
	longestCoarse = 3660 * day
	hoursUpTo     = 7 * day // the longest range that gets hours by default
	hoursSince    = day
	daysSince     = 30 * day
)

// endpointStats adds up what happened at one endpoint.
func endpointStats(a *api, c *call) (answer, error) {
	id := c.PathValue("id")
	if c.query.text("bucket") == byMinute {
		for _, name := range []string{"from", "to"} {
			if c.query.text(name) != "" {
				c.query.faults.Add("?"+name, "not together with bucket=minute")
			}
		}
		if err := c.query.faults.Err(); err != nil {
			return answer{}, err
		}
		if err := a.counted(c, id); err != nil {
			return answer{}, err
		}
		v := wire.Stats{From: c.now.UTC().Truncate(time.Minute), To: c.now.UTC().Truncate(time.Minute), Bucket: byMinute}
		var parts []grapnel.Bucket
		if a.Minutes != nil {
			v.From, v.To, parts = a.Minutes.Of(id)
		}
		return summed(v, parts), nil
	}
	q, v, err := c.totals()
	if err != nil {
		return answer{}, err
	}
	if err := a.counted(c, id); err != nil {
		return answer{}, err
	}
	q.Endpoint = id
	parts, err := a.History.Totals(c.Context(), c.scope, q)
	return summed(v, parts), err
}

// counted fails for an endpoint that has no totals in scope.
func (a *api) counted(c *call, endpoint string) error {
	if err := a.known(c, endpoint); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		return err
	}
	// Totals outlive everything else.
	past, err := a.History.Totals(c.Context(), c.scope, store.TotalsQuery{Endpoint: endpoint, Daily: true})
	if err != nil || len(past) == 0 {
		return cmp.Or(err, store.ErrNotFound("endpoint"))
	}
	return nil
}

func summed(v wire.Stats, parts []grapnel.Bucket) answer {
	var all grapnel.Totals
	for i := range parts {
		v.Data = append(v.Data, wire.Bucket{At: parts[i].At, Totals: viewTotals(&parts[i].Totals)})
		all.Add(&parts[i].Totals)
	}
	v.Totals = viewTotals(&all)
	return jsonAnswer(http.StatusOK, v)
}

// totals is which totals are asked for, and the answer before anything is in it.
func (c *call) totals() (store.TotalsQuery, wire.Stats, error) {
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
		c.query.faults.Add("?from", "must be at most %d days before to with buckets of a %s", most/day, bucket)
	}
	from = from.Truncate(width)
	if cut := to.Truncate(width); !cut.Equal(to) {
		to = cut.Add(width)
	}
	return store.TotalsQuery{Tenant: c.query.text("tenant"), From: from, To: to, Daily: bucket == "day"},
		wire.Stats{From: from, To: to, Bucket: bucket}, c.query.faults.Err()
}
