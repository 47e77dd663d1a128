package core

import "container/heap"

// ranked is something that can stand in a line and knows its place there: its index plus one, 0 when it is not in it.
type ranked[T any] interface {
	before(other T) bool
	place() *int
}

// line keeps things sorted enough to know the first, and lets any of them leave or move.
type line[T ranked[T]] struct{ members members[T] }

// first is the first in line; false: nobody is.
func (l *line[T]) first() (first T, ok bool) {
	if len(l.members) == 0 {
		return first, false
	}
	return l.members[0], true
}

func (l *line[T]) empty() bool { return len(l.members) == 0 }

// put lets one join, or find its new place.
func (l *line[T]) put(one T) {
	if at := *one.place(); at != 0 {
		heap.Fix(&l.members, at-1)
		return
	}
	heap.Push(&l.members, one)
}

// leave takes one out, if it is there.
func (l *line[T]) leave(one T) {
	if at := *one.place(); at != 0 {
		heap.Remove(&l.members, at-1)
	}
}

type members[T ranked[T]] []T

func (m members[T]) Len() int           { return len(m) }
func (m members[T]) Less(i, j int) bool { return m[i].before(m[j]) }
func (m members[T]) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	*m[i].place(), *m[j].place() = i+1, j+1
}

// Push is for container/heap.
func (m *members[T]) Push(x any) {
	one := x.(T)
	*m = append(*m, one)
	*one.place() = len(*m)
}

// Pop is for container/heap.
func (m *members[T]) Pop() any {
	var none T
	old := *m
	one := old[len(old)-1]
	old[len(old)-1] = none
	*m = old[:len(old)-1]
	*one.place() = 0
	return one
}
