package capacity

import "time"

// giving limits late deliveries by the rules of internal/core/late.go: a late attempt holds a slot
// from its start until its outcome is durable, or until it counts as hanging. The limit is at least
// the number of attempts on time in flight, and grows while outcomes become durable as fast as
// usual; the usual time is measured at limit 1.
type giving struct {
	limit, used, prompts int
	usual, now           time.Duration
	judged               time.Duration
	alone                int
	found, prompt        time.Duration
	begun                line[begun]
	number               int
}

// begun is an attempt that is late or on time; it may have finished.
type begun struct {
	delivery *delivery
	number   int
	at       time.Duration
}

func newGiving() giving { return giving{limit: 1, judged: -lateRhythm, prompt: -promptFor} }

func (g *giving) full(now time.Duration) bool {
	return g.used >= max(g.limit, g.prompts) && now-g.prompt < promptFor
}

// begin counts an attempt that starts.
func (g *giving) begin(now time.Duration, d *delivery) {
	switch ep := d.to; {
	case ep.isLate(now, d):
		g.used++
		d.counts, ep.late = late, now
	case now-ep.late < promptFor, now-d.due > lateAfter:
		return
	default:
		g.prompts++
		d.counts, g.prompt = prompt, now
	}
	g.number++
	d.number = g.number
	g.begun.push(begun{d, g.number, now})
}

// release frees a delivery's slot.
func (g *giving) release(d *delivery) {
	switch d.counts {
	case late:
		g.used--
	case prompt:
		g.prompts--
	}
	d.counts = neither
}

// hung frees the slots of attempts that hang.
func (g *giving) hung(now time.Duration) {
	for g.begun.len() > 0 {
		first := g.begun.first()
		d := first.delivery
		takes := d.counts != neither && d.number == first.number && d.running
		if takes && now-first.at < tooSlow {
			return
		}
		g.begun.pop()
		if takes {
			g.release(d)
		}
	}
}

// took learns from an outcome that has become durable.
func (g *giving) took(now, d time.Duration, most int) {
	g.now += (d - g.now) / 16
	if now-g.judged < lateRhythm {
		return
	}
	g.judged = now
	before := g.limit
	switch {
	case g.limit > 1 && now-g.found > lateRenewed:
		g.limit = 1
	case g.limit > 1 && g.now > g.usual+max(lateAllowed, g.usual):
		g.limit /= 2
	case g.limit == 1 && g.alone < lateAlone:
		g.alone++
	case g.limit == 1:
		g.usual, g.found = g.now, now
		fallthrough
	default:
		g.limit = min(g.limit+1+g.limit/lateGrowth, max(most, 1))
	}
	if g.limit != before {
		g.alone = 0
	}
}

// counts says whether an attempt is limited as late, protected as on time, or neither.
type counts int

const (
	neither counts = iota // neither limited nor protected: on time at an endpoint that has late ones, or overdue at an unproven one
	late
	prompt
)

// isLate says whether a delivery would be limited as late if it were attempted now. An endpoint
// that is new to its node is unproven.
func (ep *endpoint) isLate(now time.Duration, d *delivery) bool {
	return now-d.due > lateAfter && ep.average > 0 && !ep.slow(now)
}

func (ep *endpoint) slow(now time.Duration) bool {
	return ep.average > tooSlow || ep.running > 0 && now-ep.heard > tooSlow
}
