package capacity

import "time"

// Plan is a capacity question, and the criteria for passing.
type Plan struct {
	Costs     Costs
	Hardware  Hardware
	Load      Load
	Skew      float64       // of the tenants
	PerTenant float64       // events per second of a tenant, on average
	PerTarget float64       // the most deliveries per second of one endpoint
	MostLag   time.Duration // 99th percentile of a first attempt's delay
	MostShut  float64       // share of refused publishes
	// share of the processors, with one node dead and no burst; for the database, the share that
	// batching cannot remove
	MostBusy float64
	Seed     uint64
}

// Default is a cell of rentable machines under a hard load.
func Default() Plan {
	return Plan{
		Costs: Here(),
		Hardware: Hardware{Nodes: 3, NodeCores: 4, DataCores: 4, Purge: 0.3, Discount: 0.7, Sync: time.Millisecond, LogRate: 128 << 20,
			Trip: 500 * us, Slots: 4096, Writers: 4, Lease: 15 * time.Second},
		Load: Load{Fanout: 1, Burst: 2, BurstAt: 6 * time.Second, BurstFor: 4 * time.Second, Fails: 0.02, Answer: 100 * time.Millisecond,
			SlowOnes: 3 * time.Second, Dies: 4 * time.Second, From: 2 * time.Second, Until: 25 * time.Second},
		Skew: 0.7, PerTenant: 1, PerTarget: 50, MostLag: time.Second, MostShut: 0.001, MostBusy: 0.6, Seed: 1,
	}
}

// Result is the result of a trial.
type Result struct {
	Rate    float64 // a second, without the burst
	Middle  time.Duration
	Late    time.Duration // 99th percentile of the lag
	Refused float64       // share of refused publishes
	Node    float64       // share of the processors of the live nodes
	Data    float64       // share of the database's
	Batch   float64       // deliveries for each commit
	Slots   int           // most at once, of a node
	Struck  time.Duration // the longest delay of a first attempt at the endpoints of the dead node
	Waiting int           // pending there at the end
	Over    time.Duration // when the last late first attempt began there
	Durable time.Duration // average time until outcomes are durable, at the end
	Longest time.Duration // the longest of those times
	Last    time.Duration // 99th percentile of the lag in the last second
	Taken   float64       // per second, in the calm
}

// Trial simulates one cell with these tenants twice: once with a node that died long before a
// burst, and once with a node that dies shortly before a burst, while others do not have its
// endpoints yet. The worse result counts; usage is reported of the first, in which the remaining
// nodes do all the work.
func (p Plan) Trial(tenants []float64, these []int) Result {
	fewer := p
	fewer.Hardware.Nodes--
	gone := fewer.Play(tenants, these, func(l *Load) {
		l.Dies, l.BurstAt, l.Calm = 0, l.From, l.From+l.BurstFor+2*time.Second
		l.Until = l.Calm + 3*time.Second
	})
	if !p.good(gone) {
		return gone
	}
	dies := p.Play(tenants, these, nil)
	gone.Late, gone.Refused, gone.Slots = max(gone.Late, dies.Late), max(gone.Refused, dies.Refused), max(gone.Slots, dies.Slots)
	gone.Struck, gone.Waiting = dies.Struck, dies.Waiting
	return gone
}

// Play is one history of a cell with these tenants.
func (p Plan) Play(tenants []float64, these []int, change func(*Load)) Result {
	l := p.Load
	l.Rate, l.Seed = 0, p.Seed
	for _, i := range these {
		l.Rate += tenants[i]
	}
	l.Endpoints = endpoints(tenants, these, p.PerTarget)
	if change != nil {
		change(&l)
	}
	c := newCell(p.Costs, p.Hardware, l)
	c.run()
	return c.result()
}

// playAll is one history of a cell that has all tenants of a load.
func (p Plan) playAll(rate float64, change func(*Load)) Result {
	tenants := Tenants(p.tenants(rate), rate, p.Skew)
	return p.Play(tenants, Place(tenants, 1)[0], change)
}

func (c *cell) result() Result {
	to, from := c.mark(), c.from
	seconds := (to.at - from.at).Seconds()
	living := 0
	r := Result{Rate: c.load.Rate, Middle: c.lag.quantile(0.5), Late: c.lag.quantile(0.99), Struck: c.struckLag, Waiting: c.waiting,
		Over: c.over, Longest: c.longest}
	for _, n := range c.nodes {
		if !n.dead {
			living++
		}
		r.Slots = max(r.Slots, n.most)
		r.Durable = max(r.Durable, n.gives.now)
	}
	if living == 0 || seconds == 0 {
		return r
	}
	r.Node = (to.node - from.node).Seconds() / seconds / float64(living*c.hardware.NodeCores)
	r.Data = (to.data - from.data).Seconds() / seconds / float64(c.hardware.DataCores)
	r.Batch = float64(to.delivered-from.delivered) / float64(max(to.commits-from.commits, 1))
	r.Taken = float64(to.taken-from.taken) / seconds
	r.Refused = float64(c.refused) / float64(max(c.asked, 1))
	if n := len(c.bins); n > 0 {
		r.Last = c.bins[n-1].quantile(0.99)
	}
	return r
}

// good says whether a trial was passed. Deliveries that waited for the dead node are reported and
// not judged here.
func (p Plan) good(r Result) bool {
	return r.Late <= p.MostLag && r.Refused <= p.MostShut && p.fullness(r) <= p.MostBusy
}

// fullness is the usage of the fullest resource: the processors of the remaining nodes, or those of
// the database.
func (p Plan) fullness(r Result) float64 { return max(r.Node, p.least(r.Rate)) }

// least is the share of the database's processors that a load needs if every transaction is as
// large as allowed. The real usage is higher: a request that finds a writer idle does not wait for
// others.
func (p Plan) least(rate float64) float64 {
	n := float64(p.Load.Fanout)
	each := p.Costs.DataPublish.Seconds() + n*p.Costs.DataDeliver.Seconds()
	return rate * (each*(1+p.Hardware.Purge) + 2*p.Costs.DataCommit.Seconds()/batchMost) / p.Hardware.Discount / float64(p.Hardware.DataCores)
}

// steps are the loads to try, each a twentieth higher.
func steps() (all []float64) {
	for rate := 1000.0; rate < 100_000; rate *= 1.05 {
		all = append(all, float64(int(rate/100)*100))
	}
	return all
}

// Carries finds the highest load with which a cell of some nodes passes its trial.
func (p Plan) Carries(nodes int) (rate float64, r Result) {
	p.Hardware.Nodes = nodes
	all := steps()
	low, high := -1, len(all)
	for high > 0 && p.least(all[high-1]) > p.MostBusy {
		high--
	}
	for try := high - 1; high-low > 1; try = low + 1 + 2*(high-low-1)/3 { // near the upper end first, where the result mostly is
		tenants := Tenants(p.tenants(all[try]), all[try], p.Skew)
		got := p.Trial(tenants, Place(tenants, 1)[0])
		if p.good(got) {
			low, rate, r = try, all[try], got
		} else {
			high = try
		}
	}
	return rate, r
}

func (p Plan) tenants(rate float64) int { return max(1, int(rate/p.PerTenant)) }
