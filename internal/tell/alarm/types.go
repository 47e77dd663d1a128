package alarm

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// The rules of alarms. Channels choose them by --rule like those of alerts.
const (
	StoreFull   = "store_full"
	StoreAway   = "store_away"
	StoreBroken = "store_broken"
	CommitsFail = "commits_fail"
	Stalled     = "engine_stalled"
	NoLeader    = "no_leader"
	NodeLost    = "node_lost"
)

// Rule is the kind of an alarm. Its severity is always page.
type Rule struct {
	Name, Title string
}

var rules = []Rule{
	{StoreFull, "the store is full"},
	{StoreAway, "the store does not answer"},
	{StoreBroken, "the store failed and the server has stopped"},
	{CommitsFail, "commits fail"},
	{Stalled, "the engine stands still"},
	{NoLeader, "no node does the work of one for all"},
	{NodeLost, "the node is lost"},
}

func ruleOf(name string) Rule {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return Rule{Name: name, Title: name} // of a file that another version wrote
	}
	return rules[i]
}

// Trouble is something that is wrong now.
type Trouble struct {
	Rule string
	Node string // the id of the node that it is about; empty: this one
	Name string // of that node, for people
	Text string
	Sure bool // it has lasted already: its alarm begins at once

	Elsewhere bool // another node sees it too, and tells
}

// Health is what a node sees of itself and of the others at one moment.
type Health struct {
	Troubles []Trouble
	Unknown  []string // rules that cannot be judged now: their alarms stay as they are
	// the endpoints that want each rule, as of the configuration in memory; nil: unknown
	Listeners []Listener
}

// Listener is an endpoint that gets alarms, such as a channel.
type Listener struct {
	Endpoint *grapnel.Endpoint
	Rules    []string
}

// Sender makes one attempt; *egress.Sender is one.
type Sender interface {
	Send(ctx context.Context, d egress.Delivery) egress.Result
}

// Options are the parts that an alarm needs. None of them is the store.
type Options struct {
	Bounds Bounds
	Look   func(ctx context.Context) Health // called by one goroutine at a time; it may hang
	Sender Sender
	Path   string        // of the file
	Seal   *seal.File    // seals it; nil: it is in clear
	Name   func() string // of this server, for people
	URL    string        // of this server, for people; empty: unknown
	Log    *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Bounds are the sizes and time limits of this package; see package bounds.
type Bounds struct {
	Every  time.Duration `bound:"5s" tiny:"10ms"`  // between two rounds
	Within time.Duration `bound:"5s" tiny:"500ms"` // for a look; a longer one means that the engine stands still
	Send   time.Duration `bound:"10s" tiny:"2s"`   // for the messages of one round
	Hold   time.Duration `bound:"15s" tiny:"50ms"` // for which a trouble lasts before it is told
	Calm   time.Duration `bound:"1m" tiny:"50ms"`  // for which it is away before its end is told
	Again  time.Duration `bound:"10m" tiny:"1ms"`  // from the end of an alarm to the next of the same
	Retry  time.Duration `bound:"10s" tiny:"20ms"` // the first pause before a message is tried again
	Pause  time.Duration `bound:"5m" tiny:"40ms"`  // the longest such pause
	Retire time.Duration `bound:"1h" tiny:"1s"`    // for which the end of an alarm is tried
	Commit int           `bound:"10" least:"2"`    // commits that fail in a row, which is a trouble
	Most   int           `bound:"32" tiny:"32"`    // endpoints that get alarms
	Last   time.Duration `bound:"5s" tiny:"1s"`    // for the messages of a process that has to end
}

// Keeper has the alarms of this node.
type Keeper struct {
	o      Options
	bounds Bounds
	log    *slog.Logger
	now    func() time.Time

	writing sync.Mutex // of the file; it is locked before mu
	// of what follows, up to the metrics. It is not held while the file is written or messages are
	// sent: a last message must not wait for a disk that hangs.
	mu        sync.Mutex
	listeners []Listener
	alarms    []*Alarm
	watched   map[key]*watch
	looking   chan Health // the result of a look that has not returned; nil: none is on its way
	lookedAt  time.Time   // when that began
	saved     []byte      // what the file has
	dirty     bool        // the file may have to say something else
	unsaved   int         // failed writes in a row

	open atomic.Pointer[map[string]int] // alarms that last, by rule
	sent *prometheus.CounterVec
}

// Alarm is one trouble that is told: from its beginning until its end was told.
type Alarm struct {
	alert.Alert
	Told map[string]alert.Transition `json:"told,omitempty"` // what each endpoint was told last

	elsewhere bool                // another node tells of the beginning
	failed    map[string]failures // by endpoint
}

// failures are attempts in a row to tell an endpoint that failed.
type failures struct {
	n    int
	next time.Time // when it is tried again
}

// key is what tells alarms apart. The ids of nodes are new at each start, so an alarm about this
// node has none.
type key struct{ rule, node string }

// watch is since when a trouble is there or away.
type watch struct {
	bad, good time.Time // zero: it is the other one
	elsewhere bool      // as of the last look that found it
	ended     time.Time // of its last alarm
}

// letter is one message that is to be sent.
type letter struct {
	to    Listener
	about *Alarm
	is    alert.Transition
	mail  egress.Delivery
}
