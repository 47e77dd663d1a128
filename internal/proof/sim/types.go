package sim

import (
	"math/rand/v2"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

// Options of a run.
type Options struct {
	Seed   uint64
	Mutant Mutant // a bug put into the simulated shell or store; the checker must see it
	Tidy   bool   // operators replay finished deliveries, and expired rows are purged
	Tiny   bool   // all bounds of the core are as small as they may be, or a little more
	Wishes bool   // receivers answer with webhook-delivery now and then
	Later  bool   // publishers ask for deliveries at a later time now and then
	Back   bool   // the store goes back to an earlier state now and then, while the node runs
	Trace  func(at time.Duration, line string)
}

// stage is the part of a run's state that does not depend on the number of nodes.
type stage struct {
	options   Options
	rand      *rand.Rand
	agenda    agenda
	base      time.Time // the wall clock when the run starts
	model     *memory.Store
	healing   bool
	byID      map[string]*published
	committed map[string][]string     // event id → endpoints that were matched when it was committed
	over      map[int64]time.Duration // when deliveries ended
	history   history.History
	excesses  []string
	trying    int // publishes without a known success
	steps     int
	token     int64
	orders    map[int64]func(error)
}

// world is the state of one run.
type world struct {
	stage
	skew  time.Duration // offset of the node's clock since the run started
	store store.Store   // the model, behind faults and mutants
	plan  plan

	node      *node // nil: it is down
	endpoints []*receiver
	back      int       // number of times the store went back
	wellAt    time.Time // when the backlog of the faults should have drained
	reruns    []*rerun
	replayed  int                // deliveries created by replays
	purged    []grapnel.Delivery // as last seen
}

// node is one life of the server: a core and the simulated shell around it. A crash ends it. Its
// steps in progress then have no effect, because every step first checks whether its node is still
// the live one.
type node struct {
	w       *world
	core    *core.Core
	step    func(core.Input) // take; a field, since what take starts ends with further steps
	queue   []core.Change    // to be recorded, in order
	busy    bool             // a commit is under way
	waits   bool             // changes wait, the first of them since the time of since
	since   time.Duration
	wakes   time.Time // time of the planned wake
	leaving bool      // it is draining
	born    time.Duration
	flying  int                      // attempts
	again   int                      // retries among them
	againOf map[string]int           // retries, by tenant
	hosts   map[string]int           // attempts, by destination and tenant
	events  map[int64]*grapnel.Event // accepted here, by row id
	perHost int
	missed  map[int64]bool // deliveries whose hint was lost: the core finds them when it polls
}

// receiver is the receiver of an endpoint.
type receiver struct {
	w       *world
	config  grapnel.Endpoint
	open    []*request // in progress
	down    bool
	slow    bool
	begun   []time.Duration // when the attempts of the last second began
	watch   watch
	enabled time.Duration // time of the last enabling
}

// request is one POST in flight.
type request struct {
	from    *node
	attempt core.Attempt
	event   *grapnel.Event
	receipt history.Receipt
	over    bool
}

// watch models one endpoint's health from its sender's requests alone, without the core's state. It
// models a circuit that opens after consecutive failures, which is the kind of the policies here.
type watch struct {
	rules policy.Breaker
	bad   int  // endpoint-wide failures in a row
	open  bool // only probes may be sent
	era   int  // rises with every opening and closing: attempts that began in an earlier era do not count
	began map[int64]int

	probing   int
	probedAt  time.Duration // when the circuit opened, or the last failed probe began
	probeFrom time.Duration // when the probe in flight began
	hold      time.Duration // end of a pause that the endpoint asked for
	back      bool          // it has recovered, and has no outcome since
	steady    bool          // it has not failed since it recovered
	fresh     int           // attempts begun since then

	strikes int           // from recorded outcomes: see observed
	earned  bool          // it reached its limit and must be disabled
	since   time.Duration // the later of the last recorded success and the last enabling; pauses do not count
	paused  time.Duration // start of the last pause
	pauser  *node         // the life in which it was paused
	stops   int           // number of times it was disabled
	judged  time.Duration // when the core decided last to disable it
}

// cluster is the state of one run.
type cluster struct {
	restart func(*slot) // start; a field, since a node that starts may crash and start again
	stage
	lease   time.Duration
	shards  *shardBook
	plan    troubles
	slots   []*slot
	targets []*receiving
	events  []*published
	pauses  int
	late    int
}

// slot is a machine on which nodes live, one after the other.
type slot struct {
	name   string
	skew   time.Duration
	cut    bool          // the store is unreachable from here
	cutAt  time.Duration // start of the cut
	cutEnd time.Duration
	deaf   bool // reaches only the store
	lives  int
	slept  time.Duration // total time for which the machine was suspended: its monotonic clock is behind by this much
	member *member       // nil: it is down
}

// member is one life of one of several nodes: a core and the modelled shell around it. Its steps go
// through later, so that a dead node does nothing, and a frozen node gets its input when it
// resumes.
type member struct {
	c    *cluster
	slot *slot
	id   string // another one for each life
	core *core.Core
	step func(core.Input) // handle; a field, since what handle starts ends with further steps

	queue     []core.Change
	recording bool
	wakes     time.Time
	conf      store.Config
	calls     int // of the store, under way
	gone      bool
	draining  bool
	closing   bool          // the core takes no more inputs
	frozen    time.Duration // frozen until then
	troubled  time.Duration // when a fault last kept it from the store; below zero: never

	held          map[int]*holding
	nodes         []store.Node
	there         []store.Shard
	looked        time.Duration // below zero: not since something changed
	renewed       time.Duration
	round, rounds int // the round in progress, or 0; the number of rounds so far
	highest       []int64

	must   map[string]store.Standing // recorded standings of endpoints when they were taken over, until a newer one
	loads  map[string]bool           // endpoints whose page was read since they were taken over
	stale  map[string][]store.Head   // for ReadsTooEarly
	leaves map[string]bool           // endpoints that the core was told to leave
}

// troubles are the faults that a seed enables, each with a probability.
type troubles struct {
	crash, stop, pause, cut                          float64
	storeError, storeUnknown, slow                   float64
	hintLost, hintDouble, hintLate, loadLate, peer   float64
	receiverDown, receiverSlow, answerLost, operator float64
}

// holding is a shard that a node has.
type holding struct {
	epoch   int64
	until   time.Duration // by whichever of its own clocks is ahead: the wall clock, or the monotonic one, which stops with the machine
	slept   time.Duration // how long the machine had been suspended, in all, when that was found out
	leaving map[string]bool
	posts   []*post // in flight
	cut     bool
}

// Mutant is a bug that a run can be given on purpose, to prove that the promises would notice it.
type Mutant string

// receiving is the receiver of an endpoint.
type receiving struct {
	c          *cluster
	id         string
	tenant     string
	most       int // requests at once
	open       []*post
	down, slow bool
}

// post is one request in flight.
type post struct {
	from    *member
	held    *holding
	attempt core.Attempt
	receipt history.Receipt
	started time.Time
	over    bool // for the sender
	shut    bool // for the receiver
}

// kind is a kind of policy, with the parameters that the checker needs.
type kind struct {
	json   string
	limits history.Endpoint
}

// rerun is a replay.
type rerun struct {
	id     string
	r      *receiver
	meant  []grapnel.Delivery // the selected deliveries, as of its creation
	orders map[int64]int      // originals for which a step was taken → their actions
}

// shardBook is store.Ownership on the model store: it records the owners of shards, and refuses
// writes of an epoch that has passed.
type shardBook struct {
	c                     *cluster
	all                   []store.Shard // Left is not used: until is
	until                 []time.Duration
	seen                  map[string]time.Duration // last heartbeat of each node
	drains                map[string]bool
	taken, given, refused int
}

// plan is the subset of faults that a seed enables, each with a probability.
type plan struct {
	crash, storeError, storeUnknown, stall         float64
	hintLost, hintDouble, hintLate, loadLate       float64
	receiverDown, receiverSlow, answerLost, poison float64
	clockJump, operator, cleanStop                 float64
	back                                           float64
}

// published is an event and the publisher's view of it.
type published struct {
	id, key, tenant string
	poison          bool
	notBefore       time.Duration // of its deliveries; 0: at once
}

// margin is how long before its lease ends a node treats it as expired.
const margin = time.Second

// trouble notes that something keeps the node from the store until then.
func (m *member) trouble(until time.Duration) { m.troubled = max(m.troubled, until) }

// destination is the tenant and URL of an attempt: each tenant has slots of its own there.
func destination(a core.Attempt) string { return a.Config.Tenant + " at " + a.Config.URL }

// mostAgain is the number of slots that one tenant's retries may use beside another tenant's.
func (n *node) mostAgain() int { return max(1, n.core.Slots()/4) }
