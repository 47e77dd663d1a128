package wire

import (
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// Issue is failed attempts of one endpoint that look alike, and the decisions of people about them.
type Issue struct {
	Raw
	ID           string       `json:"id" doc:"follows from endpoint, error class, status code and answer"`
	EndpointID   string       `json:"endpoint_id"`
	EndpointName string       `json:"endpoint_name" nullable:"true" doc:"name of the endpoint, queue or channel: its description, else its URL without scheme and query; null: it is deleted"`
	Tenant       string       `json:"tenant"`
	Sentence     string       `json:"sentence" doc:"the failure, its beginning, its counts, and its state"`
	State        string       `json:"state" enum:"open,acknowledged,muted,resolved"`
	ErrorClass   policy.Class `json:"error_class" doc:"other: failures of the endpoint that got no issue of their own, because there are too many different ones"`
	StatusCode   int          `json:"status_code" nullable:"true" doc:"null: there was no response"`
	Answer       string       `json:"answer" doc:"the response's body without numbers, ids and times"`
	FirstSeen    time.Time    `json:"first_seen"`
	LastSeen     time.Time    `json:"last_seen"`
	Since        time.Time    `json:"since" doc:"the first failure after the last resolution; first_seen if there was none"`
	EventsFrom   *time.Time   `json:"events_from" nullable:"true" doc:"a replay of it has no event that was accepted before; null: any"`
	Failures     int64        `json:"failures" doc:"failed attempts, as an indication: a crash loses the count of the last seconds"`
	Deliveries   int          `json:"deliveries" doc:"number of deliveries that failed"`
	Keys         int          `json:"keys" doc:"number of ordering keys that they have"`
	Approximate  bool         `json:"approximate" doc:"deliveries or keys is an estimate: it is exact below 128, and within about a tenth above"`
	DeliveryIDs  []string     `json:"delivery_ids" doc:"newest deliveries, at most 5"`
	HoursFrom    time.Time    `json:"hours_from" doc:"begin of the first of the hours"`
	Hours        []int64      `json:"hours" doc:"failures of each of the 48 hours up to now"`
	Regressions  int          `json:"regressions" doc:"failures after a resolution that opened it again"`
	ResolvesIn   int          `json:"resolves_after" doc:"successes of the endpoint after the last failure that resolve it; doubled by each regression"`
	MutedUntil   *time.Time   `json:"muted_until" nullable:"true"`
	ReopenedAt   *time.Time   `json:"reopened_at" nullable:"true"`
	ResolvedAt   *time.Time   `json:"resolved_at" nullable:"true" doc:"the last time"`
	Resolution   string       `json:"resolution" nullable:"true" doc:"why it was resolved"`
	ChangedAt    *time.Time   `json:"changed_at" nullable:"true" doc:"of its state"`
	ChangedBy    string       `json:"changed_by" nullable:"true" doc:"the id of an API key, a person, or grapnel"`
	Owner        string       `json:"owner" nullable:"true" doc:"the person or team that takes care of it"`
	Note         string       `json:"note" nullable:"true"`
	Why          *Causes      `json:"why,omitempty" doc:"what these failures have in common and successes have not; only in the answer about one issue, and not while others are being explained"`
}

// MarshalJSON writes the issue as the API does.
func (i Issue) MarshalJSON() ([]byte, error) { return Encode(i) }

// IssueChanges changes what people say about an issue.
type IssueChanges struct {
	State      string     `json:"state" enum:"open,acknowledged,muted,resolved"`
	MutedUntil *time.Time `json:"muted_until" form:"time" doc:"with the state muted: at most 30 days ahead; 24 hours if not given"`
	Owner      string     `json:"owner" maxLength:"100" form:"line" doc:"a person or team; null or empty: none"`
	Note       string     `json:"note" maxLength:"2000" doc:"for the next person who looks at it; null or empty: none"`
	Reason     string     `json:"reason" minLength:"1" maxLength:"500" doc:"why; kept in the audit, and with a resolution in the issue"`
}

// MarshalJSON writes the fields that are set.
func (c IssueChanges) MarshalJSON() ([]byte, error) { return Request(c) }

// NewIssueReplay has the settings of a replay of an issue's dead letters.
type NewIssueReplay struct {
	Rate      float64 `json:"rate" exclusiveMinimum:"0" maximum:"10000" doc:"deliveries created per second; 100 if not given"`
	StopAfter int     `json:"stop_after" minimum:"1" maximum:"1000000" doc:"stop after this number of failures in a row; none: never"`
	Canary    bool    `json:"canary" doc:"create the others only after the first one has succeeded"`
	DryRun    bool    `json:"dry_run" doc:"count and create nothing"`
	Reason    string  `json:"reason" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// MarshalJSON writes the fields that are set.
func (r NewIssueReplay) MarshalJSON() ([]byte, error) { return Request(r) }
