package postgres

import (
	"cmp"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// eventName identifies an event: ids are unique within a tenant.
type eventName struct{ id, tenant string }

// byName sorts names in the order of the indexes.
func byName(a, b eventName) int {
	return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.tenant, b.tenant))
}

// incoming is an event as passed to a writer: its data, metadata and intake are encoded (frozen).
type incoming struct {
	grapnel.Event
	frozen    codec.Frozen
	targets   []store.Target
	known     *known
	minted    bool
	notBefore time.Time

	kind        int32 // its number
	first, last int64 // of its deliveries
}

// known is a dedupe key of an event, and the answer given for the event.
type known struct {
	key, sum []byte
	until    int64
	placed   store.Placed
}

// met is an event that already exists.
type met struct {
	seq, accepted    int64
	made             int
	tenant, typ, key string
	data             []byte
	packed           int64
}
