package postgres

import (
	"sync"

	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// database is what those who read and those who write share: the connections, the numbers of names,
// the calendar of days, and the way to the writer (write).
type database struct {
	connections
	names    names
	days     days
	packer   *codec.Packer
	sealer   *seal.Sealer // nil: nothing is sealed
	callers  bool         // leases end by the times that calls pass
	stats    stats
	able     able
	highest  highest
	horizon  horizon // of feeds
	requests chan *request
	stopped  chan struct{} // closed when the writer has stopped
}

// reader has the calls that read single objects, and what the engine needs of an endpoint.
type reader struct{ *database }

// lister has the lists and searches of deliveries and events, which read in steps of days.
type lister struct{ *database }

// changer has the calls that write: each makes an operation and waits for it (write).
type changer struct{ *database }

// owner has the calls by which nodes share the shards.
type owner struct{ *database }

// keeper has the calls that remove expired rows, and those that begin and clear days.
type keeper struct {
	*database
	round round // of Purge
}

// round is how far the calls of Purge with one Keep have come.
type round struct {
	mu   sync.Mutex
	keep store.Keep
	last int64 // no event up to this row id has a row left to delete
}
