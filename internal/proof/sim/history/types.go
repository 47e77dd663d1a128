package history

import "time"

// event joins all calls that carried one event id.
type event struct {
	id       string
	key      string
	hash     string
	possible bool // some call was not refused: it may have been accepted
	ok       bool // some call was answered with success
	invoke   time.Duration
	returned time.Duration // of the earliest success
	later    time.Duration // Publish.NotBefore
	surely   []string
	perhaps  []string
	seen     bool // a delivery or a receipt of it exists
}

// delivery joins the system's and the receiver's records of one delivery.
type delivery struct {
	id       string
	event    *event // nil: never published
	eventID  string
	endpoint *Endpoint
	final    *Final // nil: the system does not know it
	position int64
	receipts []*Receipt // by start
	aside    []*Receipt // of a past that the store has lost
}

// lane is a sequence of deliveries. A delivery without order is alone in its lane.
type lane struct {
	endpoint   *Endpoint
	ordered    bool
	deliveries []*delivery
}

type pair struct{ event, endpoint string }

type checker struct {
	History
	events     []*event
	deliveries []*delivery
	lanes      []*lane
	originals  map[pair][]*delivery
	endpoint   map[string]*Endpoint
	byID       map[string]*event
	byDelivery map[string]*delivery
	actions    map[string][]*Action          // by delivery, of Skip and Retry
	stopping   map[string][]*Action          // by endpoint, all other kinds, in the order of their calls
	lived      map[*Endpoint][]time.Duration // when an endpoint's answer may have reached the sender, in order
	took       map[*Endpoint][]time.Duration // when an endpoint with a breaker took an event, in order
	found      []Violation
}
