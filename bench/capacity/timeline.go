package capacity

import "time"

// timeline lists future events by time. Events at the same time happen in the order in which they
// were added.
type timeline struct {
	now  time.Duration
	next []happening // a heap
	n    uint64
}

type happening struct {
	at time.Duration
	n  uint64
	do func()
}

func (h *happening) before(o *happening) bool { return h.at < o.at || h.at == o.at && h.n < o.n }

func (t *timeline) after(d time.Duration, do func()) { t.at(t.now+d, do) }

func (t *timeline) at(at time.Duration, do func()) {
	t.n++
	h := happening{at, t.n, do}
	t.next = append(t.next, h)
	i := len(t.next) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !h.before(&t.next[up]) {
			break
		}
		t.next[i] = t.next[up]
		i = up
	}
	t.next[i] = h
}

// run processes all events until then.
func (t *timeline) run(until time.Duration) {
	for len(t.next) > 0 && t.next[0].at <= until {
		h := t.pop()
		t.now = h.at
		h.do()
	}
	t.now = until
}

func (t *timeline) pop() happening {
	first, last := t.next[0], t.next[len(t.next)-1]
	t.next[len(t.next)-1] = happening{}
	t.next = t.next[:len(t.next)-1]
	if n := len(t.next); n > 0 {
		i := 0
		for {
			least := 4*i + 1
			if least >= n {
				break
			}
			for c := least + 1; c < min(4*i+5, n); c++ {
				if t.next[c].before(&t.next[least]) {
					least = c
				}
			}
			if !t.next[least].before(&last) {
				break
			}
			t.next[i] = t.next[least]
			i = least
		}
		t.next[i] = last
	}
	return first
}

// line is a queue: first come, first served.
type line[T any] struct {
	all  []T
	head int
}

func (l *line[T]) len() int   { return len(l.all) - l.head }
func (l *line[T]) first() T   { return l.all[l.head] }
func (l *line[T]) at(i int) T { return l.all[l.head+i] }
func (l *line[T]) push(x T)   { l.all = append(l.all, x) }
func (l *line[T]) pop() T {
	var none T
	x := l.all[l.head]
	l.all[l.head] = none
	l.head++
	if l.head > 64 && l.head > len(l.all)/2 {
		n := copy(l.all, l.all[l.head:])
		clear(l.all[n:])
		l.all, l.head = l.all[:n], 0
	}
	return x
}
