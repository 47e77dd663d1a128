package trace

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Kind is the role of a span, as OTLP numbers it.
type Kind int

// The kinds that Grapnel makes.
const (
	Client   Kind = 3
	Producer Kind = 4
	Consumer Kind = 5
)

// Span is one finished operation.
type Span struct {
	Context
	Parent     [8]byte // of the same trace; zero: none
	Link       Context // a span that caused this one; not valid: none
	Name       string
	Kind       Kind
	Start, End time.Time
	Failed     string // why it failed; empty: it did not
	Attributes []Attribute
}

// Attribute is a named text or number.
type Attribute struct {
	Key     string
	text    string
	number  int64
	numeric bool
}

// Text is an attribute with a text.
func Text(key, text string) Attribute { return Attribute{Key: key, text: text} }

// Number is an attribute with a whole number.
func Number(key string, n int64) Attribute { return Attribute{Key: key, number: n, numeric: true} }

// About returns the attributes of an event in every span about it.
func About(ev *grapnel.Event) []Attribute {
	return []Attribute{
		Text("messaging.system", "grapnel"), Text("messaging.message.id", ev.ID), Text("cloudevents.event_id", ev.ID),
		Text("cloudevents.event_type", ev.Type), Text("grapnel.tenant", ev.Tenant),
	}
}

// scope names the maker of the spans.
const scope = "github.com/grapnelhq/grapnel"

// The status codes of OTLP. A span that did not fail has none.
const statusError = 2
