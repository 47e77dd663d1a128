package wire

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewReplay selects deliveries to deliver again, and has the settings of the replay. The zero value
// selects all failed ones.
type NewReplay struct {
	From       *time.Time       `json:"from" form:"time" doc:"events accepted then or later"`
	To         *time.Time       `json:"to" form:"time" doc:"events accepted before then"`
	EventTypes []string         `json:"event_types" maxItems:"1000" form:"pattern" doc:"only these; a whole segment may be *"`
	Keys       []string         `json:"keys" maxItems:"1000" form:"key" doc:"only these ordering keys"`
	Status     []grapnel.Status `json:"status" enum:"delivered,failed,dropped,discarded,skipped" maxItems:"5" doc:"failed if not given; under /v1/admin/webhook-endpoints delivered, failed and dropped"`
	ErrorClass policy.Class     `json:"error_class" enum:"none,dns,connect,tls,timeout,reset,protocol,redirect,blocked,status_3xx,status_4xx,status_429,status_5xx,internal,nack,reject,lease_over" doc:"only those whose last attempt ended in this"`
	StatusCode int              `json:"status_code" minimum:"100" maximum:"599" doc:"only those whose last attempt got this response"`
	Deliveries []string         `json:"deliveries" minItems:"1" maxItems:"1000" form:"id" doc:"these finished ones, and nothing else; not together with the fields above"`
	Again      bool             `json:"again" doc:"also deliveries that were replayed with success or discarded"`
	Rate       float64          `json:"rate" exclusiveMinimum:"0" maximum:"10000" doc:"deliveries created per second; 100 if not given"`
	StopAfter  int              `json:"stop_after" minimum:"1" maximum:"1000000" doc:"stop after this number of failures in a row; none: never"`
	Canary     bool             `json:"canary" doc:"create the others only after the first one has succeeded"`
	DryRun     bool             `json:"dry_run" doc:"count and create nothing"`
	CountFor   policy.Duration  `json:"count_for" form:"count_for" doc:"with dry_run: how long to count, 1ms to 10s; after that the plan is partial. 10s if not given"`
	Reason     string           `json:"reason" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// MarshalJSON writes the fields that are set.
func (r NewReplay) MarshalJSON() ([]byte, error) { return Request(r) }

// Replay is a job that delivers again.
type Replay struct {
	Raw
	ID           string               `json:"id"`
	EndpointID   string               `json:"endpoint_id"`
	EndpointName string               `json:"endpoint_name" nullable:"true" doc:"name of the endpoint, queue or channel: its description, else its URL without scheme and query; null: it is deleted"`
	Tenant       string               `json:"tenant"`
	Status       grapnel.ReplayStatus `json:"status" enum:"running,paused,completed,cancelled,stopped" doc:"stopped: too many failures in a row, or the canary failed"`
	Reason       string               `json:"reason" nullable:"true" doc:"why it is paused, was cancelled or stopped, or is stuck"`
	Selection    Selection            `json:"selection"`
	Rate         float64              `json:"rate" doc:"most deliveries created per second"`
	StopAfter    int                  `json:"stop_after" nullable:"true" doc:"stops after this number of failures in a row; null: never"`
	Canary       bool                 `json:"canary"`
	Total        int                  `json:"total" doc:"deliveries to create, as counted at the start; those created, if they are more"`
	Made         int                  `json:"made" doc:"created so far"`
	Done         int                  `json:"done" doc:"of the created ones: finished"`
	Delivered    int                  `json:"delivered"`
	Failed       int                  `json:"failed" doc:"finished, and not delivered"`
	StartedAt    time.Time            `json:"started_at"`
	StartedBy    string               `json:"started_by" doc:"the id of an API key"`
	UpdatedAt    time.Time            `json:"updated_at"`
	FinishedAt   *time.Time           `json:"finished_at" nullable:"true"`
	ETA          *time.Time           `json:"eta" nullable:"true" doc:"when it finishes at its measured speed; null: nothing is measured yet, or its end does not depend on its speed"`
}

// MarshalJSON writes the replay as the API does.
func (r Replay) MarshalJSON() ([]byte, error) { return Encode(r) }

// Selection says which deliveries a replay delivers again. The set is fixed when the replay starts:
// the deliveries that were finished by then.
type Selection struct {
	From       *time.Time       `json:"from" nullable:"true"` // of the event's acceptance, inclusive
	To         *time.Time       `json:"to" nullable:"true"`   // exclusive
	EventTypes []string         `json:"event_types" nullable:"false" doc:"empty: any"`
	Keys       []string         `json:"keys" nullable:"false" doc:"empty: any"`
	Status     []grapnel.Status `json:"status" nullable:"false"`
	ErrorClass policy.Class     `json:"error_class" nullable:"true" doc:"of the last attempt; null: any"`
	StatusCode int              `json:"status_code" nullable:"true" doc:"of the last attempt's response; null: any"`
	Deliveries int              `json:"deliveries" nullable:"true" doc:"number of named deliveries; null: the fields above select"`
	Again      bool             `json:"again"`
}

// Item is what a replay made of one delivery.
type Item struct {
	Raw
	OriginalID string         `json:"original_id"`
	DeliveryID string         `json:"delivery_id" doc:"id of the new delivery"`
	Type       string         `json:"type" nullable:"true" doc:"of the event; null: the new delivery is deleted"`
	Key        string         `json:"key" nullable:"true" doc:"of the event; null: it has none, or the new delivery is deleted"`
	MadeAt     time.Time      `json:"made_at"`
	Status     grapnel.Status `json:"status" enum:"pending,delivered,failed,dropped,discarded,skipped" doc:"status of the new delivery; pending: not finished"`
}

// MarshalJSON writes the item as the API does.
func (i Item) MarshalJSON() ([]byte, error) { return Encode(i) }

// Plan is what a replay would do.
type Plan struct {
	Raw
	DryRun       bool     `json:"dry_run"`
	Total        int      `json:"total" doc:"deliveries that it would create"`
	ByStatus     ByStatus `json:"by_status" doc:"total, by the status of the originals"`
	Keys         int      `json:"keys" doc:"number of different keys"`
	LongestChain int      `json:"longest_chain" doc:"most deliveries of one key; they arrive one after the other"`
	Overtaken    int      `json:"overtaken" doc:"of total: a newer delivery of their key succeeded since, so they arrive after it"`
	Excluded     Excluded `json:"excluded"`
	Waiting      int      `json:"waiting" doc:"pending and held deliveries that match otherwise: they are on their way and are not replayed; at most 10000 are counted"`
	Partial      bool     `json:"partial" doc:"the count was cut short: the numbers are minimums"`
}

// MarshalJSON writes the plan as the API does.
func (p Plan) MarshalJSON() ([]byte, error) { return Encode(p) }

// ByStatus counts deliveries by final status.
type ByStatus struct {
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
	Dropped   int `json:"dropped"`
	Discarded int `json:"discarded"`
	Skipped   int `json:"skipped"`
}

// String lists the statuses that have deliveries: "5 delivered, 2 dropped".
func (b ByStatus) String() string {
	var parts []string
	for _, s := range []struct {
		n    int
		word grapnel.Status
	}{{b.Delivered, grapnel.Delivered}, {b.Failed, grapnel.Failed}, {b.Dropped, grapnel.Dropped}, {b.Discarded, grapnel.Discarded},
		{b.Skipped, grapnel.Skipped}} {
		if s.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", s.n, s.word))
		}
	}
	return strings.Join(parts, ", ")
}

// Excluded counts what matches and is left out.
type Excluded struct {
	AlreadyReplayed int `json:"already_replayed" doc:"already replayed with success"`
	Discarded       int `json:"discarded" doc:"discarded by an operator"`
	OnItsWay        int `json:"on_its_way" doc:"already being replayed"`
	Superseded      int `json:"superseded" doc:"already replayed; their latest copies match too and stand for them"`
	Tests           int `json:"tests" doc:"deliveries of test events"`
}
