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
	Bucket string    `json:"bucket" enum:"minute,hour,day"`
	Data   []Bucket  `json:"data" doc:"the oldest first"`
	Totals Totals    `json:"totals" doc:"sums over all buckets"`

	By      string   `json:"by,omitempty" enum:"type,endpoint,tenant,reason,hour,day" doc:"of by; data is empty then"`
	Groups  []Group  `json:"groups,omitempty" doc:"with by: the busiest first, hours and days the oldest first"`
	Reasons []Reason `json:"reasons,omitempty" doc:"with by=reason: the most frequent first"`
	All     *Figures `json:"all,omitempty" doc:"with by: the figures of all groups together"`
	Pending *int64   `json:"pending,omitempty" doc:"with by: the deliveries of the selection that are pending now; not with type, by which they are not counted"`
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
	FirstAttempts       int64   `json:"first_attempts" doc:"first attempts that were made, whether or not their delivery is finished"`
	FirstAttemptSuccess int64   `json:"first_attempt_success" doc:"first attempts that succeeded"`
	Attempted           int64   `json:"attempted" doc:"finished deliveries that had at least one attempt"`
	Attempts            int64   `json:"attempts"`
	FailedAttempts      int64   `json:"failed_attempts" doc:"attempts that failed"`
	TriedAgain          int64   `json:"tried_again" doc:"attempts after which the delivery stayed pending"`
	Latency             Latency `json:"latency" doc:"latency of answered attempts; exact to a fifth"`
}

// FirstAttemptRate is the part of the first attempts that succeeded; nil without any.
func (t *Totals) FirstAttemptRate() *float64 {
	if t.FirstAttempts == 0 {
		return nil
	}
	return new(float64(t.FirstAttemptSuccess) / float64(t.FirstAttempts))
}

// Finished is the number of finished deliveries.
func (t *Totals) Finished() int64 {
	return t.Delivered + t.Failed + t.Dropped + t.Discarded + t.Skipped
}

// Latency are percentiles; nil when no attempt got an answer.
type Latency struct {
	P50 *policy.Duration `json:"p50" nullable:"true"`
	P95 *policy.Duration `json:"p95" nullable:"true"`
	P99 *policy.Duration `json:"p99" nullable:"true"`
}

// Group has the figures of an event type, an endpoint, a tenant, an hour or a day.
type Group struct {
	Name         string `json:"name" doc:"the type, endpoint or tenant, or the start of the hour or day; empty: all others"`
	EndpointName string `json:"endpoint_name" nullable:"true" doc:"with by=endpoint: name of the endpoint, queue or channel; null: it is deleted"`
	Other        bool   `json:"other" doc:"all others, added up: groups beyond the limit, and event types beyond the first 200 of a tenant in an hour"`
	Figures
}

// Figures are the totals of a group and what follows from them. docs/stats.md defines each.
type Figures struct {
	Totals
	FirstAttemptSuccessRate *float64         `json:"first_attempt_success_rate" nullable:"true" doc:"part of the first attempts that succeeded"`
	RetryRate               *float64         `json:"retry_rate" nullable:"true" doc:"part of the attempted deliveries that needed more than one attempt; attempted: finished with at least one attempt"`
	AttemptsPerDelivery     *float64         `json:"attempts_per_delivery" nullable:"true" doc:"mean attempts of the attempted deliveries"`
	AttemptCounts           []AttemptCount   `json:"attempt_counts" doc:"finished deliveries by number of attempts, none left out but zeros"`
	TimeToSuccess           Latency          `json:"time_to_success" doc:"from the creation of a delivery to its success, of the delivered ones; exact to a fifth"`
	Errors                  map[string]int64 `json:"errors" doc:"failed attempts by class"`
	RetryReasons            map[string]int64 `json:"retry_reasons" doc:"attempts after which the delivery stayed pending, by class"`
	EndReasons              map[string]int64 `json:"end_reasons" doc:"finished deliveries that have a reason code, by reason code"`
	Duplicates              int64            `json:"duplicates" doc:"events that were published or received again and created nothing; 0 by endpoint: no endpoint has them"`
}

// AttemptCount is a number of deliveries that needed the same number of attempts.
type AttemptCount struct {
	Attempts   int   `json:"attempts" doc:"16: that many or more"`
	Deliveries int64 `json:"deliveries"`
}

// Reason counts attempts of a class or finished deliveries with a reason code.
type Reason struct {
	Name    string `json:"name" doc:"a class, or a reason code"`
	Of      string `json:"of" enum:"attempts,deliveries" doc:"whether attempts or deliveries are counted"`
	Count   int64  `json:"count"`
	Retried int64  `json:"retried" doc:"of attempts: those after which the delivery stayed pending"`
}
