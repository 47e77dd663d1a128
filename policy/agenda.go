package policy

import "time"

// agenda holds events of a simulation and returns them by time, and those of one time by number.
// Outdated entries stay in it; the caller checks each entry that it takes out.
type agenda []appointment

type appointment struct {
	at    time.Duration
	event int
}

func (a appointment) before(b appointment) bool {
	return a.at < b.at || a.at == b.at && a.event < b.event
}

func (a *agenda) put(p appointment) {
	*a = append(*a, p)
	heap := *a
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !heap[i].before(heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

// take removes the earliest.
func (a *agenda) take() {
	heap := *a
	last := len(heap) - 1
	heap[0] = heap[last]
	heap = heap[:last]
	*a = heap
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && heap[child].before(heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// first is the earliest entry for which isTrue returns true.
func (a *agenda) first(isTrue func(appointment) bool) (appointment, bool) {
	for len(*a) > 0 {
		if top := (*a)[0]; isTrue(top) {
			return top, true
		}
		a.take()
	}
	return appointment{}, false
}
