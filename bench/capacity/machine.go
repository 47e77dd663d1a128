package capacity

import "time"

// Measured is one run of the benchmark: go run ./bench -postgres, one node, everything on one
// machine.
type Measured struct {
	Publishers, Fanout, Slots int
	Events                    float64       // accepted and delivered per second, at full speed
	Commits                   float64       // for each delivery
	Rate                      float64       // events per second of the part with a fixed rate
	Middle                    time.Duration // of the time to the receiver in that benchmark, beyond the relay's
}

// Records were taken on 22 November 2026 between 7:05 and 7:18, each in a minute in which other
// programs took less than a tenth of the two cores. The costs in Here were fitted to the processor
// times of all but the last, which was taken afterwards.
func Records() []Measured {
	return []Measured{
		{Publishers: 1, Fanout: 1, Slots: 64, Events: 617, Commits: 1.573, Rate: 50, Middle: 1915 * us},
		{Publishers: 8, Fanout: 1, Slots: 64, Events: 2340, Commits: 0.624, Rate: 500, Middle: 1075 * us},
		{Publishers: 16, Fanout: 1, Slots: 64, Events: 3184, Commits: 0.338, Rate: 2000, Middle: 5040 * us},
		{Publishers: 64, Fanout: 1, Slots: 64, Events: 6267, Commits: 0.098, Rate: 200, Middle: 1035 * us},
		{Publishers: 64, Fanout: 4, Slots: 16, Events: 2437, Commits: 0.029, Rate: 100, Middle: 1285 * us},
		{Publishers: 32, Fanout: 1, Slots: 64, Events: 5369, Commits: 0.183, Rate: 1000, Middle: 1940 * us},
	}
}

// Again plays a record.
func (m Measured) Again() Measured {
	const window = 4 * time.Second
	m.Events, m.Commits = closed(m, window)
	m.Middle = open(m, window)
	return m
}

const us = time.Microsecond

// Here are the costs of one core of the machine of the records: two cores of an AMD EPYC with noisy
// neighbours, on which the relay takes 85 µs per delivery. On a quiet day it takes 40
// (docs/scale.md), so a plan with the higher costs has a margin of that factor.
func Here() Costs {
	return Costs{
		NodePublish: 52 * us, NodeDeliver: 65 * us, NodeCommit: 278 * us,
		DataPublish: 5 * us, DataDeliver: 60 * us, DataCommit: 553 * us,
		LogPublish: 1373, LogDeliver: 921,
		Publisher: 25 * us, Receiver: 21 * us,
	}
}

// This is the machine of the records: two cores for all.
func This() Hardware {
	return Hardware{Nodes: 1, DataCores: 2, Shared: true, Sync: 190 * us, Trip: 150 * us, LogRate: 1 << 30, Slots: 512, Writers: 4}
}

// closed simulates the benchmark's first part: publishers that publish again when they are
// answered.
func closed(m Measured, window time.Duration) (events, commits float64) {
	c := newCell(Here(), This(), Load{Closed: m.Publishers, Fanout: m.Fanout, Endpoints: m.endpoints(), From: window / 4,
		Until: window, Seed: 1})
	c.run()
	to, from := c.mark(), c.from
	delivered := float64(to.delivered - from.delivered)
	return delivered / float64(m.Fanout) / (to.at - from.at).Seconds(), float64(to.commits-from.commits) / delivered
}

// open simulates the second part: events at a rate, and their time to the receiver.
func open(m Measured, window time.Duration) (middle time.Duration) {
	c := newCell(Here(), This(), Load{Rate: m.Rate, Fanout: m.Fanout, Endpoints: m.endpoints(), From: window / 4, Until: window, Seed: 1})
	c.run()
	return c.took.quantile(0.5)
}

func (m Measured) endpoints() []Endpoint {
	all := make([]Endpoint, m.Fanout)
	for i := range all {
		all[i] = Endpoint{Weight: 1, Limit: m.Slots}
	}
	return all
}
