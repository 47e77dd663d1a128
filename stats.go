package grapnel

import (
	"math"
	"time"
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
	FirstAttemptSuccess int64   // of the delivered ones: with one attempt
	Attempts            int64   // recorded attempts, whether or not they finished a delivery
	Latency             Latency // of the attempts that got an answer
}

// Add adds other totals.
func (t *Totals) Add(o *Totals) {
	t.Delivered += o.Delivered
	t.Failed += o.Failed
	t.Dropped += o.Dropped
	t.Discarded += o.Discarded
	t.Skipped += o.Skipped
	t.Retried += o.Retried
	t.FirstAttemptSuccess += o.FirstAttemptSuccess
	t.Attempts += o.Attempts
	t.Latency.Add(&o.Latency)
}

// Ended counts a delivery that finished after this number of attempts.
func (t *Totals) Ended(status Status, attempts int) {
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

// Bucket is a part of a time with its totals.
type Bucket struct {
	At time.Time // its beginning
	Totals
}

// Latency counts durations in fixed buckets, each about a fifth wider than the one before, so that
// counts of different times and endpoints can be added.
type Latency [LatencyBuckets]uint32

// LatencyBuckets is the number of buckets. The first is below a tenth of a millisecond, the last is
// everything beyond about ten minutes.
const LatencyBuckets = 90

const perOctave = 4

// Count adds one duration.
func (l *Latency) Count(d time.Duration) { l[latencyBucket(d)]++ }

// Add adds the counts of another.
func (l *Latency) Add(o *Latency) {
	for i, n := range o {
		l[i] += n
	}
}

// Percentile is the duration that the given part (0…1) of all does not exceed; 0 without any. It is
// exact to a bucket.
func (l *Latency) Percentile(part float64) time.Duration {
	var all uint64
	for _, n := range l {
		all += uint64(n)
	}
	if all == 0 {
		return 0
	}
	rank, seen := uint64(math.Ceil(part*float64(all))), uint64(0)
	for i, n := range l {
		if seen += uint64(n); seen >= max(rank, 1) {
			return latencyBound(i)
		}
	}
	return latencyBound(LatencyBuckets - 1)
}

func latencyBucket(d time.Duration) int {
	if d <= 100*time.Microsecond {
		return 0
	}
	return min(int(math.Ceil(perOctave*math.Log2(float64(d)/float64(100*time.Microsecond)))), LatencyBuckets-1)
}

// latencyBound is the longest duration of a bucket.
func latencyBound(i int) time.Duration {
	return time.Duration(float64(100*time.Microsecond) * math.Exp2(float64(i)/perOctave)).Round(time.Microsecond)
}
