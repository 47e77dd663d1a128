package sim

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// agenda lists future steps by time. The seed decides the order of steps at the same instant.
type agenda struct {
	now   time.Duration
	rand  *rand.Rand
	heap  happenings
	count int
}

type happening struct {
	at    time.Duration
	tie   uint32
	count int
	do    func()
}

// in plans a step for later.
func (a *agenda) in(d time.Duration, do func()) {
	a.count++
	heap.Push(&a.heap, happening{at: a.now + max(d, 0), tie: a.rand.Uint32(), count: a.count, do: do})
}

// until runs the planned steps up to a time.
func (a *agenda) until(end time.Duration) {
	for len(a.heap) > 0 && a.heap[0].at <= end {
		next := heap.Pop(&a.heap).(happening)
		a.now = next.at
		next.do()
	}
	a.now = end
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	if h[i].tie != h[j].tie {
		return h[i].tie < h[j].tie
	}
	return h[i].count < h[j].count
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
