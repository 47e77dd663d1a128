package wire

import (
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// Causes say why deliveries to an endpoint fail.
type Causes struct {
	Raw
	EndpointID string         `json:"endpoint_id"`
	Sentence   string         `json:"sentence" doc:"the answer in a sentence"`
	From       *time.Time     `json:"from" nullable:"true" doc:"the oldest delivery that was looked at; null: there is none"`
	Failures   int            `json:"failures" doc:"of the deliveries that were looked at, those whose first attempt failed"`
	Successes  int            `json:"successes"`
	More       bool           `json:"more" doc:"there are older deliveries, which were not looked at"`
	Causes     []Cause        `json:"causes" doc:"what failures have in common and successes have not, the best explanation first"`
	Groups     []FailureGroup `json:"groups" doc:"failures that look alike, the largest group first"`
}

// MarshalJSON writes the causes as the API does.
func (c Causes) MarshalJSON() ([]byte, error) { return Encode(c) }

// Cause is something that failures are associated with.
type Cause struct {
	Kind      string     `json:"kind" enum:"secret,certificate,address,endpoint,settings,type,field,size,time_limit,outage,since"`
	Name      string     `json:"name,omitempty" doc:"of a field: its path in the data"`
	Value     string     `json:"value,omitempty" doc:"of a field: as JSON; absent: the field is missing; of a time limit: its duration"`
	Bytes     int        `json:"bytes,omitempty" doc:"of a size: data of this many bytes or more fail"`
	From      *time.Time `json:"from,omitempty" doc:"of a span of time: its first failure"`
	To        *time.Time `json:"to,omitempty" doc:"its last failure"`
	Failures  int        `json:"failures" doc:"failures with it"`
	Successes int        `json:"successes" doc:"successes with it"`
	Evidence  float64    `json:"evidence" doc:"how much less likely chance is, in powers of e"`
	Sentence  string     `json:"sentence"`
	Filter    string     `json:"filter,omitempty" doc:"finds these deliveries in the list of deliveries"`
}

// FailureGroup is failures that look alike.
type FailureGroup struct {
	ErrorClass policy.Class `json:"error_class"`
	StatusCode int          `json:"status_code" nullable:"true" doc:"null: there was no response"`
	Answer     string       `json:"answer" doc:"the response's body without numbers, ids and times"`
	Count      int          `json:"count"`
	First      time.Time    `json:"first"`
	Last       time.Time    `json:"last"`
	DeliveryID string       `json:"delivery_id" doc:"its last delivery"`
}
