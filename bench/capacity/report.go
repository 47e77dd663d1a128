package capacity

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// kind is a cell with some number of nodes, and the load it carries.
type kind struct {
	nodes int
	rate  float64
	at    Result
}

// Report prints how much one cell carries, how many cells each load needs, and the behaviour beyond
// that.
func (p Plan) Report(loads []float64, out io.Writer) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	say("| publishers | endpoints | events a second, measured | simulated | commits per delivery, measured | simulated | p50 at | measured | simulated |")
	say("|---|---|---|---|---|---|---|---|---|")
	for _, m := range Records() {
		played := m.Again()
		say("| %d | %d | %s | %s | %.2f | %.2f | %s/s | %s | %s |", m.Publishers, m.Fanout, count(m.Events), count(played.Events),
			m.Commits, played.Commits,
			count(m.Rate), short(m.Middle), short(played.Middle))
	}
	say("")
	kinds := []kind{{nodes: 2}, {nodes: 3}, {nodes: 4}}
	var all sync.WaitGroup
	for i := range kinds {
		all.Go(func() { kinds[i].rate, kinds[i].at = p.Carries(kinds[i].nodes) })
	}
	all.Wait()

	say("| nodes of a cell | carries, events a second | lag p50 | p99 | nodes busy | database busy | its log | deliveries per commit | attempts at once |")
	say("|---|---|---|---|---|---|---|---|---|")
	best := kinds[0]
	for _, k := range kinds {
		r := k.at
		say("| %d | %s | %s | %s | %.0f %% | %.0f %% | %.0f MiB/s | %.1f | %d |", k.nodes, count(k.rate), short(r.Middle), short(r.Late),
			100*r.Node, 100*r.Data,
			k.rate*p.bytes()/(1<<20), r.Batch, r.Slots)
		if k.rate/float64(k.nodes+1) > best.rate/float64(best.nodes+1) {
			best = k
		}
	}
	say("")
	say("| events a second | tenants | largest tenant | cells | machines | all logs | fullest cell | lag p99 | fullness | pending for the dead node | with one cell less | lag p99 | fullness | cells if placed by hash |")
	say("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	rows := make([]string, len(loads))
	for i, load := range loads {
		all.Go(func() { rows[i] = p.row(kinds, best, load) })
	}
	all.Wait()
	for _, row := range rows {
		say("%s", row)
	}
	say("")
	if best.rate > 0 {
		p.Hardware.Nodes = best.nodes
		p.beyond(best, say)
	}
}

// bytes is the log written per event.
func (p Plan) bytes() float64 { return float64(p.Costs.LogPublish + p.Load.Fanout*p.Costs.LogDeliver) }

// row is one load.
func (p Plan) row(kinds []kind, best kind, load float64) string {
	tenants := Tenants(p.tenants(load), load, p.Skew)
	with := best
	for _, k := range kinds { // the smallest cell that carries the load alone
		if k.rate >= load {
			with = k
			break
		}
	}
	p.Hardware.Nodes = with.nodes
	cells := need(tenants, with.rate, Place)
	if cells == 0 {
		return fmt.Sprintf("| %s | %s | %s | none: one tenant is more than a cell carries | | | | | | | | | | |", count(load),
			count(float64(len(tenants))), count(tenants[0]))
	}
	these, most := fullest(tenants, Place(tenants, cells))
	got := p.Trial(tenants, these)
	row := fmt.Sprintf("| %s | %s | %s/s | %d of %d nodes | %d | %s | %s/s | %s | %.0f %% | %s |", count(load),
		count(float64(len(tenants))), count(tenants[0]), cells, with.nodes,
		cells*(with.nodes+1), rate(load*p.bytes()), count(most), short(got.Late), 100*p.fullness(got), count(float64(got.Waiting)))
	if cells > 1 {
		these, most = fullest(tenants, Place(tenants, cells-1))
		less := p.Trial(tenants, these)
		row += fmt.Sprintf(" %s/s | %s | %.0f %% |", count(most), short(less.Late), 100*p.fullness(less))
	} else {
		row += " – | – | – |"
	}
	return row + fmt.Sprintf(" %d |", need(tenants, with.rate, Hash))
}

// need is the smallest number of cells in which none gets more than it carries; 0: no number is
// enough.
func need(tenants []float64, carries float64, by func([]float64, int) [][]int) int {
	if tenants[0] > carries {
		return 0
	}
	sum := 0.0
	for _, t := range tenants {
		sum += t
	}
	for cells := max(1, int(sum/carries)); ; cells++ {
		if _, most := fullest(tenants, by(tenants, cells)); most <= carries*(1+1e-9) {
			return cells
		}
	}
}

// beyond shows a cell that gets more than it carries, and one whose database is unreachable for a
// while.
func (p Plan) beyond(k kind, say func(string, ...any)) {
	say("| one cell of %d nodes gets | accepted a second | refused calls | p99 of the lag in the last second | nodes busy | database busy |",
		k.nodes)
	say("|---|---|---|---|---|---|")
	times := []float64{1, 2, 3, 4}
	rows := make([]Result, len(times))
	var away, later Result
	var all sync.WaitGroup
	for i, x := range times {
		all.Go(func() {
			rows[i] = p.playAll(x*k.rate, func(l *Load) {
				l.Dies, l.Burst, l.Calm, l.Until = 0, 0, 4*time.Second, 7*time.Second
			})
		})
	}
	all.Go(func() {
		away = p.playAll(k.rate, func(l *Load) {
			l.Dies, l.Burst, l.Away, l.Gone = 0, 0, 4*time.Second, 5*time.Second
		})
	})
	all.Go(func() { later = p.playAll(k.rate, func(l *Load) { l.Until = 40 * time.Second }) })
	all.Wait()
	for i, x := range times {
		r := rows[i]
		say("| %s/s, %.0f times what it carries | %s | %.0f %% | %s | %.0f %% | %.0f %% |", count(x*k.rate), x, count(r.Taken),
			100*r.Refused, short(r.Last), 100*r.Node, 100*r.Data)
	}
	say("")
	say("If its database is unreachable for %s, %.0f %% of the calls to publish are refused in the simulated %s; the p99 of the lag is %s.", "5 s",
		100*away.Refused, p.Load.Until, short(away.Late))
	taken := p.Load.Dies + p.Hardware.Lease + lookEvery
	say("In the trial of %d nodes a node dies. %s after others took its endpoints, %s of their first attempts are pending, the oldest for %s.",
		k.nodes,
		short(p.Load.Until-taken), count(float64(k.at.Waiting)), short(k.at.Struck))
	say("The last late attempt begins %s after the take-over, when %s are pending. Outcomes take %s to become durable at the end, and %s at worst.",
		short(later.Over-taken),
		count(float64(later.Waiting)), short(later.Durable), short(later.Longest))
}

func count(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func rate(bytes float64) string {
	if bytes > 1<<30 {
		return fmt.Sprintf("%.1f GiB/s", bytes/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB/s", bytes/(1<<20))
}

// short is a time in two digits.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.2g ms", float64(d)/float64(time.Millisecond))
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
