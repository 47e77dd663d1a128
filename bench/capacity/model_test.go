package capacity

import (
	"math/rand/v2"
	"testing"
	"time"
)

// near fails unless got is within a part of want.
func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if got < want*(1-part) || got > want*(1+part) {
		t.Errorf("%s is %.4g; it should be %.4g, give or take %.0f %%", what, got, want, 100*part)
	}
}

// A station with random arrivals is a queue with a known formula for its average time: with random
// service times, with constant ones, and with two cores.
func TestQueues(t *testing.T) {
	const serve = time.Millisecond / 10
	random := func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(serve)) }
	same := func(*rand.Rand) time.Duration { return serve }
	for _, q := range []struct {
		name  string
		cores int
		work  func(*rand.Rand) time.Duration
		there func(busy float64) float64 // time in the station, in times of service
	}{
		{"M/M/1", 1, random, func(b float64) float64 { return 1 / (1 - b) }},
		{"M/D/1", 1, same, func(b float64) float64 { return 1 + b/(2*(1-b)) }},
		{"M/M/2", 2, random, func(b float64) float64 { return 1 / (1 - b*b) }},
	} {
		for _, busy := range []float64{0.3, 0.6, 0.8} {
			tl, r := &timeline{}, rand.New(rand.NewPCG(1, 2))
			p := &processors{time: tl, cores: q.cores}
			var there histogram
			const jobs = 300_000
			var next func()
			next = func() {
				began := tl.now
				p.do(q.work(r), func() { there.add(tl.now - began) })
				if there.n < jobs {
					tl.after(time.Duration(r.ExpFloat64()*float64(serve)/busy/float64(q.cores)), next)
				}
			}
			next()
			tl.run(time.Hour)
			near(t, q.name+" mean", there.mean().Seconds()/serve.Seconds(), q.there(busy), 0.04)
			if q.name == "M/M/1" { // there the time is exponential
				near(t, q.name+" p99", there.quantile(0.99).Seconds()/serve.Seconds(), 4.605*q.there(busy), 0.08)
			}
		}
	}
}

// Little's law: attempts in flight are attempts per second times their duration.
func TestSlots(t *testing.T) {
	p := Default()
	tenants := Tenants(2000, 2000, p.Skew)
	l := p.Load
	l.Rate, l.Endpoints, l.Fails, l.Dies, l.Burst, l.Until = 2000, endpoints(tenants, Place(tenants, 1)[0],
		p.PerTarget), 0, 0, 0, 20*time.Second
	for i := range l.Endpoints {
		l.Endpoints[i].Down, l.Endpoints[i].Slow = false, false
	}
	c := newCell(p.Costs, p.Hardware, l)
	var sum, looks float64
	for at := l.From; at < l.Until; at += 10 * time.Millisecond {
		c.at(at, func() {
			looks++
			for _, n := range c.nodes {
				sum += float64(n.running)
			}
		})
	}
	c.run()
	near(t, "attempts in flight", sum/looks, l.Rate*l.Answer.Seconds(), 0.03)
}

// The model must reproduce the benchmark on the machine whose costs it uses: the throughput, the
// size of commits, and, as long as the machine is not saturated, the latency. At saturation it is
// too fast by half: on a real machine a woken thread waits for a processor, and not in order of
// arrival.
func TestAgainstMeasurements(t *testing.T) {
	for _, m := range Records() {
		played := m.Again()
		t.Logf("%+v played %+v", m, played)
		near(t, "events a second", played.Events, m.Events, 0.30)
		near(t, "commits for a delivery", played.Commits, m.Commits, 0.5)
		if m.Rate <= 1000 {
			near(t, "the middle of the times", played.Middle.Seconds(), m.Middle.Seconds(), 0.45)
		} else {
			near(t, "the middle of the times in a crowd", played.Middle.Seconds(), m.Middle.Seconds(), 0.60)
		}
	}
}

// Late deliveries are limited and progress nevertheless: at least ten per delivery on time, as long
// as the machine has that capacity. Without deliveries on time they get the whole machine.
func TestLateGivesWay(t *testing.T) {
	const from, until = 3 * time.Second, 5 * time.Second
	drained := func(rate float64) float64 {
		l := Load{Rate: rate, Backlog: 60_000, Endpoints: []Endpoint{{Limit: 64}, {Weight: 1, Limit: 64}}, From: from, Until: until, Seed: 1}
		c := newCell(Here(), This(), l)
		c.run()
		return float64(c.mark().delivered-c.from.delivered)/(until-from).Seconds() - rate
	}
	alone, beside := drained(0.001), drained(160)
	t.Logf("alone %.0f a second, beside others %.0f", alone, beside)
	if alone < 4000 || beside < 10*160 || beside > alone {
		t.Errorf("%.0f are made up for in a second, and %.0f beside others", alone, beside)
	}
}

// The model loses no event, whichever node dies: an accepted event is delivered, pending, or in
// between.
func TestNothingIsLost(t *testing.T) {
	p := Default()
	tenants := Tenants(3000, 3000, p.Skew)
	l := p.Load
	l.Rate, l.Endpoints, l.Seed = 3000, endpoints(tenants, Place(tenants, 1)[0], p.PerTarget), 3
	for i := range l.Endpoints {
		l.Endpoints[i].Down = false
	}
	c := newCell(p.Costs, p.Hardware, l)
	c.at(12*time.Second, func() { c.load.Rate = 1e-9 })
	c.load.Until = 5 * time.Minute
	c.run()
	if c.taken < 30_000 || c.delivered < c.taken || c.delivered > c.taken+c.taken/100 {
		t.Errorf("%d events were accepted and %d delivered; only what was in the air when the node died may come twice", c.taken, c.delivered)
	}
	if c.waiting != 0 || c.struckLag < p.Hardware.Lease {
		t.Errorf("%d still wait; the longest wait at the endpoints of the node that died was %v", c.waiting, c.struckLag)
	}
}

// The same seed gives the same history, another one a different history.
func TestSeeds(t *testing.T) {
	p := Default()
	tenants := Tenants(1000, 1000, p.Skew)
	play := func(seed uint64) Result {
		p.Seed = seed
		return p.Trial(tenants, Place(tenants, 1)[0])
	}
	if play(1) != play(1) || play(1) == play(2) {
		t.Error("the same seed does not give the same result, or another one does")
	}
}

// Overload is visible: the rate beyond the nodes' capacity is refused, and the accepted rate does
// not shrink.
func TestOverload(t *testing.T) {
	p := Default()
	p.Hardware.NodeCores, p.Hardware.DataCores = 1, 1
	at := func(rate float64) Result {
		tenants := Tenants(1000, rate, p.Skew)
		return p.Play(tenants, Place(tenants, 1)[0], func(l *Load) {
			l.Dies, l.Burst, l.Until, l.Calm = 0, 0, 8*time.Second, 4*time.Second
		})
	}
	well, much := at(2000), at(30_000)
	if well.Refused != 0 || well.Late > p.MostLag {
		t.Errorf("2,000 a second are too much: %+v", well)
	}
	if much.Refused < 0.1 || much.Taken < 4*well.Taken {
		t.Errorf("30,000 a second are not seen to be too much: %+v", much)
	}
}

func TestPlacing(t *testing.T) {
	tenants := Tenants(10_000, 10_000, 0.7)
	sum := 0.0
	for _, r := range tenants {
		sum += r
	}
	near(t, "all tenants together", sum, 10_000, 1e-9)
	placed, hashed := Place(tenants, 8), Hash(tenants, 8)
	for name, in := range map[string][][]int{"placed": placed, "hashed": hashed} {
		seen := map[int]bool{}
		for _, these := range in {
			for _, i := range these {
				seen[i] = true
			}
		}
		if len(seen) != len(tenants) {
			t.Errorf("%s: %d of %d tenants are somewhere", name, len(seen), len(tenants))
		}
	}
	_, most := fullest(tenants, placed)
	near(t, "the fullest cell", most, 10_000.0/8, 0.001)
	if _, worse := fullest(tenants, hashed); worse < most*1.01 {
		t.Errorf("a hash places as well as who looks: %v and %v", worse, most)
	}
	// Two cells with a capacity of 60 cannot take three tenants of 30 and 40: the smallest number is
	// found by trying.
	if n := need([]float64{40, 40, 40}, 60, Place); n != 3 {
		t.Errorf("three tenants of 40 need %d cells of 60", n)
	}
	if n := need([]float64{70, 1}, 60, Place); n != 0 {
		t.Errorf("a tenant of 70 fits into one of %d cells of 60", n)
	}
}

func TestAlias(t *testing.T) {
	a, r := newAlias([]float64{0, 1, 2, 5}), rand.New(rand.NewPCG(1, 1))
	var drawn [4]float64
	for range 80_000 {
		drawn[a.draw(r)]++
	}
	for i, want := range []float64{0, 10_000, 20_000, 50_000} {
		near(t, "how often it was drawn", drawn[i], want, 0.03)
	}
}
