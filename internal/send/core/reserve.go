package core

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// reserve remembers heads of one endpoint that found no space in its window. They enter the window
// as it empties, so a backlog is not read back from the store. The reserves of all endpoints share
// a number of heads (Bounds.Reserve). A head beyond it is only in the store, and window.cold says
// when the first of those is due.
//
// A reserve has only idle heads as the store has them, and none that is due before an idle head of
// its window, urgent ones aside. A delivery is never both in the window and in the reserve.
type reserve struct {
	all  *reserved
	list []*store.Head // sorted by (Due, Delivery)
	by   map[int64]*store.Head
	peak int // the largest number of heads since memory was last given back
}

// reserved counts the heads in all reserves.
type reserved struct{ count, most int }

// compareReserved is the order of compareHeads without urgency.
func compareReserved(a, b *store.Head) int {
	return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Delivery, b.Delivery))
}

// first is the head that is due first, or nil.
func (r *reserve) first() *store.Head {
	if len(r.list) == 0 {
		return nil
	}
	return r.list[0]
}

// reaches says whether the reserve has heads that are due at a time or later.
func (r *reserve) reaches(due time.Time) bool {
	n := len(r.list)
	return n > 0 && !r.list[n-1].Due.Before(due)
}

// add remembers a head. If the reserves are full, the head that is due last is not remembered; add
// returns its due time, else zero.
func (r *reserve) add(h store.Head) (left time.Time) {
	if r.all.count >= r.all.most {
		if n := len(r.list); n == 0 || compareReserved(r.list[n-1], &h) < 0 {
			return h.Due
		}
		last := r.list[len(r.list)-1]
		r.remove(last.Delivery)
		left = last.Due
	}
	at, _ := slices.BinarySearchFunc(r.list, &h, compareReserved)
	h.Lane = strings.Clone(h.Lane) // it may be a part of its event's bytes
	r.list = slices.Insert(r.list, at, &h)
	if r.by == nil {
		r.by = map[int64]*store.Head{}
	}
	r.by[h.Delivery] = &h
	r.peak = max(r.peak, len(r.list))
	r.all.count++
	return left
}

// remove forgets a delivery, if it is remembered.
func (r *reserve) remove(delivery int64) {
	h := r.by[delivery]
	if h == nil {
		return
	}
	delete(r.by, delivery)
	r.all.count--
	at, _ := slices.BinarySearchFunc(r.list, h, compareReserved)
	if at == 0 { // the usual case, and moving the rest would take long
		r.list[0] = nil
		r.list = r.list[1:]
	} else {
		r.list = slices.Delete(r.list, at, at+1)
	}
	r.shrink()
}

// small is the number of heads up to which a reserve keeps its memory.
const small = 64

// shrink gives memory back once few of many heads are left: a map and a slice keep their largest
// size.
func (r *reserve) shrink() {
	if r.peak <= small || len(r.list) > r.peak/4 {
		return
	}
	r.list, r.peak = slices.Clone(r.list), len(r.list)
	r.by = make(map[int64]*store.Head, len(r.list))
	for _, h := range r.list {
		r.by[h.Delivery] = h
	}
}

// cut forgets all heads that are due after a time.
func (r *reserve) cut(after time.Time) {
	for n := len(r.list); n > 0 && r.list[n-1].Due.After(after); n-- {
		r.remove(r.list[n-1].Delivery)
	}
}

// clear forgets all heads.
func (r *reserve) clear() {
	r.all.count -= len(r.list)
	r.list, r.by, r.peak = nil, nil, 0
}
