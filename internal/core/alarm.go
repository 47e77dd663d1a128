package core

import (
	"container/heap"
	"time"
)

// alarms says which endpoint needs a look next though nothing happens.
type alarms struct{ heap alarmHeap }

// set gives an endpoint its alarm; zero removes it.
func (a *alarms) set(ep *endpoint, at time.Time) {
	switch {
	case at.IsZero() && ep.alarmPos != 0:
		heap.Remove(&a.heap, ep.alarmPos-1)
	case at.IsZero() || ep.alarmPos != 0 && at.Equal(ep.alarmAt):
	case ep.alarmPos != 0:
		ep.alarmAt = at
		heap.Fix(&a.heap, ep.alarmPos-1)
	default:
		ep.alarmAt = at
		heap.Push(&a.heap, ep)
	}
}

// next is the earliest alarm; zero: there is none.
func (a *alarms) next() time.Time {
	if len(a.heap) == 0 {
		return time.Time{}
	}
	return a.heap[0].alarmAt
}

// due takes out an endpoint whose alarm has come, or returns nil.
func (a *alarms) due(now time.Time) *endpoint {
	if len(a.heap) == 0 || a.heap[0].alarmAt.After(now) {
		return nil
	}
	return heap.Pop(&a.heap).(*endpoint)
}

type alarmHeap []*endpoint

func (h alarmHeap) Len() int { return len(h) }
func (h alarmHeap) Less(i, j int) bool {
	if c := h[i].alarmAt.Compare(h[j].alarmAt); c != 0 {
		return c < 0
	}
	return h[i].number < h[j].number
}
func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].alarmPos, h[j].alarmPos = i+1, j+1
}
func (h *alarmHeap) Push(x any) {
	ep := x.(*endpoint)
	*h = append(*h, ep)
	ep.alarmPos = len(*h)
}
func (h *alarmHeap) Pop() any {
	old := *h
	ep := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	ep.alarmPos = 0
	return ep
}
