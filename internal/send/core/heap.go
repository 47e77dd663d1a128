package core

import "container/heap"

// ranked is an item of a line. It stores its own position there: index plus one, 0 when it is in no
// line.
type ranked[T any] interface {
	before(other T) bool
	place() *int
}

// line is a heap: it knows its first item, and any item can leave or move.
type line[T ranked[T]] struct{ members members[T] }

// first is the first item; false: the line is empty.
func (l *line[T]) first() (first T, ok bool) {
	if len(l.members) == 0 {
		return first, false
	}
	return l.members[0], true
}

func (l *line[T]) empty() bool { return len(l.members) == 0 }

// put inserts an item, or moves it to its new position.
func (l *line[T]) put(one T) {
	if at := *one.place(); at != 0 {
		heap.Fix(&l.members, at-1)
		return
	}
	heap.Push(&l.members, one)
}

// leave removes an item if it is in the line.
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

// Push implements container/heap.
func (m *members[T]) Push(x any) {
	one := x.(T)
	*m = append(*m, one)
	*one.place() = len(*m)
}

// Pop implements container/heap.
func (m *members[T]) Pop() any {
	var none T
	old := *m
	one := old[len(old)-1]
	old[len(old)-1] = none
	*m = old[:len(old)-1]
	*one.place() = 0
	return one
}
