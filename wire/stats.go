package wire

import (
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// Stats counts finished deliveries and attempts in a period.
type Stats struct {
	Raw
	From   time.Time `json:"from" doc:"start of the first bucket"`
	To     time.Time `json:"to" doc:"end of the last bucket"`
	Bucket string    `json:"bucket" enum:"hour,day"`
	Data   []Bucket  `json:"data" doc:"the oldest first"`
	Totals Totals    `json:"totals" doc:"sums over all buckets"`
}

// MarshalJSON writes the statistics as the API does.
func (s Stats) MarshalJSON() ([]byte, error) { return Encode(s) }

// Bucket is a part of that time. Parts in which nothing happened are left out.
type Bucket struct {
	At time.Time `json:"at" doc:"start of the bucket"`
	Totals
}

// Totals counts deliveries when they end and attempts when they are recorded.
type Totals struct {
	Delivered           int64   `json:"delivered"`
	Failed              int64   `json:"failed" doc:"became dead letters"`
	Dropped             int64   `json:"dropped"`
	Discarded           int64   `json:"discarded"`
	Skipped             int64   `json:"skipped"`
	Retried             int64   `json:"retried" doc:"finished deliveries with more than one attempt"`
	FirstAttemptSuccess int64   `json:"first_attempt_success" doc:"deliveries that succeeded at the first attempt"`
	Attempts            int64   `json:"attempts"`
	Latency             Latency `json:"latency" doc:"latency of answered attempts; exact to a fifth"`
}

// Latency are percentiles; nil when no attempt got an answer.
type Latency struct {
	P50 *policy.Duration `json:"p50" nullable:"true"`
	P95 *policy.Duration `json:"p95" nullable:"true"`
	P99 *policy.Duration `json:"p99" nullable:"true"`
}
