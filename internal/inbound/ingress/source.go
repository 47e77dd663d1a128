package ingress

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// source is a grapnel.Source prepared for use, with the row of its scheme. It never changes;
// another revision makes another one.
type source struct {
	grapnel.Source
	bounds *Bounds
	how    *scheme.Verifier
	typeOf *match.Expression
	keyOf  *match.Expression
	idOf   *match.Expression
	meter  *meter
	limit  *bucket
	fault  error // why it cannot work
}

// meter has the counters of a source, for all its revisions.
type meter struct {
	// time of the last verified request, in nanoseconds since 1970; 0: none
	verified   atomic.Int64
	aside      *allowance    // for unverified requests that are set aside
	conflicts  *allowance    // of requests that contradict an earlier one
	unverified backoff.Tally // requests that could not be verified
	faults     backoff.Tally // requests that were refused although nothing was wrong with them
	excess     backoff.Tally // requests that were refused for what the tenant has already
	refused    refusals
}

// allowance limits the requests of one kind that a source sets aside: requests a second, and bytes
// an hour.
type allowance struct{ requests, bytes *bucket }

func newAllowance(b *Bounds) *allowance {
	return &allowance{newBucket(&grapnel.RateLimit{PerSecond: float64(b.AsideRate), Burst: b.AsideBurst}),
		newBucket(&grapnel.RateLimit{PerSecond: float64(b.AsideBytes) / time.Hour.Seconds(), Burst: int(b.AsideBytes)})}
}

// take counts one, or says how long it is until one may be set aside.
func (a *allowance) take(now time.Time, of *grapnel.Aside) (wait time.Duration, ok bool) {
	if wait, ok = a.requests.take(now); !ok {
		return wait, false
	}
	size := len(of.Body) + len(of.Path)
	for _, h := range of.Headers {
		size += len(h.Name) + len(h.Value)
	}
	return a.bytes.takeAll(now, size)
}

// vouched says whether a request was verified within a time. A source without verification is never
// vouched for.
func (m *meter) vouched(now time.Time, within time.Duration) bool {
	last := m.verified.Load()
	return last != 0 && now.Sub(time.Unix(0, last)) < within
}

// prepare makes a source ready. before is the one of another revision, or nil.
func prepare(src grapnel.Source, before *source, b *Bounds) *source {
	s := &source{Source: src, bounds: b}
	if before != nil {
		s.meter = before.meter
	} else {
		s.meter = &meter{aside: newAllowance(b), conflicts: newAllowance(b)}
	}
	if before != nil && sameLimit(src.RateLimit, before.RateLimit) {
		s.limit = before.limit
	} else {
		s.limit = newBucket(src.RateLimit)
	}
	if faults := CheckVerify(&src.Verify); len(faults) > 0 {
		s.fault = errors.New(faults[0].Field + " " + faults[0].Detail)
	}
	how := settings(&src.Verify, src.PublicURL, b.Found)
	var err error
	if how.Ignored, err = canonical.ParseIgnored(src.Dedupe.Ignore); err != nil {
		s.fault = err
	}
	s.how = scheme.New(how)
	for _, e := range []struct {
		name, text string
		compile    func(string) (*match.Expression, error)
		into       **match.Expression
	}{
		{"type", src.Type, match.CompileExpression, &s.typeOf}, {"key", src.Key, match.CompileExpression, &s.keyOf},
		{"event_id", src.EventID, match.CompileID, &s.idOf},
	} {
		if e.text == "" {
			continue
		}
		if *e.into, err = e.compile(e.text); err != nil {
			s.fault = fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return s
}

func sameLimit(a, b *grapnel.RateLimit) bool {
	return a == b || a != nil && b != nil && *a == *b
}

const redacted = "[redacted]"

// hides says whether a header's value is not stored.
func (s *source) hides(name string) bool {
	return scheme.IsSecret(name) || s.how.HidesHeader(name)
}
