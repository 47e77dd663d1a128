package grapnel

import (
	"math"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// Totals counts an endpoint's finished deliveries and attempts in a period. Totals of parts add up
// to the totals of the whole, latencies included.
type Totals struct {
	Delivered           int64 // finished deliveries, by status
	Failed              int64
	Dropped             int64
	Discarded           int64
	Skipped             int64
	Retried             int64   // of the finished ones: with more than one attempt
	FirstAttempts       int64   // recorded first attempts, whether or not their delivery is finished
	FirstAttemptSuccess int64   // of them: those that succeeded
	Attempts            int64   // recorded attempts, whether or not they finished a delivery
	Latency             Latency // of the attempts that got an answer

	Duplicates int64       // events that were published again: nothing was created; no endpoint has them
	Spent      int64       // attempts of the finished deliveries, added up
	Tries      Tries       // the finished deliveries, by number of attempts
	Success    Waits       // of the delivered ones: from creation to success
	Classes    ClassCounts // the recorded attempts, by class
	Retries    ClassCounts // the recorded attempts that left their delivery pending, by class
	Reasons    Reasons     // the finished deliveries, by reason code
}

// Add adds other totals.
func (t *Totals) Add(o *Totals) {
	t.Delivered += o.Delivered
	t.Failed += o.Failed
	t.Dropped += o.Dropped
	t.Discarded += o.Discarded
	t.Skipped += o.Skipped
	t.Retried += o.Retried
	t.FirstAttempts += o.FirstAttempts
	t.FirstAttemptSuccess += o.FirstAttemptSuccess
	t.Attempts += o.Attempts
	t.Latency.Add(&o.Latency)
	t.Duplicates += o.Duplicates
	t.Spent += o.Spent
	sum(t.Tries[:], o.Tries[:])
	sum(t.Success[:], o.Success[:])
	sum(t.Classes[:], o.Classes[:])
	sum(t.Retries[:], o.Retries[:])
	sum(t.Reasons[:], o.Reasons[:])
}

func sum[N int64 | uint64](to, more []N) {
	for i, n := range more {
		to[i] += n
	}
}

// Tried is a recorded attempt, as totals count it.
type Tried struct {
	Class    policy.Class
	Answered bool          // it got a status code
	Duration time.Duration // until the answer
	Again    bool          // the delivery stayed pending
}

// Tried counts a recorded attempt, whose number of its delivery is given.
func (t *Totals) Tried(a *Tried, number int) {
	t.Attempts++
	if number == 1 {
		t.FirstAttempts++
	}
	if a.Answered {
		t.Latency.Count(a.Duration)
	}
	class := classCell(a.Class)
	t.Classes[class]++
	if a.Again {
		t.Retries[class]++
	}
}

// Ended is a finished delivery, as totals count it.
type Ended struct {
	Status   Status
	Reason   ReasonCode
	Attempts int
	Took     time.Duration // from its creation; negative: the clock was set back
}

// Ended counts a finished delivery.
func (t *Totals) Ended(e *Ended) {
	t.Spent += int64(e.Attempts)
	t.Tries[min(e.Attempts, MostTries)]++
	t.Reasons[reasonCell(e.Reason)]++
	if e.Status == Delivered {
		t.Success.Count(e.Took)
	}
	t.ended(e.Status, e.Attempts)
}

func (t *Totals) ended(status Status, attempts int) {
	switch status {
	case Delivered:
		t.Delivered++
		if attempts == 1 {
			t.FirstAttemptSuccess++
		}
	case Failed:
		t.Failed++
	case Dropped:
		t.Dropped++
	case Discarded:
		t.Discarded++
	case Skipped:
		t.Skipped++
	}
	if attempts > 1 {
		t.Retried++
	}
}

// Bucket is a part of a time, or a group, with its totals.
type Bucket struct {
	At   time.Time // its beginning
	Name string    // of the group, if totals were asked for by group; empty: all other ones
	Totals
}

// Finished is the number of finished deliveries.
func (t *Totals) Finished() int64 {
	return t.Delivered + t.Failed + t.Dropped + t.Discarded + t.Skipped
}

// Attempted is the number of finished deliveries that had at least one attempt.
func (t *Totals) Attempted() int64 { return t.Finished() - t.Tries[0] }

// FailedAttempts is the number of recorded attempts that failed.
func (t *Totals) FailedAttempts() int64 {
	return t.Classes.all() - t.Classes[classCell(policy.ClassNone)]
}

// TriedAgain is the number of recorded attempts that left their delivery pending.
func (t *Totals) TriedAgain() int64 { return t.Retries.all() }

// MostTries is the number of attempts from which on Tries does not distinguish.
const MostTries = 16

// Tries counts deliveries by number of attempts. The last index has those with MostTries or more.
type Tries [MostTries + 1]int64

// Numbers of counts by class and by reason code. Stores write them by index, so the lists only grow
// at their end. Index 0 is of all others.
const (
	classCounts  = 20
	reasonCounts = 9
)

var (
	countedClasses = [classCounts]policy.Class{"", policy.ClassNone, policy.ClassDNS, policy.ClassConnect, policy.ClassTLS, policy.ClassTimeout,
		policy.ClassReset, policy.ClassProtocol, policy.ClassRedirect, policy.ClassBlocked, policy.ClassStatus3xx, policy.ClassStatus4xx,
		policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassInternal, policy.ClassNack, policy.ClassReject, policy.ClassLease,
		policy.ClassProxy, policy.ClassToken}
	countedReasons = [reasonCounts]ReasonCode{"other", ReasonNone, ReasonExhausted, ReasonPermanent, ReasonRejected, ReasonExpired,
		ReasonEndpointGone, ReasonDamaged, ReasonErased}
)

// ClassCounts counts attempts by class.
type ClassCounts [classCounts]int64

// Reasons counts deliveries by reason code.
type Reasons [reasonCounts]int64

func (c *ClassCounts) all() (n int64) {
	for _, count := range c {
		n += count
	}
	return n
}

func classCell(c policy.Class) int {
	return max(slices.Index(countedClasses[:], c), 0)
}

func reasonCell(r ReasonCode) int {
	return max(slices.Index(countedReasons[:], r), 0)
}

// By returns the counts that are not zero, by class. Attempts without a known class are under
// "other".
func (c *ClassCounts) By() map[policy.Class]int64 {
	by := make(map[policy.Class]int64)
	for i, class := range countedClasses {
		if i == 0 {
			class = "other"
		}
		if c[i] != 0 {
			by[class] = c[i]
		}
	}
	return by
}

// By returns the counts that are not zero, by reason code. ReasonNone has the deliveries without
// one.
func (r *Reasons) By() map[ReasonCode]int64 {
	by := make(map[ReasonCode]int64)
	for i, code := range countedReasons {
		if r[i] != 0 {
			by[code] = r[i]
		}
	}
	return by
}

// Latency counts durations in fixed buckets, each about a fifth wider than the one before, so that
// counts of different times and endpoints can be added.
type Latency [LatencyBuckets]uint64

// Waits counts longer durations in the same way.
type Waits [WaitBuckets]uint64

// The numbers of buckets, and the longest duration of the first one. The last bucket of Latency has
// everything beyond about ten minutes, that of Waits everything beyond about six weeks.
const (
	LatencyBuckets = 90
	WaitBuckets    = 128

	firstLatency = 100 * time.Microsecond
	firstWait    = time.Millisecond
	perOctave    = 4
)

// Count adds one duration.
func (l *Latency) Count(d time.Duration) { l[bucket(d, firstLatency, LatencyBuckets)]++ }

// Count adds one duration.
func (w *Waits) Count(d time.Duration) { w[bucket(d, firstWait, WaitBuckets)]++ }

// Add adds the counts of another.
func (l *Latency) Add(o *Latency) { sum(l[:], o[:]) }

// Percentile is the duration that the given part (0…1) of all does not exceed; 0 without any. It is
// exact to a bucket.
func (l *Latency) Percentile(part float64) time.Duration { return percentile(l[:], firstLatency, part) }

// Percentile is the same as that of Latency.
func (w *Waits) Percentile(part float64) time.Duration { return percentile(w[:], firstWait, part) }

func percentile(counts []uint64, first time.Duration, part float64) time.Duration {
	var all uint64
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return 0
	}
	rank, seen := uint64(math.Ceil(part*float64(all))), uint64(0)
	for i, n := range counts {
		if seen += n; seen >= max(rank, 1) {
			return longest(i, first)
		}
	}
	return longest(len(counts)-1, first)
}

func bucket(d, first time.Duration, buckets int) int {
	if d <= first {
		return 0
	}
	return min(int(math.Ceil(perOctave*math.Log2(float64(d)/float64(first)))), buckets-1)
}

// longest is the longest duration of a bucket.
func longest(i int, first time.Duration) time.Duration {
	return time.Duration(float64(first) * math.Exp2(float64(i)/perOctave)).Round(time.Microsecond)
}
