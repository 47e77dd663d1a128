package memory

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// eventName identifies an event: ids are unique within a tenant.
type eventName struct{ tenant, id string }

// edit says which object a version of the configuration has changed.
type edit struct{ kind, id string }

// knownBy is the key of a Known.
type knownBy struct{ source, by string }

// known is a stored Known; its event may have been purged.
type known struct {
	sum   [32]byte
	until time.Time
	first store.Placed // the answer that its event got
}

// delivery is a delivery, pending or finished. A finished one has the state in which it ended.
type delivery struct {
	decide.Pending
	status   grapnel.Status
	finished int64 // decide.None: it is pending
	event    *event
	lane     *lane // nil: unordered or without key
	tries    []grapnel.Attempt
	mark     grapnel.Mark
	item     *item // nil: no replay created it
	lease    decide.Lease
}

// queue is an endpoint's pending deliveries.
type queue struct {
	tenant  string         // of its deliveries
	pending order          // all of it, the oldest first
	due     order          // the heads that are not blocked, the earliest first
	leased  order          // the leased ones of due
	held    map[string]int // leases by consumer
	lanes   map[string]*lane
	forgot  int64 // the highest position of the lanes that were forgotten
	purged  int64 // the highest row id of its deliveries that were purged
}

// lane is one key's lane at one endpoint. Its positions continue for as long as the delivery with
// the last one is stored.
type lane struct {
	last    int64 // the last assigned position
	pending order // the head first
}

// event is an event with its deliveries.
type event struct {
	grapnel.Event
	deliveries []*delivery // in the order of their numbers
	made       int         // deliveries created by its acceptance; the others are redeliveries
}

// answer is a stored answer, valid before it expires and no longer at that instant.
type answer struct {
	store.Answer
	expires time.Time
}

// order is a set of deliveries in a fixed order. It consists of blocks, so that adding and removing
// are cheap at any size. A delivery's sort fields must not change while it is in the set.
type order struct {
	before func(a, b *delivery) bool
	blocks [][]*delivery // none is empty, and each ends before the next begins
	size   int
}

// replay is a replay with its items.
type replay struct {
	grapnel.Replay
	items []*item // by the numbers of the originals
}

// item is one delivery of a replay.
type item struct {
	grapnel.ReplayItem
	of *replay // nil: it is no longer listed
}

// part is one hour of an endpoint, or one day if its hours have been merged.
type part struct {
	endpoint, tenant string
	at               time.Time
	whole            bool // a day
}

// typePart is the same of an event type.
type typePart struct {
	tenant, eventType string // without a type: those that are not told apart
	at                time.Time
	whole             bool
}
