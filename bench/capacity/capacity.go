// Package capacity simulates a cell of Grapnel under loads that no single computer can produce: its
// nodes, its database and its tenants. It is a simulation of discrete events, with costs measured
// on one machine (Costs) and an assumed machine (Hardware). It computes how much a cell carries
// through a burst and the death of a node, and from that how many cells a load needs.
//
// It simulates publishers that do not wait for each other, the processors of each node and of the
// database, transactions that combine waiting requests, a log with one sync at a time, attempts in
// slots, receivers that answer late or not at all, retries by policy, leases, and admission. It
// does not simulate filters, keys that make deliveries wait for each other, the network's
// bandwidth, reads of the API, windows that are read in pages, or circuits that open meanwhile.
//
// The same seed gives the same figures. It does not promise that hardware is as good as assumed:
// model_test.go compares it with measurements on one machine and with queueing theory, and its
// accuracy is known no further.
package capacity

import "time"

// Costs are measured costs: processor time of one core, and bytes.
type Costs struct {
	NodePublish time.Duration // of a node, to accept an event
	NodeDeliver time.Duration // to attempt a delivery once and record it
	NodeCommit  time.Duration // for each transaction
	DataPublish time.Duration // of the database, to take an event with one delivery
	DataDeliver time.Duration // to record an outcome
	DataCommit  time.Duration // for each transaction
	LogPublish  int           // bytes of write-ahead log
	LogDeliver  int
	Publisher   time.Duration // of a publisher or receiver, if they share the machine
	Receiver    time.Duration
}

// Hardware is the hardware of a cell.
type Hardware struct {
	Nodes     int
	NodeCores int
	DataCores int
	Purge     float64       // the database's later cost of purging, as a part of the cost of writing
	Discount  float64       // the work of a core divided by that of a measured one
	Sync      time.Duration // of the log, alone
	LogRate   float64       // bytes a second
	Trip      time.Duration // between node and database, there and back
	Slots     int           // attempts at once, of one node
	Writers   int           // transactions at once, of one node
	Lease     time.Duration
	Shared    bool // one machine for node, database, publishers and receivers. DataCores counts
}

// Load is the incoming load and its receivers.
type Load struct {
	Rate      float64 // events per second
	Fanout    int     // deliveries of each
	Endpoints []Endpoint
	Burst     float64 // times the rate, from BurstAt for BurstFor
	BurstAt   time.Duration
	BurstFor  time.Duration
	Fails     float64       // attempts that end in a retry
	Answer    time.Duration // mean of the receivers
	SlowOnes  time.Duration // mean of the slow ones

	Backlog int // late deliveries at the first endpoint, from the beginning

	Closed int           // number of publishers that wait for their answers, instead of a rate
	Dies   time.Duration // a node dies then; 0: none
	Away   time.Duration // the database is unreachable from then on; 0: never
	Gone   time.Duration // duration of that
	From   time.Duration // earlier deliveries are not counted
	Until  time.Duration
	Calm   time.Duration // utilisation is measured from here on
	Seed   uint64
}

// Endpoint is one that deliveries go to.
type Endpoint struct {
	Weight float64
	Limit  int // attempts at once
	Slow   bool
	Down   bool // its circuit is open: its events cost a publish, and stay pending
}

// The engine's and the store's own limits.
const (
	mostPublishing = 1024                   // publishes on their way at a node
	longCommit     = 500 * time.Millisecond // averaged; then publishing is refused
	batchMost      = 256                    // requests in a transaction
	recordMost     = 512                    // outcomes recorded by one request
	lookEvery      = 2 * time.Second        // interval at which nodes look at the shards
	again          = 5 * time.Second        // the first retry of the standard policy
	tooSlow        = 2 * time.Second
	lateAfter      = time.Second
	promptFor      = 2 * time.Second
	lateRhythm     = 100 * time.Millisecond
	lateGrowth     = 4
	lateAllowed    = time.Millisecond / 4
	lateAlone      = 3
	lateRenewed    = 5 * time.Second
)
