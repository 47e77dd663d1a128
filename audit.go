package grapnel

import "time"

// AuditEntry records one action on an endpoint, delivery, key or policy: the actor, the action, the
// time and the reason. An entry is written in the transaction of its action and never changes.
type AuditEntry struct {
	Seq      int64 // given by the store; orders entries
	At       time.Time
	Tenant   string
	Actor    string // the id of the API key, a person or portal, or Grapnel itself
	Verb     Verb
	Endpoint string // id of an endpoint, queue, source, key, policy or event type; empty: none
	Delivery string // PlainDeliveryID; empty: none
	Reason   string // the actor's own words; may be empty; a deletion may have a name before them
}

// ActorItself is the actor of decisions by Grapnel itself.
const ActorItself = "grapnel"

// Verb is the kind of an action.
type Verb string

// The verbs.
const (
	VerbCreate  Verb = "create"
	VerbChange  Verb = "change"
	VerbPause   Verb = "pause"
	VerbResume  Verb = "resume"
	VerbDisable Verb = "disable"
	VerbEnable  Verb = "enable"
	VerbDelete  Verb = "delete"
	VerbRotate  Verb = "rotate_secret"
	VerbReveal  Verb = "reveal_secret"
	VerbTest    Verb = "test"
	VerbProbe   Verb = "probe"
	VerbRetry   Verb = "retry"
	VerbSkip    Verb = "skip"
	VerbNote    Verb = "note"
	VerbDiscard Verb = "discard"
	VerbEmpty   Verb = "empty"
	VerbErase   Verb = "erase"  // events, or a tenant; by Grapnel itself: it is done
	VerbRevoke  Verb = "revoke" // all portal links and sessions of a tenant

	VerbAcknowledge Verb = "acknowledge" // an alert or an issue; the three below: an issue
	VerbMute        Verb = "mute"
	VerbResolve     Verb = "resolve" // by a person, or by Grapnel after enough successes
	VerbReopen      Verb = "reopen"

	VerbReplay       Verb = "replay"
	VerbPauseReplay  Verb = "pause_replay"
	VerbResumeReplay Verb = "resume_replay"
	VerbCancelReplay Verb = "cancel_replay"
	VerbStopReplay   Verb = "stop_replay" // after too many failures; by Grapnel itself
)

// By is the actor of a request, and the reason given.
type By struct {
	Actor  string
	Reason string
}
