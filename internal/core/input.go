package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Input is something that happened: Configured, Leave, Arrived, Loaded, Finished, Recorded, Ended, Disabled, Hastened, Operated, Drain or
// Tick.
type Input interface{ input() }

// Configured says how an endpoint is now. The core makes a copy.
type Configured struct {
	Endpoint *grapnel.Endpoint
	Newest   int64 // the highest delivery number when this was read: hints up to it may speak of what is over
	// Standing is what the store has of the endpoint. It counts only when the core sees the endpoint for the first time; from then on
	// the core knows better.
	Standing store.Standing
}

// Leave says that another node is to decide about an endpoint: nothing of it starts any more. It is answered by Left.
type Leave struct{ Endpoint string }

// Arrived is the hint that deliveries became heads when events were accepted. It may be lost, late or doubled.
type Arrived struct{ Heads []store.Head }

// Loaded answers Load.
type Loaded struct {
	Endpoint string
	Heads    []store.Head // as Store.Heads returns them
	Limit    int          // of the Load
	Err      error
}

// Finished answers Attempt.
type Finished struct {
	Endpoint string
	Delivery int64
	Outcome  policy.Outcome
	Attempt  grapnel.Attempt // number, trigger, decision and next time are filled in by the core
	Damaged  bool            // the payload is absent or fails its checksum, so nothing was sent and nothing ever can be
	Foreign  bool            // the store has given the delivery's row id, or its event's, to another one: nothing was sent
	News     bool            // the event is an operational one: see grapnel.Operational
	Event    Named           // the event that was sent
}

// Recorded answers Record.
type Recorded struct {
	Changes []Change
	Results []store.Changed // parallel to Changes; absent when Err is set
	Err     error           // whether the changes were applied is unknown
}

// Ended answers End.
type Ended struct {
	Endpoint string
	Count    int
	Err      error
}

// Disabled answers Disable. When it went well, the endpoint as it is now comes as Configured as well.
type Disabled struct {
	Endpoint string
	Err      error
}

// Hastened answers Hasten.
type Hastened struct {
	Endpoint string
	Count    int
	Err      error
}

// Operated is what a person asks of one delivery; for Probe it stands for its endpoint. It is answered by Reply with the same Token.
type Operated struct {
	Token    int64
	Verb     Verb
	Endpoint string
	Delivery int64
	Event    int64     // its event's number; with CreatedAt it says which delivery is meant: see store.Identity
	Created  time.Time // the delivery
	Reason   string
	Audit    *grapnel.AuditEntry // kept with the change that the order makes
}

// Drain stops new attempts for good. What is in flight finishes and is recorded.
type Drain struct{}

// Tick only lets time pass.
type Tick struct{}

func (Configured) input() {}
func (Leave) input()      {}
func (Arrived) input()    {}
func (Loaded) input()     {}
func (Finished) input()   {}
func (Recorded) input()   {}
func (Ended) input()      {}
func (Disabled) input()   {}
func (Hastened) input()   {}
func (Operated) input()   {}
func (Drain) input()      {}
func (Tick) input()       {}

// Verb is what a person can do to a delivery that waits.
type Verb string

// The verbs.
const (
	RetryNow Verb = "retry"
	Skip     Verb = "skip"
	Discard  Verb = "discard"
	Probe    Verb = "probe"
)

// gives says whether the verb gives the delivery up.
func (v Verb) gives() bool { return v == Skip || v == Discard }

// Effect is something to be done: Attempt, Record, Load, End, Hasten, Forget, Disable, Left or Reply.
type Effect interface{ effect() }

// Attempt is one request to be made. It is answered by Finished.
type Attempt struct {
	Config       *grapnel.Endpoint // as it is when the attempt starts
	Head         store.Head
	Number       int
	Trigger      grapnel.Trigger
	ScheduledFor time.Time
}

// Record is one change to be made durable. The shell gathers many into one transaction, keeps their order, and answers
// with Recorded.
type Record struct{ Change Change }

// Change is a change of the store with the endpoint it belongs to.
type Change struct {
	Endpoint string
	store.Change
	News    []News // to be told with it
	Subject Subject
}

// Subject names the delivery of a change, for operational events and the log. A delivery that an operator
// named and that the core has never seen as a head has the zero Subject; such a change carries no News.
type Subject struct {
	Event     int64     // its row id in the store; 0: unknown
	CreatedAt time.Time // of the delivery
	Attempts  int       // made before the change
	Named               // zero unless the event was read for an attempt
}

// Named is the part of an event that operational events repeat.
type Named struct{ ID, Type, Key string }

// News is something to tell a tenant's other endpoints.
type News struct {
	Type    string // grapnel.EventDeliveryFailed, …
	Reason  string // one sentence
	Percent int    // EventEndpointFailing: how far the endpoint is on its way to being disabled
	Blocked bool   // EventDeliveryFailed: the key waits for a person
}

// Load asks for an endpoint's heads. It is answered by Loaded, read after everything that was Recorded before.
type Load struct {
	Endpoint string
	Limit    int
}

// End asks to finish what waits for an endpoint, at most Limit deliveries. It is answered by Ended.
type End struct {
	Endpoint string
	Ending   store.Ending
	Limit    int
}

// Hasten asks to make due at once what waits longer because of an endpoint that is back. It is answered by Hastened.
type Hasten struct {
	Endpoint  string
	Hastening store.Hastening
	Limit     int
}

// Forget says that nothing waits any more for an endpoint that was deleted.
type Forget struct{ Endpoint string }

// Disable asks for an endpoint to be disabled durably. The core already treats it so. It is answered by Disabled.
type Disable struct {
	Endpoint string
	Reason   string
}

// Left answers Leave, once nothing of the endpoint is in flight or on its way to the store: the core does not know it any more. It also
// comes unasked, when the store has said that the endpoint is another node's.
type Left struct{ Endpoint string }

// Reply answers Operated.
type Reply struct {
	Token int64
	Err   error // a *grapnel.Error, or nil
}

func (Attempt) effect() {}
func (Record) effect()  {}
func (Load) effect()    {}
func (End) effect()     {}
func (Hasten) effect()  {}
func (Forget) effect()  {}
func (Disable) effect() {}
func (Left) effect()    {}
func (Reply) effect()   {}
