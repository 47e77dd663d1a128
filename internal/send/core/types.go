package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Options are the core's limits. Zero values mean the defaults.
type Options struct {
	Bounds  Bounds       // zero: their defaults
	Slots   int          // attempts in flight on this node at once; 512
	PerHost int          // attempts in flight of one tenant at one host and port; half of the slots
	IDs     *grapnel.IDs // makes the deliveries' ids; nil: simulations use row ids in clear
	Shared  bool         // other nodes use the store as well, so commit times vary for reasons outside this node
}

// Core is the state machine. It is not safe for concurrent use: one goroutine owns it.
type Core struct {
	options   Options
	bounds    *Bounds
	endpoints map[string]*endpoint
	judged    map[string]bool // endpoints that the next count of first attempts looks at
	count     int             // endpoints ever seen; numbers them, which makes ties deterministic
	fair      fairness
	alarms    alarms
	seen      seen
	reserved  reserved
	quotas    quotas
	late      late
	newcomers []*tenant // tenants with endpoints that are ready and have nothing in flight, in turn
	running   int
	recording int
	draining  bool
	last      time.Time // of the last Step
	out       []Effect
}

// endpoint is the core's state of one endpoint that this node owns.
type endpoint struct {
	number int // in the order of first sight; breaks ties
	bounds *Bounds
	config *grapnel.Endpoint
	window window
	gate   gate
	pollAt time.Time
	floor  int64         // hints about deliveries up to this number are not trusted
	delay  time.Duration // before the first attempt of a delivery that becomes a head

	share     share     // of the slots; see fairness
	refusedBy *quota    // the quota that refused it and lists it; nil: none
	waited    bool      // a quota has refused it since it was last ready
	refusedAt time.Time // when its gate or a quota last refused a head that was due, or it was first seen
	tenant    *tenant   // its owner
	newcomer  bool      // listed in tenant.newcomers
	heard     time.Time // when the last attempt finished, or the first of those in flight began
	alarm     alarm

	since     time.Time // when its status last changed
	unsure    bool      // the status may have changed before since: this core has not seen that
	makeDue   bool      // deliveries delayed by its outage must be made due
	makingDue bool      // a MakeDue is on its way
	madeDue   int       // limit of that MakeDue
	replanned bool      // a MakeDue failed, so some deliveries may be due earlier than the window says
	makeDueAt time.Time // no MakeDue before this, after one that failed

	repair repair // of an endpoint that refused events

	newest     int64         // highest delivery row id when config was read
	confirmed  bool          // config is stored; false between the core's own disabling and its confirmation
	confirming bool          // a Disable is on its way
	recording  int           // changes on their way to the store
	ending     bool          // an End is on its way
	unended    *store.Ending // an ending that has begun and is not complete
	endAt      time.Time     // no End or Disable before this, after one that failed
	over       bool          // all its pending deliveries have been ended
	late       time.Time     // when a late delivery of it was attempted last
	leaving    bool          // it goes to another node
}

// window is the part of an endpoint's heads that is in memory.
type window struct {
	bounds  *Bounds
	size    int
	heads   map[int64]*head
	waiting []*head   // the idle ones, sorted by compareHeads: urgent ones first, then by (due, delivery)
	reserve reserve   // heads that are due later and found no space
	cold    time.Time // the earliest due time of a head that is only in the store; zero: none known
	oldest  time.Time // no idle head's anchor is earlier; zero: unknown

	loading bool
	colder  time.Time // cold before the page on its way was asked for
	stale   bool      // the page on its way was read before deliveries may have been ended: discard it
	retryAt time.Time // no load before this, after one that failed
	// touched holds the deliveries that left the window while a page was on its way: the page may
	// show them in an earlier state.
	touched map[int64]bool
}

// head is a delivery in the window.
type head struct {
	store.Head
	due      time.Time // when it may be attempted: Head.Due, or later after a fault of this process
	phase    phase
	misfires int           // consecutive faults of this process; they consume no attempt
	forward  bool          // a repair has brought it forward, and it has not been attempted since
	probe    bool          // running as a probe of whether the endpoint has recovered
	slow     bool          // running, at an endpoint with slow attempts
	unproven bool          // running, begun when no attempt of its endpoint had finished
	late     bool          // holds a slot for late attempts, until its outcome is durable or it hangs
	prompt   bool          // running, counted among the attempts on time
	place    int64         // its number in late.begun
	recorded time.Time     // while recording: since when
	host     *quota        // running, at this host
	change   *Change       // while recording
	order    *Operated     // while recording: the order that the change carries out, if any
	orders   []Operated    // orders that came meanwhile; done once the change is durable
	charged  time.Duration // slot time charged for the running attempt
	started  time.Time
	shifts   int // the gate's shifts when the running attempt began
	returns  int // the gate's returns when belated was last called
}

// phase is the state of a head in the window.
type phase int

// gate says whether and how often an endpoint may be attempted right now. It combines the
// configured limits, the wait the endpoint asked for (Retry-After), and the outcomes so far. The
// rules are in package policy, which the simulator uses too.
type gate struct {
	limit   int // attempts at once that the configuration allows
	running int
	host    destination

	// The rate limit is a token bucket stored as a time: every attempt moves paid ahead by one
	// interval, and paid may be ahead of now by at most slack. The slack is the burst.
	interval time.Duration // between attempts at the allowed rate; 0: no limit
	slack    time.Duration // time that a burst takes at the allowed rate, less one interval
	paid     time.Time

	rules    policy.Breaker
	circuit  policy.Circuit
	ramp     policy.Ramp
	trust    policy.Trust
	standing policy.Standing
	number   int64     // of the standing recorded last
	dirty    bool      // the standing has changed since
	probing  bool      // a probe is in flight
	failing  time.Time // the first failure since the last success, seen by this process; zero: none
	failed   time.Time // the last of these failures
	failures int       // in a row
	refusals int       // the latest of these failures, all of which were about single events
	accepted bool      // an attempt has succeeded since this process began
	shifts   int       // times the breaker was opened or closed
	returns  int       // times the endpoint has recovered

	took time.Duration // moving average of a successful delivery's duration

	firsts  Firsts // of the last hour, as counted last
	counted bool   // since this process began
}

// fairness picks the next endpoint: of the tenant whose attempts have held slots for the least
// time, the endpoint for which the same is true. It measures slot time and not the number of
// attempts, so an endpoint that hangs pays for its slots. This is start-time fair queueing: an
// endpoint that was idle starts at the present account, not at zero.
type fairness struct {
	tenants map[string]*share
	ready   line[*share] // tenants that have a ready endpoint
	present time.Duration
}

// share is a tenant's or an endpoint's account of slot time.
type share struct {
	used    time.Duration
	number  int // breaks ties
	pos     int
	ready   line[*share]  // a tenant's: its endpoints
	present time.Duration // a tenant's: the account of the endpoint served last
	ep      *endpoint     // an endpoint's
	average time.Duration // an endpoint's: of its attempts lately, the estimate for the next
}

// quotas keep hanging, retried and popular endpoints from taking the slots of all others. Each
// quota is a share of all slots.
//
// An endpoint that has nothing in flight is bound only by the limit of its host, by the half that
// is reserved for first attempts, and by the share of its tenant's unproven endpoints. The last
// eighth of the slots is for such endpoints (Core.dispatch). At one host a single endpoint gets at
// most half of the slots; so do all slow endpoints together.
//
// An attempt cannot be taken back, and its policy may let it hang for ten minutes. So one tenant
// can fill any quota that tenants share. Therefore each tenant has a limit of its own at a host,
// and a host has no limit over all tenants: only the slots bound their sum. The slots themselves
// and the quota for retries are shared; one tenant among several must leave a part of each to the
// others.
type quotas struct {
	again   quota                  // retries and replayed deliveries: at most half of the slots
	slow    quota                  // endpoints with slow attempts: a quarter, when slots are scarce
	greedy  quota                  // endpoints that hold a quarter already, or are unproven: none, when slots are scarce
	perHost map[destination]*quota // of one tenant at one destination
	tenants map[string]*tenant     // tenants with endpoints here
}

// quota is a number of slots that some of the attempts share. A refused endpoint joins its list and
// is looked at again when a slot becomes free.
type quota struct {
	used    int
	refused []*endpoint
	slow    *quota      // a host's: its endpoints with slow attempts
	at      destination // a host's
}

// destination is the host and port that a tenant's requests go to.
type destination struct{ tenant, host string }

// tenant is one tenant's use of slots. Its quotas count only while other tenants have endpoints
// here.
type tenant struct {
	endpoints int
	running   int
	again     quota       // of quotas.again: at most a half
	unproven  quota       // attempts of unproven endpoints: at most half of the slots
	newcomers []*endpoint // were ready with nothing in flight when added; some have an attempt by now
}

// late limits overdue deliveries so that they do not slow down those on time. After an outage of
// many endpoints a million deliveries may be due. The slots do not bound the load on the processor
// and the store, because a quick endpoint uses each slot many times per second, and every new
// delivery would queue behind the backlog.
//
// So while attempts on time happen, late ones share a limited number of slots. An attempt holds its
// slot from its start until its outcome is durable. The limit follows the time that outcomes take
// to become durable. Without attempts on time there is no limit.
//
// On a private store the baseline (usual) is the fastest commit seen. Any looser baseline lets late
// deliveries load the disk until on-time traffic suffers. A shared store varies by itself and
// seldom reaches its fastest commit. There the baseline is measured: now and then the limit falls
// to one for Bounds.Alone checks, and the commit time at the end of them becomes the baseline. A
// shared store that is slow, or busy with traffic on time, would be as slow without late
// deliveries, so the limit is at least the number of attempts on time in flight. Those leave the
// count when their request ends, not when their outcome is durable; otherwise a slower store would
// raise the limit of the deliveries that slow it down.
type late struct {
	Late
	slow    time.Duration // an attempt that takes longer counts as hanging
	places  quota
	freed   bool    // one became free in this step
	prompts int     // attempts on time in flight
	begun   []begun // attempts that are late or on time, oldest first; some have finished
	number  int64   // attempts ever added to begun
	limit   int
	shared  bool          // other nodes use the store too
	usual   time.Duration // baseline: time to become durable with almost no late attempts
	now     time.Duration // moving average of the time to become durable
	judged  time.Time     // time of the last check
	alone   int           // consecutive checks at limit 1
	found   time.Time     // when usual was measured last (shared store)
	prompt  time.Time     // when an attempt on time last began
}

// begun is an attempt whose duration can free its slot.
type begun struct {
	head  *head
	place int64
	at    time.Time
}

// repair brings retries forward after an endpoint that refused events has taken one: the refusals
// may have been its fault, and the heads of lanes would wait for hours behind a repair that no
// circuit notices. It begins with the success that ends refusals in a row, or with a success that a
// person asked for. One head is tried, then twice as many each time that all were delivered. The
// first that fails ends it: the receiver accepts some events and refuses others.
//
// A receiver that does so all the time must not use up the attempts of a refused event. So each
// delivery is brought forward once at most, and never for its last attempt. Both are remembered in
// memory: the due time in the store stays, and a restart forgets them.
type repair struct {
	on      bool
	allowed int            // heads that are tried together
	want    int            // of these, not found yet
	flying  int            // brought forward and not finished
	tried   map[int64]bool // deliveries that were brought forward and have not been delivered
}

// alarms orders endpoints by the time of their next refresh.
type alarms struct{ line line[*alarm] }

// alarm is an endpoint's entry among the alarms.
type alarm struct {
	ep  *endpoint
	at  time.Time
	pos int
}
