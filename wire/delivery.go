package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// Delivery is one event for one endpoint.
type Delivery struct {
	Raw
	ID            string             `json:"id"`
	EventID       string             `json:"event_id"`
	EndpointID    string             `json:"endpoint_id"`
	EndpointName  string             `json:"endpoint_name" nullable:"true" doc:"name of the endpoint, queue or channel: its description, else its URL without scheme and query; null: it is deleted"`
	Tenant        string             `json:"tenant"`
	Type          string             `json:"type"`
	Key           string             `json:"key" nullable:"true"`
	Sequence      int64              `json:"sequence" nullable:"true" doc:"position in its lane; null: it has no lane, or joined it a moment ago"`
	Status        grapnel.Status     `json:"status" enum:"pending,held,delivered,failed,dropped,discarded,skipped"`
	ReasonCode    grapnel.ReasonCode `json:"reason_code" nullable:"true" doc:"why it failed: exhausted, permanent, rejected, expired, endpoint_gone, damaged; test: it was a test, which counts nowhere; later: it is pending until the time that its publisher asked for"`
	Reason        string             `json:"reason" doc:"one sentence that explains the state"`
	AttemptsMade  int                `json:"attempts_made"`
	NextAttemptAt *time.Time         `json:"next_attempt_at" nullable:"true"`
	CreatedAt     time.Time          `json:"created_at"`
	FinishedAt    *time.Time         `json:"finished_at" nullable:"true"`
	ReplayOf      *string            `json:"replay_of" doc:"the delivery that this one repeats"`
	Last          *Last              `json:"last" nullable:"true" doc:"the last attempt; null: none was made"`
	Marks
	PurgeAt  *time.Time       `json:"purge_at" nullable:"true" doc:"when it is purged; null: it is not finished, or is never purged"`
	DaysLeft *int             `json:"days_left" nullable:"true" doc:"days until purge_at, rounded up: 1 in the last 24 hours; 0: it may be purged now"`
	Attempts []Attempt        `json:"attempts,omitzero" doc:"only for a single delivery"`
	Message  *ChannelMessage  `json:"message,omitempty" doc:"only for a single delivery to a channel: the request that its service gets"`
	Planned  []policy.Planned `json:"planned,omitzero" doc:"the attempts that follow if each fails; only when one delivery is asked for"`
}

// MarshalJSON writes the delivery as the API does.
func (d Delivery) MarshalJSON() ([]byte, error) { return Encode(d) }

// ChannelMessage is the request that a channel's service gets for an alert.
type ChannelMessage struct {
	Method      string `json:"method" doc:"MAIL: it is a mail, and the body its text"`
	URL         string `json:"url"`
	ContentType string `json:"content_type"`
	Body        string `json:"body" doc:"made again from the event, by the channel's URL of now; credentials are [redacted]"`
}

// Last is a delivery's last attempt, as lists show it too.
type Last struct {
	StatusCode int             `json:"status_code" nullable:"true" doc:"null: there was no response"`
	ErrorClass policy.Class    `json:"error_class"`
	Duration   policy.Duration `json:"duration"`
}

// Marks are notes on a finished delivery.
type Marks struct {
	Note          string         `json:"note" nullable:"true"`
	DiscardedAt   *time.Time     `json:"discarded_at" nullable:"true" doc:"when a person discarded it: it is no dead letter any more since then"`
	DiscardReason string         `json:"discard_reason" nullable:"true"`
	ReplayedAt    *time.Time     `json:"replayed_at" nullable:"true" doc:"when it was last replayed or retried"`
	ReplayedBy    string         `json:"replayed_by" nullable:"true" doc:"the replay; null: retried by hand"`
	ReplayedAs    string         `json:"replayed_as" nullable:"true" doc:"the new delivery; null: none"`
	ReplayResult  grapnel.Status `json:"replay_result" nullable:"true" doc:"status of the new delivery; pending: not finished"`
}

// Attempt is one try of a delivery.
type Attempt struct {
	ID              string            `json:"id"`
	Number          int               `json:"number"`
	Trigger         grapnel.Trigger   `json:"trigger" enum:"schedule,manual,replay,probe,test"`
	ScheduledFor    time.Time         `json:"scheduled_for"`
	StartedAt       time.Time         `json:"started_at"`
	Duration        policy.Duration   `json:"duration"`
	Phases          Phases            `json:"phases"`
	Peer            Peer              `json:"peer,omitzero" doc:"the receiver's end of the connection; absent: none was made"`
	StatusCode      int               `json:"status_code" nullable:"true" doc:"null: there was no response"`
	ErrorClass      policy.Class      `json:"error_class"`
	Error           string            `json:"error" nullable:"true"`
	RequestHeaders  map[string]string `json:"request_headers" nullable:"true" doc:"the headers of the request; values of the endpoint's own headers, but for lone names in braces, are [redacted]; null: no request was sent"`
	ResponseHeaders map[string]string `json:"response_headers"`
	ResponseBody    string            `json:"response_body" doc:"the first 16 KiB, as text"`
	ResponseBase64  []byte            `json:"response_body_base64,omitempty" doc:"the bytes themselves, when they are not text"`
	PayloadHidden   bool              `json:"payload_hidden,omitempty" doc:"the caller may not see values of headers and bodies"`
	Erased          bool              `json:"erased,omitempty" doc:"error, headers, body and peer were erased, with the data key that had sealed them"`
	Decision        policy.Decision   `json:"decision" enum:"deliver,retry,fail,throttle,disable"`
	NextAttemptAt   *time.Time        `json:"next_attempt_at" nullable:"true"`
	PolicyRevision  int64             `json:"policy_revision" doc:"the endpoint's revision whose policy decided"`
}

// Phases are the parts of an attempt's time; zero: the phase did not happen.
type Phases struct {
	DNS       policy.Duration `json:"dns,omitzero"`
	Connect   policy.Duration `json:"connect,omitzero"`
	TLS       policy.Duration `json:"tls,omitzero"`
	FirstByte policy.Duration `json:"first_byte,omitzero" doc:"from the request written to the first byte of the response"`
	Body      policy.Duration `json:"body,omitzero"`
	Reused    bool            `json:"reused" doc:"over a connection that was already open"`
}

// Peer is the receiver's end of a connection.
type Peer struct {
	Address          string     `json:"address,omitempty" doc:"IP address"`
	Certificate      string     `json:"certificate,omitempty" doc:"the first 8 bytes of its SHA-256, in hexadecimal"`
	CertificateUntil *time.Time `json:"certificate_until,omitempty" doc:"end of its validity"`
}

// Lane is a blocked key at an endpoint: its first delivery has failed, and later ones are held
// behind it.
type Lane struct {
	Raw
	Key         string     `json:"key"`
	Since       *time.Time `json:"since" nullable:"true" doc:"when its first delivery was first attempted, or became the first"`
	Waiting     int        `json:"waiting" doc:"deliveries held behind the first; at most 10000 are counted"`
	WaitingMore bool       `json:"waiting_more" doc:"the count stopped at its limit"`
	Head        Delivery   `json:"head" doc:"its first delivery, which holds the others"`
}

// MarshalJSON writes the lane as the API does.
func (l Lane) MarshalJSON() ([]byte, error) { return Encode(l) }
