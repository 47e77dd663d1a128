// Package minutes counts what happened at each endpoint in each of the last 60 minutes.
//
// The stores total outcomes by the hour, in the transaction of what they count. A Keeper reads the
// totals of the present hour at the end of each minute, for all endpoints in one query. The count
// of a minute is the difference between two readings. So no attempt and no commit does anything for
// it, and its counts add up to those of the hours.
//
// What holds here:
//
//   - A minute that is not known is never shown as one in which nothing happened. Minutes are in
//     memory, so none is known from before the first reading, or from before a reading that failed.
//   - Memory is bounded (Bounds.Rows). If endpoints are too many, fewer minutes are known.
//
// It does not promise that the limit between two minutes is exact: a commit during a reading counts
// in one of the two.
package minutes

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Minutes int           `bound:"60"`               // known at most
	Rows    int           `bound:"200000"`           // pairs of an endpoint and a minute in which something happened
	Within  time.Duration `bound:"20s" tiny:"400ms"` // a reading takes no longer
	Late    time.Duration `bound:"5s"`               // after the end of a minute, for the first reading of a row
	Window  time.Duration `bound:"1h" tiny:"5m"`     // of the first attempts that are counted; at most an hour
}

// Store is the part of a store that is read.
type Store interface {
	Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error)
}

// Options configure a Keeper. Store and Log are required.
type Options struct {
	Bounds Bounds // zero: their defaults
	Store  Store
	Log    *slog.Logger
	Now    func() time.Time // time.Now
	// nil, or gets the first attempts of the last hour at the endpoints where one failed, after each
	// reading
	Firsts func(failed map[string]core.Firsts)
}

// Keeper has the minutes of one store.
type Keeper struct {
	o      Options
	bounds Bounds

	last  time.Time             // the end of the last minute that was read; of Read alone
	bases map[time.Time]reading // of an hour, at that time; of Read alone

	mu    sync.Mutex
	known []minute // the oldest first, one after the other
	end   time.Time
}

// reading is the totals of an hour, by endpoint.
type reading struct {
	of    map[string]count
	whole bool // no other endpoint had anything
}

// minute is what happened in a minute.
type minute struct {
	at    time.Time
	of    map[string]count // by endpoint; those at which something happened
	whole bool             // no other endpoint had anything
}

// count is a grapnel.Totals without distributions, but for the deliveries without an attempt, the
// failed attempts, and those that were followed by another.
type count struct {
	delivered, failed, dropped, discarded, skipped, retried, firsts, first, attempts int64
	untried, failures, again                                                         int64
}

// New returns a Keeper. Nothing is known before Run.
func New(o Options) *Keeper {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Keeper{o: o, bounds: bounds.Fill(o.Bounds)}
}

// Run reads at once and then at the end of each minute until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		if err := k.Read(ctx); err != nil && ctx.Err() == nil {
			k.o.Log.Warn("reading totals failed; heartbeats by the minute begin anew", "err", err)
		}
		now := k.o.Now()
		if !backoff.Wait(ctx.Done(), now.Truncate(time.Minute).Add(time.Minute).Sub(now)) {
			return
		}
	}
}

// Read takes the totals of now as those at the end of the last full minute. It is for one
// goroutine.
func (k *Keeper) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.bounds.Within)
	defer cancel()
	end := k.o.Now().UTC().Truncate(time.Minute)
	if end.Equal(k.last) { // the clock was set back, or a timer ended early
		return nil
	}
	follows := end.Sub(k.last) == time.Minute
	bases, m := map[time.Time]reading{}, minute{end.Add(-time.Minute), map[string]count{}, true}
	// What ended in the last moment of an hour may be committed after the reading at its end, so
	// that hour is read once more.
	hour, open := end.Truncate(time.Hour), end.Add(-2*time.Minute).Truncate(time.Hour)
	for at := hour.Add(-time.Hour); !at.After(end); at = at.Add(time.Hour) {
		base, started := k.bases[at]
		r := base
		if !started || !at.Before(open) {
			var err error
			if r, err = k.hour(ctx, at); err != nil {
				k.last, k.bases = time.Time{}, nil
				k.keep(nil, end)
				return err
			}
		}
		m.add(r, base, !started || base.whole)
		bases[at] = r
	}
	k.last, k.bases = end, bases
	if follows {
		k.keep(&m, end)
	} else {
		if k.o.Now().Sub(end) > k.bounds.Late { // the next minute would lack its beginning
			k.last, k.bases = time.Time{}, nil
		}
		k.keep(nil, end)
	}
	if k.o.Firsts != nil {
		k.o.Firsts(k.firsts(end, bases[hour], bases[hour.Add(-time.Hour)]))
	}
	return nil
}

// add counts what an hour has more than its reading of a minute ago. An endpoint that this one does
// not have had nothing then, if that reading was whole; else its count is not known.
func (m *minute) add(now, base reading, whole bool) {
	m.whole = m.whole && now.whole && whole
	for id, c := range now.of {
		before, counted := base.of[id]
		if more := c.minus(before); (counted || whole) && more.any() {
			sum := m.of[id]
			m.of[id] = sum.plus(more)
		}
	}
}

// hour reads the totals of an hour.
func (k *Keeper) hour(ctx context.Context, at time.Time) (reading, error) {
	list, err := k.o.Store.Totals(ctx, store.Everyone(), store.TotalsQuery{From: at, To: at.Add(time.Hour), By: store.ByEndpoint})
	if err != nil {
		return reading{}, err
	}
	r := reading{make(map[string]count, len(list)), true}
	for i := range list {
		if list[i].Name == "" {
			r.whole = false
			continue
		}
		r.of[list[i].Name] = of(&list[i].Totals)
	}
	return r, nil
}

// keep adds a minute; nil: nothing is known before end.
func (k *Keeper) keep(m *minute, end time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end = end
	if m == nil {
		k.known = nil
		return
	}
	k.known = append(k.known, *m)
	rows := 0
	for i := range k.known {
		rows += len(k.known[i].of)
	}
	for len(k.known) > k.bounds.Minutes || rows > k.bounds.Rows && len(k.known) > 1 {
		rows -= len(k.known[0].of)
		k.known = k.known[1:]
	}
}

// firsts counts the first attempts in the window that ends at end, at the endpoints where one
// failed, from the totals of that hour and of the one before. It is exact if all minutes of both are
// known. Of an hour of which minutes are unknown, such as after a restart, what the known ones lack
// is spread evenly over the unknown ones.
func (k *Keeper) firsts(end time.Time, now, before reading) map[string]core.Firsts {
	hour, from := end.Truncate(time.Hour), end.Add(-min(k.bounds.Window, time.Hour))
	of := map[string]core.Firsts{}
	for _, r := range []reading{now, before} {
		for id, c := range r.of {
			if _, counted := of[id]; counted || c.firsts == c.first {
				continue
			}
			made, good := k.within(id, hour, end, from, now.of[id])
			earlier, fine := k.within(id, hour.Add(-time.Hour), hour, from, before.of[id])
			f := core.Firsts{Made: int(math.Round(made + earlier)), Failed: int(math.Round(made + earlier - good - fine))}
			if f.Failed > 0 {
				of[id] = f
			}
		}
	}
	return of
}

// within is the part of an endpoint's count from one time to another that is not before from: its
// first attempts, and those of them that succeeded.
func (k *Keeper) within(id string, at, until, from time.Time, all count) (made, good float64) {
	unknown, inside := 0, 0 // minutes
	for ; at.Before(until); at = at.Add(time.Minute) {
		c, known := k.at(at, id)
		if !known {
			unknown++
		}
		all.firsts, all.first = all.firsts-c.firsts, all.first-c.first
		if at.Before(from) {
			continue
		}
		made, good = made+float64(c.firsts), good+float64(c.first)
		if !known {
			inside++
		}
	}
	part := 1.0 // of what no minute has; without an unknown one it was recorded since the last reading
	if unknown > 0 {
		part = float64(inside) / float64(unknown)
	}
	return made + part*float64(all.firsts), good + part*float64(all.first)
}

// at is an endpoint's count of a minute; false: it is not known. Known minutes follow each other up
// to the last reading.
func (k *Keeper) at(minute time.Time, id string) (count, bool) {
	i := len(k.known) - int(k.end.Sub(minute)/time.Minute)
	if i < 0 {
		return count{}, false
	}
	c, counted := k.known[i].of[id]
	return c, counted || k.known[i].whole
}

// Of returns the minutes of an endpoint that are known: all from one time to another. Those in
// which nothing happened are left out. Without any the two times are equal.
func (k *Keeper) Of(endpoint string) (from, to time.Time, list []grapnel.Bucket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := len(k.known)
	for ; first > 0; first-- {
		m := &k.known[first-1]
		if _, counted := m.of[endpoint]; !counted && !m.whole {
			break
		}
	}
	from, to = k.end, k.end
	for i := range k.known[first:] {
		m := &k.known[first+i]
		if i == 0 {
			from = m.at
		}
		if c, counted := m.of[endpoint]; counted {
			list = append(list, grapnel.Bucket{At: m.at, Totals: c.totals()})
		}
	}
	return from, to, list
}

func of(t *grapnel.Totals) count {
	return count{t.Delivered, t.Failed, t.Dropped, t.Discarded, t.Skipped, t.Retried, t.FirstAttempts,
		t.FirstAttemptSuccess, t.Attempts, t.Tries[0], t.FailedAttempts(), t.TriedAgain()}
}

func (c count) totals() grapnel.Totals {
	return grapnel.Totals{Delivered: c.delivered, Failed: c.failed, Dropped: c.dropped, Discarded: c.discarded, Skipped: c.skipped,
		Retried: c.retried, FirstAttempts: c.firsts, FirstAttemptSuccess: c.first, Attempts: c.attempts,
		Tries: grapnel.Tries{c.untried}, Classes: grapnel.ClassCounts{c.failures}, Retries: grapnel.ClassCounts{c.again}}
}

// minus is the growth since an earlier count. Totals become lower only when a tenant's rows are
// deleted; the growth is 0 then.
func (c count) minus(o count) count {
	return c.with(o, func(now, before int64) int64 { return max(now-before, 0) })
}

func (c count) plus(o count) count {
	return c.with(o, func(one, other int64) int64 { return one + other })
}

func (c count) with(o count, f func(int64, int64) int64) count {
	return count{f(c.delivered, o.delivered), f(c.failed, o.failed), f(c.dropped, o.dropped), f(c.discarded, o.discarded),
		f(c.skipped, o.skipped), f(c.retried, o.retried), f(c.firsts, o.firsts), f(c.first, o.first), f(c.attempts, o.attempts),
		f(c.untried, o.untried), f(c.failures, o.failures), f(c.again, o.again)}
}

func (c count) any() bool { return c != count{} }
