package capacity

import (
	"math/rand/v2"
	"time"
)

// processors are cores that share a queue. A long job yields after a time slice, as under the
// kernel's scheduler.
type processors struct {
	time    *timeline
	cores   int
	busy    int
	stopped bool
	waiting line[job]
	used    time.Duration
}

type job struct {
	left time.Duration
	then func()
}

// slice is how long a job runs before others get a turn.
const slice = 3 * time.Millisecond

func (p *processors) do(work time.Duration, then func()) {
	p.waiting.push(job{work, then})
	p.start()
}

func (p *processors) start() {
	for !p.stopped && p.busy < p.cores && p.waiting.len() > 0 {
		j := p.waiting.pop()
		p.busy++
		turn := min(j.left, slice)
		p.time.after(turn, func() {
			p.used += turn
			p.busy--
			if j.left > turn {
				p.waiting.push(job{j.left - turn, j.then})
			} else {
				j.then()
			}
			p.start()
		})
	}
}

// log is a database's write-ahead log. One sync runs at a time, and the next one serves all
// requests that arrived meanwhile.
type log struct {
	time    *timeline
	random  *rand.Rand
	base    time.Duration
	rate    float64
	bytes   int
	waiting []func()
	syncing bool
}

func (l *log) sync(bytes int, then func()) {
	l.bytes += bytes
	l.waiting = append(l.waiting, then)
	l.start()
}

func (l *log) start() {
	if l.syncing || len(l.waiting) == 0 {
		return
	}
	// Half of a sync's time is constant; the rest is random.
	took := time.Duration((0.5+0.5*l.random.ExpFloat64())*float64(l.base) + float64(l.bytes)/l.rate*float64(time.Second))
	these := l.waiting
	l.waiting, l.bytes, l.syncing = nil, 0, true
	l.time.after(took, func() {
		l.syncing = false
		for _, then := range these {
			then()
		}
		l.start()
	})
}
