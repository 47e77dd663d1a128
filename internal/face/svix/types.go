package svix

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// Options say what the room stands on. All but the bounds are needed.
type Options struct {
	Bounds   Bounds
	API      http.Handler // of Grapnel
	Tenants  Tenants
	MaxEvent int64 // bytes of one event's data
}

// Tenants has the operator's settings for tenants, in memory.
type Tenants interface {
	Terms(tenant string) grapnel.Terms
	// Accepts returns nil, or why nothing is created for a tenant: it is being deleted.
	Accepts(tenant string) error
}

// Bounds limit the work for one request.
type Bounds struct {
	// Reads is the number of requests to the API for one page of a list. A page that needs more ends
	// early, and its iterator goes on there.
	Reads int   `bound:"600" least:"12"`
	Slack int64 `bound:"64KiB" tiny:"64KiB"` // bytes of a body besides the event's data
}

// room is what all requests share. Nothing in it changes after New.
type room struct {
	Options
	mux *http.ServeMux
}

// operation is one row of the table of operations.
type operation struct {
	pattern string // method and path below /api/v1
	handle  func(*ask) (reply, error)
	alone   bool // the application in the path need not exist
	open    bool // needs no key
}

// ask is one request on its way.
type ask struct {
	*http.Request
	room   *room
	who    wire.Key // the caller, as the API names it
	tenant string   // of the application in the path; empty: the path has none
	body   []byte
	step   string // tells POSTs of this request to one path apart
	reads  int    // GETs to the API so far
}

// reply is an answer. A nil body is none.
type reply struct {
	status int
	body   any
}

// fault is an answer with an error.
type fault struct {
	status     int
	code       string
	detail     string
	spots      []spot // with 422
	retryAfter string
	challenge  string
}

func (f *fault) Error() string { return f.detail }

// spot is one thing that is wrong with a request, in the form of Svix.
type spot struct {
	Loc  []string `json:"loc"`
	Msg  string   `json:"msg"`
	Type string   `json:"type"`
}

// page is a list as Svix answers it.
type page[T any] struct {
	Data     []T     `json:"data"`
	Iterator *string `json:"iterator"`
	Prev     *string `json:"prevIterator"`
	Done     bool    `json:"done"`
}

// applicationIn is a request for an application.
type applicationIn struct {
	Name         string            `json:"name"`
	UID          *string           `json:"uid"`
	Metadata     map[string]string `json:"metadata"`
	ThrottleRate *int              `json:"throttleRate"`
	RateLimit    *int              `json:"rateLimit"`
}

type applicationOut struct {
	ID        string            `json:"id"`
	UID       string            `json:"uid,omitempty"`
	Name      string            `json:"name"`
	Metadata  map[string]string `json:"metadata"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedAt time.Time         `json:"updatedAt"`
}

// endpointIn is a request for an endpoint.
type endpointIn struct {
	URL          string            `json:"url"`
	UID          *string           `json:"uid"`
	Description  string            `json:"description"`
	Disabled     bool              `json:"disabled"`
	EventTypes   []string          `json:"eventTypes"`
	FilterTypes  []string          `json:"filterTypes"` // the older name of eventTypes
	Channels     []string          `json:"channels"`
	Secret       string            `json:"secret"`
	Metadata     map[string]string `json:"metadata"`
	Headers      map[string]string `json:"headers"`
	ThrottleRate *int              `json:"throttleRate"`
	RateLimit    *int              `json:"rateLimit"` // the older name of throttleRate
	Version      *int              `json:"version"`
}

type endpointOut struct {
	ID           string            `json:"id"`
	UID          string            `json:"uid,omitempty"`
	URL          string            `json:"url"`
	Description  string            `json:"description"`
	Disabled     bool              `json:"disabled"`
	EventTypes   []string          `json:"eventTypes,omitempty"`
	FilterTypes  []string          `json:"filterTypes,omitempty"`
	Channels     []string          `json:"channels,omitempty"`
	Metadata     map[string]string `json:"metadata"`
	ThrottleRate *int              `json:"throttleRate,omitempty"`
	RateLimit    *int              `json:"rateLimit,omitempty"`
	Version      int               `json:"version"`
	CreatedAt    time.Time         `json:"createdAt"`
	UpdatedAt    time.Time         `json:"updatedAt"`
}

// messageIn is a request for a message. The members that Grapnel cannot keep are read to be refused
// by name.
type messageIn struct {
	EventType       string          `json:"eventType"`
	EventID         *string         `json:"eventId"`
	Payload         json.RawMessage `json:"payload"`
	Data            json.RawMessage `json:"data"` // the older name of payload
	Channels        []string        `json:"channels"`
	Tags            []string        `json:"tags"`
	Application     *applicationIn  `json:"application"`
	Transformations *transforming   `json:"transformationsParams"`
	RetentionDays   *int            `json:"payloadRetentionPeriod"`
	RetentionHours  *int            `json:"payloadRetentionHours"`
	DeliverAt       *time.Time      `json:"deliverAt"`
}

// transforming has what the SDKs' helper for raw payloads sends.
type transforming struct {
	RawPayload *string         `json:"rawPayload"`
	Headers    json.RawMessage `json:"headers"`
}

type messageOut struct {
	ID        string          `json:"id"`
	EventID   string          `json:"eventId,omitempty"`
	EventType string          `json:"eventType"`
	Payload   json.RawMessage `json:"payload"`
	Channels  []string        `json:"channels,omitempty"`
	Tags      []string        `json:"tags,omitempty"`
	Timestamp time.Time       `json:"timestamp"`
	DeliverAt *time.Time      `json:"deliverAt,omitempty"` // in the answer to its creation
}

// standing is the state of a message at an endpoint.
type standing struct {
	Status      int        `json:"status"`
	StatusText  string     `json:"statusText"`
	NextAttempt *time.Time `json:"nextAttempt,omitempty"`
}

type endpointMessageOut struct {
	messageOut
	standing
}

type messageEndpointOut struct {
	endpointOut
	Metadata *struct{} `json:"metadata,omitempty"` // hides that of the endpoint
	standing
}

type attemptOut struct {
	ID         string      `json:"id"`
	MsgID      string      `json:"msgId"`
	EndpointID string      `json:"endpointId"`
	URL        string      `json:"url"`
	Response   string      `json:"response"`
	StatusCode int         `json:"responseStatusCode"`
	DurationMS int64       `json:"responseDurationMs"`
	Status     int         `json:"status"`
	StatusText string      `json:"statusText"`
	Trigger    int         `json:"triggerType"`
	Timestamp  time.Time   `json:"timestamp"`
	Msg        *messageOut `json:"msg,omitempty"`
}

// eventTypeIn is a request for an event type.
type eventTypeIn struct {
	Name         string                     `json:"name"`
	Description  string                     `json:"description"`
	Archived     bool                       `json:"archived"`
	Deprecated   bool                       `json:"deprecated"`
	Schemas      map[string]json.RawMessage `json:"schemas"`
	GroupName    string                     `json:"groupName"`
	FeatureFlag  string                     `json:"featureFlag"`
	FeatureFlags []string                   `json:"featureFlags"`
}

type eventTypeOut struct {
	Name        string                     `json:"name"`
	Description string                     `json:"description"`
	Archived    bool                       `json:"archived"`
	Deprecated  bool                       `json:"deprecated"`
	Schemas     map[string]json.RawMessage `json:"schemas,omitempty"`
	GroupName   string                     `json:"groupName,omitempty"`
	CreatedAt   time.Time                  `json:"createdAt"`
	UpdatedAt   time.Time                  `json:"updatedAt"`
}

type taskOut struct {
	ID        string         `json:"id"`
	Task      string         `json:"task"`
	Status    string         `json:"status"`
	UpdatedAt time.Time      `json:"updatedAt"`
	Data      map[string]any `json:"data"`
}
