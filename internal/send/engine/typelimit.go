package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// typeLimit limits how many event types a tenant may publish. Stores keep a row for each type for
// ever, and lists and purges read all rows of a tenant, so a publisher that puts an id into the
// type would slow them down without end.
//
// Only a type that this node has not seen lately is looked up. Two nodes, or two publishes of a new
// type of which one fails, may make the count differ from the rows by a few.
type typeLimit struct {
	store Store
	most  atomic.Int64 // 0: no limit
	names int          // types remembered, and tenants

	// Publishes of known types, which are nearly all, read these two without the lock.
	seen   sync.Map     // typeOf → nothing
	adding atomic.Int64 // the length of added

	mu    sync.Mutex          // of all changes
	total int                 // in seen
	added map[typeOf]struct{} // of seen: counted, but maybe not stored
	count map[string]int      // by tenant: types stored, and types admitted since
}

type typeOf struct{ tenant, name string }

func newTypeLimit(s Store, most, names int) *typeLimit {
	t := &typeLimit{store: s, names: names, added: map[typeOf]struct{}{}, count: map[string]int{}}
	t.most.Store(int64(most))
	return t
}

// refused are the indexes of events of types that their tenants may not add.
func (t *typeLimit) refused(ctx context.Context, events []store.Incoming) (at []int, err error) {
	most := int(t.most.Load())
	if most == 0 {
		return nil, nil
	}
	for i := range events {
		admitted, err := t.admits(ctx, events[i].Event, most)
		if err != nil {
			return nil, err
		}
		if !admitted {
			at = append(at, i)
		}
	}
	return at, nil
}

// admits says whether an event's tenant may publish events of its type, with most types of its own.
func (t *typeLimit) admits(ctx context.Context, ev *grapnel.Event, most int) (bool, error) {
	of := typeOf{ev.Tenant, ev.Type}
	if _, seen := t.seen.Load(of); seen {
		return true, nil
	}
	t.mu.Lock()
	left := most - t.count[of.tenant]
	t.mu.Unlock()
	countTo := most
	if left <= 0 {
		countTo = 0 // it was counted already
	}
	known, stored, err := t.store.HasType(ctx, of.tenant, of.name, countTo)
	if err != nil || left <= 0 && !known {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.adding.Store(int64(len(t.added))) }()
	if t.total >= t.names || len(t.count) >= t.names {
		t.clear()
	}
	if _, seen := t.seen.Load(of); !known && !seen { // seen: another publish was first
		t.count[of.tenant] = max(t.count[of.tenant], stored)
		if t.count[of.tenant] >= most {
			return false, nil
		}
		t.count[of.tenant]++
		t.added[of] = struct{}{}
	}
	if _, seen := t.seen.LoadOrStore(of, nil); !seen {
		t.total++
	}
	return true, nil
}

// tried notes which events were stored; placed is nil if none was. New types of the others do not
// count.
func (t *typeLimit) tried(events []store.Incoming, placed []store.Placed) {
	if t.adding.Load() == 0 {
		return // the case of nearly all; those of these events would be counted
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.adding.Store(int64(len(t.added))) }()
	for i, p := range placed {
		if !p.Duplicate && !p.Conflict {
			delete(t.added, typeOf{events[i].Event.Tenant, events[i].Event.Type})
		}
	}
	for i := range events {
		of := typeOf{events[i].Event.Tenant, events[i].Event.Type}
		if _, added := t.added[of]; added {
			delete(t.added, of)
			t.seen.Delete(of)
			t.total--
			t.count[of.tenant]--
		}
	}
}

// forget has all types looked up again: those of a tenant that was deleted are new ones.
func (t *typeLimit) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	t.adding.Store(0)
}

func (t *typeLimit) clear() {
	t.seen.Clear()
	t.total = 0
	clear(t.added)
	clear(t.count)
}

// crowded is the fault of an event that admits refuses.
func (t *typeLimit) crowded() string {
	return fmt.Sprintf("is new, and the tenant has published %d types already: put ids into the key or the data, or raise --max-types", t.most.Load())
}
