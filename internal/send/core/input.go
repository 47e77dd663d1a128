package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Input is an event for the core: Configured, Leave, Arrived, Loaded, Finished, Recorded, Ended,
// Disabled, MadeDue, Operated, Counted, Drain or Tick.
type Input interface{ input() }

// Configured carries an endpoint's current configuration. The core copies it.
type Configured struct {
	Endpoint *grapnel.Endpoint
	Newest   int64 // the highest delivery row id when this was read: hints up to it may be about finished deliveries
	// Standing is the stored standing. It counts only when the core sees the endpoint for the first
	// time; from then on the core's own standing is newer.
	Standing store.Standing
}

// Leave hands an endpoint over to another node: the core starts nothing more of it. Left answers
// it.
type Leave struct{ Endpoint string }

// Arrived hints that deliveries became heads when events were accepted. A hint may be lost, late or
// doubled.
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
	Endpoint   string
	Delivery   int64
	Outcome    policy.Outcome
	Attempt    grapnel.Attempt // number, trigger, decision and next time are filled in by the core
	Unsendable string          // why nothing can ever be sent: ReasonDamaged, ReasonErased, or an event without body; empty: it was sent
	Foreign    bool            // the store has given the delivery's row id, or its event's, to another one: nothing was sent
	News       bool            // the event is an operational one: see grapnel.Operational
	Event      Named           // the event that was sent
}

// Recorded answers Record.
type Recorded struct {
	Changes []Change
	Results []store.Changed // parallel to Changes; absent when Err is set
	Err     error           // set: the changes may or may not have been applied
}

// Ended answers End.
type Ended struct {
	Endpoint string
	Count    int
	Err      error
}

// Disabled answers Disable. After a success the disabled endpoint also comes as Configured.
type Disabled struct {
	Endpoint string
	Err      error
}

// MadeDue answers MakeDue.
type MadeDue struct {
	Endpoint string
	Count    int
	Err      error
}

// Operated is an operator's order. Reply with the same Token answers it.
type Operated struct{ store.Order }

// Counted has the first attempts of the last hour at the endpoints where one failed, once a minute.
// It may have endpoints of other nodes too.
type Counted struct{ Failed map[string]Firsts }

// Firsts counts the first attempts at an endpoint in the last hour.
type Firsts struct{ Made, Failed int }

// Drain stops new attempts for good. Attempts in flight finish and are recorded.
type Drain struct{}

// Tick only lets time pass.
type Tick struct{}

func (Configured) input() {}
func (Leave) input()      {}
func (Arrived) input()    {}
func (Loaded) input()     {}
func (*Finished) input()  {}
func (Recorded) input()   {}
func (Ended) input()      {}
func (Disabled) input()   {}
func (MadeDue) input()    {}
func (Operated) input()   {}
func (Counted) input()    {}
func (Drain) input()      {}
func (Tick) input()       {}

// Effect is something for the shell to do: Attempt, Record, Load, End, MakeDue, Forget, Disable,
// Left or Reply.
type Effect interface{ effect() }

// Attempt is one request to send. Finished answers it.
type Attempt struct {
	Config       *grapnel.Endpoint // as of the attempt's start
	Head         store.Head
	Number       int
	Trigger      grapnel.Trigger
	ScheduledFor time.Time
	// The delivery's first attempt, held back by nothing but this node: its lane was empty, its
	// circuit closed, and no limit of its endpoint, host or tenant has refused it.
	Free bool
}

// Record is one change to be made durable. The shell gathers many into one transaction, keeps their
// order, and answers with Recorded. The core keeps the change, so the shell must not alter it.
type Record struct{ Change *Change }

// Change is a change of the store with the endpoint it belongs to.
type Change struct {
	Endpoint string
	store.Change
	News    []News // operational events to publish with it
	Subject Subject
	// Patient says that nothing waits until it is durable, so it may wait for others and share their
	// commit. A crash before the commit repeats its attempt.
	Patient bool
}

// Subject names the delivery of a change, for operational events and the log. A delivery that an
// operator named and that the core has never seen as a head has the zero Subject; such a change
// carries no News.
type Subject struct {
	Event     int64     // its row id in the store; 0: unknown
	CreatedAt time.Time // of the delivery
	Attempts  int       // before the change
	Named               // zero unless the event was read for an attempt
}

// Named is the part of an event that operational events repeat.
type Named struct{ ID, Type, Key string }

// News is an operational event for the tenant's other endpoints.
type News struct {
	Type    string // grapnel.EventDeliveryFailed, …
	Reason  string // one sentence
	Percent int    // EventEndpointFailing: percent of the way to being disabled
	Blocked bool   // EventDeliveryFailed: the key is held until an operator acts
}

// Load asks for an endpoint's heads. Loaded answers it, read after every change that was Recorded
// before.
type Load struct {
	Endpoint string
	Limit    int
}

// End asks to finish the pending deliveries of an endpoint, at most Limit of them. Ended answers
// it.
type End struct {
	Endpoint string
	Ending   store.Ending
	Limit    int
}

// MakeDue asks to make deliveries due now whose next attempt was delayed by an endpoint's outage.
// MadeDue answers it.
type MakeDue struct {
	Endpoint  string
	MakingDue store.MakingDue
	Limit     int
}

// Forget says that a deleted endpoint has no pending deliveries left.
type Forget struct{ Endpoint string }

// Disable asks for an endpoint to be disabled in the store. The core already treats it as disabled.
// Disabled answers it.
type Disable struct {
	Endpoint string
	Reason   string
	ByAnswer bool // one answer is the reason
}

// Left answers Leave once nothing of the endpoint is in flight or on its way to the store; the core
// has forgotten the endpoint. It also comes without a Leave, when the store has said that another
// node owns the endpoint.
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
func (MakeDue) effect() {}
func (Forget) effect()  {}
func (Disable) effect() {}
func (Left) effect()    {}
func (Reply) effect()   {}
