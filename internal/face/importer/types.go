package importer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

// Bounds limit the work that another system or a file can cause.
type Bounds struct {
	Objects  int           `bound:"100000" least:"8"`   // tenants, event types and endpoints of one system
	Requests int           `bound:"1000000" least:"64"` // to the other system, with their repetitions
	Page     int           `bound:"100"`                // objects in one answer
	Answer   int64         `bound:"16MiB" tiny:"16KiB"` // bytes of one answer
	File     int64         `bound:"64MiB" tiny:"64KiB"` // bytes of a CSV file
	Tries    int           `bound:"6" least:"4"`        // of one request
	Pause    time.Duration `bound:"500ms" tiny:"1ms"`   // before a request is repeated; it doubles
	Wait     time.Duration `bound:"1m" tiny:"5ms"`      // the longest pause, whatever Retry-After says
	Call     time.Duration `bound:"30s"`                // one request
	All      time.Duration `bound:"2h"`                 // reading all of the other system
}

// Remote is the API of another system.
type Remote struct {
	URL    string // such as https://api.svix.com
	Token  string
	HTTP   *http.Client // nil: a new one; redirects are never followed
	Bounds Bounds
	Tell   func(read int) // called as objects are read; nil: not called
}

// Kind is a kind of object.
type Kind string

// The kinds, in the order in which they are created.
const (
	Tenant    Kind = "tenant"
	EventType Kind = "event type"
	Endpoint  Kind = "endpoint"
)

// Want is an object as another system has it, in the terms of the API.
type Want struct {
	Kind     Kind
	ID       string         // the other system's id; of a tenant or event type: its name here
	Tenant   string         // that owns it; of a tenant: its name
	Title    string         // for people, without secrets
	Fields   map[string]any // settings, as a request has them; nil: the default
	Secret   string         // of an endpoint; empty: Grapnel makes one
	Unseen   []string       // headers whose values the other system does not show
	Schemas  []json.RawMessage
	Lost     []string // parts that are not carried over, each with the reason
	Blocked  string   // why it is not created; empty: it is
	sameName string   // label by which an endpoint of the other system's SDK is found; empty: none
}

// Found is all that another system has.
type Found struct {
	System string // svix, convoy or csv
	Wants  []Want
	Notes  []string // about all objects
}

// Fault is a fault of a file, at a place.
type Fault struct {
	Line, Column int    // from 1; the column counts bytes
	Name         string // of the column; empty: none
	Detail       string
}

func (f *Fault) Error() string {
	name := ""
	if f.Name != "" {
		name = " (" + f.Name + ")"
	}
	return fmt.Sprintf("line %d, column %d%s: %s", f.Line, f.Column, name, f.Detail)
}

// Faults are the faults that an error of CSV joins.
func Faults(err error) []error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return joined.Unwrap()
	}
	return []error{err}
}

// Refused is an answer of the other system that is none of those it should give.
type Refused struct {
	Status int
	Path   string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the other system answered %d %s to GET %s", r.Status, http.StatusText(r.Status), r.Path)
}

// Action is what a plan does with an object.
type Action string

// The actions.
const (
	Create Action = "create"
	Change Action = "change"
	Same   Action = "same" // it is as the other system has it, or as a person changed it here
	Keep   Action = "keep" // both sides differ from the last import, so a person has to decide
	Skip   Action = "skip" // it cannot be created
)

// Item is one object in a plan.
type Item struct {
	Action  Action   `json:"action"`
	Kind    Kind     `json:"kind"`
	ID      string   `json:"id"` // the other system's
	Tenant  string   `json:"tenant"`
	Title   string   `json:"title"`
	Here    string   `json:"here,omitempty"` // its id or name here
	Changes []string `json:"changes,omitempty"`
	Why     string   `json:"why,omitempty"`
	Lost    []string `json:"lost,omitempty"`
	Done    bool     `json:"done"`
	Failure string   `json:"failure,omitempty"`

	want    *Want
	rotate  bool           // the secret is replaced
	patch   map[string]any // fields that change
	schemas int            // versions of the schema that exist here
	state   string         // hash of the settings here, as the plan found them
}

// Plan says what becomes of each object.
type Plan struct {
	System string   `json:"system"`
	Items  []Item   `json:"items"`
	Notes  []string `json:"notes"`
}

// Count is the number of items with an action.
func (p *Plan) Count(a Action) (n int) {
	for i := range p.Items {
		if p.Items[i].Action == a {
			n++
		}
	}
	return n
}

// Here is the part of a Grapnel server's objects that an import compares with.
type Here struct {
	Tenants   map[string]wire.Tenant
	Types     map[string]wire.EventType
	Endpoints []wire.Endpoint
}
