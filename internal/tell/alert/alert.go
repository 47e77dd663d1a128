// Package alert decides which alerts fire and which channels get which message: rules as data, the
// measurement of facts against them, the state of each alert, and which messages carry the changes
// of state. It is pure: no clock, no I/O, no randomness. Package alerting runs it.
//
// What holds here:
//
//   - An alert is one rule about one subject. It fires, and it is resolved before it fires again.
//   - Every transition (fired, resolved, repeated) has exactly one message for each channel. A
//     message carries one transition, or many as a digest.
//   - A value at a threshold does not flap: an alert resolves only once the value is clearly back
//     for a while, and fires again only after the pause of its rule.
//   - The id of a message follows from its transitions, so a repeated commit creates the same
//     event.
//
// It does not promise that a message arrives: delivering is the job of deliveries.
package alert

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// Kinds of the documents that this package encodes.
const (
	KindOpen     = "alert"          // an alert that fires or is acknowledged, by its id
	KindResolved = "alert_resolved" // the same alert after its resolution, by the same id
	KindMessages = "alert_messages" // one per tenant: messages that wait for a digest, and the state of the digest
	KindRule     = "alert_rule"     // changes of a rule
)

// operatorsID stands for the tenant in ids of the operator's documents. No tenant has the name.
const operatorsID = "*"

// MessagesID is the id of the only document of KindMessages that a tenant has. Each tenant's is
// another one, so that lists have pages.
func MessagesID(tenant string) string { return cmp.Or(tenant, operatorsID) }

// SettingID is the id of a tenant's document of KindRule.
func SettingID(tenant, rule string) string { return rule + "@" + cmp.Or(tenant, operatorsID) }

// IDPrefix begins the ids of alerts.
const IDPrefix = "alr"

// State is the state of an alert.
type State string

// The states.
const (
	Firing       State = "firing"
	Acknowledged State = "acknowledged" // it still holds, and a person takes care of it: it is not repeated
	Resolved     State = "resolved"
)

// Subject is the object that an alert is about.
type Subject struct {
	Kind string `json:"kind"` // endpoint, queue, source, tenant, key or server
	ID   string `json:"id"`
	Name string `json:"name"`
}

// about is the subject of what is about a whole tenant, or about all tenants.
func about(tenant string) Subject {
	if tenant != "" {
		return Subject{Kind: "tenant", ID: tenant, Name: tenant}
	}
	return Subject{Kind: "server"}
}

// Key identifies an alert among those that are open: there is at most one with each key.
type Key struct{ Rule, Tenant, Kind, ID, Part string }

// Alert is one instance of a rule: from its firing to its resolution.
type Alert struct {
	ID             string    `json:"id"`
	Rule           string    `json:"rule"`
	Tenant         string    `json:"tenant,omitempty"` // empty: the operator's
	Severity       string    `json:"severity"`
	Subject        Subject   `json:"subject"`
	Part           string    `json:"part,omitempty"` // of the subject that it is about; empty: all of it
	State          State     `json:"state"`
	Title          string    `json:"title"`
	Text           string    `json:"text"`
	Value          float64   `json:"value"`     // as measured at the firing
	Threshold      float64   `json:"threshold"` // in force at the firing
	Since          time.Time `json:"since"`
	AcknowledgedAt time.Time `json:"acknowledged_at,omitzero"`
	AcknowledgedBy string    `json:"acknowledged_by,omitempty"`
	ResolvedAt     time.Time `json:"resolved_at,omitzero"`
	RepeatedAt     time.Time `json:"repeated_at,omitzero"` // of the last repetition
	Messages       []Sent    `json:"messages,omitempty"`   // the oldest first, at most MostMessages
}

// Sent is one message that carried a transition of an alert.
type Sent struct {
	Transition Transition `json:"transition"`
	Event      string     `json:"event"` // the id of the event; that of a digest may be in the future
	At         time.Time  `json:"at"`
	Operator   bool       `json:"operator,omitempty"` // it is an event of the operator, for channels of all tenants
}

// Copy is the alert as the operator's channels of all tenants get it: it names its tenant, and
// knows of their messages alone.
func (a *Alert) Copy() *Alert {
	c := *a
	c.Title = cut(a.Tenant+": "+a.Title, mostTitle)
	c.Messages = slices.DeleteFunc(slices.Clone(a.Messages), func(s Sent) bool { return !s.Operator })
	return &c
}

// Copied notes the messages that a copy of the alert has got since.
func (a *Alert) Copied(c *Alert) {
	for _, m := range c.Messages {
		if !m.Operator {
			m.Operator = true
			a.sent(m)
		}
	}
}

// MostMessages is the number of messages that an alert remembers: the first, and the latest.
const MostMessages = 16

// Key returns the alert's key.
func (a *Alert) Key() Key { return Key{a.Rule, a.Tenant, a.Subject.Kind, a.Subject.ID, a.Part} }

// sent notes a message. Beyond MostMessages the second is forgotten, because the first one tells
// how the alert began.
func (a *Alert) sent(s Sent) {
	if len(a.Messages) >= MostMessages {
		a.Messages = append(a.Messages[:1:1], a.Messages[2:]...)
	}
	a.Messages = append(a.Messages, s)
}

// Encode is the body of the alert's document.
func (a *Alert) Encode() []byte { return encode(a) }

// Decode reads the body of an alert's document.
func Decode(body []byte) (*Alert, error) { return decode[*Alert](body, "a stored alert") }

func decode[T any](body []byte, what string) (v T, err error) {
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("alert: %s cannot be read: %w", what, err)
	}
	return v, nil
}

func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		// the types of this package hold only text, finite numbers and times
		panic("alert: cannot be encoded: " + err.Error())
	}
	return body
}

// The longest title and text of an alert, in bytes. Parts of them come from people and receivers.
const (
	mostTitle = 160
	mostText  = 1000
)

// cut shortens text to a number of bytes, at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return say.Cut(text, most-len("…"))
}

// Transition is a change of an alert that people are told of.
type Transition string

// The transitions.
const (
	Fire    Transition = "fired"
	Resolve Transition = "resolved"
	Repeat  Transition = "repeated" // it still fires, and no person has acknowledged it
	Worsen  Transition = "worse"    // its severity has risen
	Ease    Transition = "eased"    // its severity has fallen; without a message
)

// NewID derives the id of an alert from its key and the time of its firing.
func NewID(k Key, at time.Time) string {
	return derived(IDPrefix, at, k.Rule, k.Tenant, k.Kind, k.ID, k.Part)
}

// EventID derives the id of the event with a message. An alert has each transition once at a time.
func EventID(alert string, t Transition, at time.Time) string {
	return derived(grapnel.EventPrefix, at, "alert", alert, string(t))
}

// digestID derives the id of the event with a digest: about holds what tells it from the others.
func digestID(tenant string, at time.Time, about ...string) string {
	return derived(grapnel.EventPrefix, at, append([]string{"digest", tenant}, about...)...)
}

func derived(prefix string, at time.Time, parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d", parts, at.UnixMicro()))
	return grapnel.NewID(prefix, at, bytes.NewReader(sum[:]))
}
