package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// Overview is whether anything is wrong, and whether it will get worse, in numbers.
type Overview struct {
	Raw
	Refuses       string             `json:"refuses" nullable:"true" doc:"why new events are refused right now, as /readyz says it; null: they are accepted"`
	Endpoints     EndpointStates     `json:"endpoints"`
	Attention     []OverviewEndpoint `json:"attention" doc:"endpoints that are not healthy, the worst first, at most 50"`
	Pending       PendingStates      `json:"pending"`
	DeadLetters   DeadLetterCount    `json:"dead_letters"`
	Ahead         []Ahead            `json:"ahead" doc:"attempts scheduled in the next 24 hours: twelve parts of five minutes, then 23 of an hour. Deliveries that an endpoint's state holds are not in it"`
	AheadLater    int64              `json:"ahead_later" doc:"attempts scheduled after that"`
	Totals        Totals             `json:"totals" doc:"deliveries and attempts of the last 24 hours"`
	Hours         []Bucket           `json:"hours" doc:"the same by the hour, the oldest first; hours in which nothing happened are left out"`
	HoursFrom     time.Time          `json:"hours_from" doc:"start of the first hour that hours covers"`
	OldestPending *time.Time         `json:"oldest_pending_at" nullable:"true" doc:"creation of the oldest pending delivery; null: nothing is pending. With pending.more, of the oldest that was counted"`
}

// MarshalJSON writes the overview as the API does.
func (o Overview) MarshalJSON() ([]byte, error) { return Encode(o) }

// EndpointStates counts endpoints by health, without queues.
type EndpointStates struct {
	All        int `json:"all"`
	Healthy    int `json:"healthy"`
	Degraded   int `json:"degraded"`
	Failing    int `json:"failing"`
	Open       int `json:"open"`
	Recovering int `json:"recovering"`
	Throttled  int `json:"throttled"`
	Paused     int `json:"paused"`
	Disabled   int `json:"disabled"`
	Unknown    int `json:"unknown"`
}

// OverviewEndpoint is an endpoint that needs attention.
type OverviewEndpoint struct {
	ID             string `json:"id"`
	Tenant         string `json:"tenant"`
	Description    string `json:"description"`
	URL            string `json:"url"`
	DisabledReason string `json:"disabled_reason"`
	Health         Health `json:"health" doc:"held is exact here"`
}

// PendingStates counts pending deliveries by what they wait for.
type PendingStates struct {
	All       int64 `json:"all" doc:"exact: the sum of the others, if more is false"`
	Ready     int64 `json:"ready" doc:"due now"`
	Scheduled int64 `json:"scheduled" doc:"due later"`
	Leased    int64 `json:"leased" doc:"messages of queues that consumers lease"`
	Held      int64 `json:"held" doc:"held by an endpoint's open circuit, pause or disablement, or by the end of their schedule"`
	Waiting   int64 `json:"waiting" doc:"behind the head of their key; 0 if more is true"`
	More      bool  `json:"more" doc:"not all were counted by what they wait for: each number but all, and each of ahead, is a lower bound"`
}

// DeadLetterCount counts dead letters.
type DeadLetterCount struct {
	All        int64                 `json:"all"`
	More       bool                  `json:"more" doc:"not all were counted: the number is a lower bound"`
	Endpoints  int                   `json:"endpoints" doc:"endpoints that have any"`
	ByEndpoint []EndpointDeadLetters `json:"by_endpoint" doc:"those with the most, at most 50"`
}

// EndpointDeadLetters counts the dead letters of an endpoint.
type EndpointDeadLetters struct {
	Endpoint string `json:"endpoint_id"`
	Count    int64  `json:"count"`
	More     bool   `json:"more" doc:"a lower bound"`
}

// Ahead is a part of the time to come. Its ends are durations, so that the answer does not change
// while nothing happens.
type Ahead struct {
	From     policy.Duration `json:"from" doc:"start, from now"`
	Until    policy.Duration `json:"until" doc:"end, from now"`
	Attempts int64           `json:"attempts" doc:"scheduled for then"`
}

// State returns the count of a state.
func (s *EndpointStates) State(state grapnel.HealthState) *int {
	switch state {
	case grapnel.HealthHealthy:
		return &s.Healthy
	case grapnel.HealthDegraded:
		return &s.Degraded
	case grapnel.HealthFailing:
		return &s.Failing
	case grapnel.HealthOpen:
		return &s.Open
	case grapnel.HealthRecovering:
		return &s.Recovering
	case grapnel.HealthThrottled:
		return &s.Throttled
	case grapnel.HealthPaused:
		return &s.Paused
	case grapnel.HealthDisabled:
		return &s.Disabled
	}
	return &s.Unknown
}

// Troubles are the states that need attention, the worst first. The last one is of an endpoint
// whose state the server does not know.
func Troubles() []grapnel.HealthState {
	return []grapnel.HealthState{grapnel.HealthOpen, grapnel.HealthDisabled, grapnel.HealthFailing, grapnel.HealthDegraded,
		grapnel.HealthThrottled, grapnel.HealthRecovering, grapnel.HealthPaused, "unknown"}
}
