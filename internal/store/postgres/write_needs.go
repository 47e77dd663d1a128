package postgres

import (
	"cmp"
	"strings"

	"github.com/grapnelhq/grapnel/internal/store"
)

// wish is a lane as operations name it, before the endpoint's number is looked up.
type wish struct{ endpoint, key string }

// needs is what the operations of a transaction need: the locks, in the order of the fields, and
// the rows to read.
type needs struct {
	exclusive bool // the configuration changes
	refers    bool // finished deliveries must not be removed meanwhile

	queue      string         // no other transaction may claim from it
	shards     map[int16]bool // their epochs must not change
	guarded    []int64        // deliveries whose shards' epochs must not change
	lanes      map[wish]int64 // number of positions wanted per lane
	deliveries []int64        // to change, or to find
	lone       []int64        // to change, expected to have no lane (write_lone.go)
	taken      []int64        // to finish, expected to have no lane: their rows are deleted when they are read

	keys       map[string]bool // idempotency keys
	ids        map[eventName]bool
	minted     []eventName     // not looked up; see store.Incoming
	known      map[string]bool // dedupe keys
	endpoints  map[string]bool // to check for existence
	targets    map[string]bool // names that need numbers
	kinds      map[kind]bool
	newEvents  int // number of row ids to draw
	newNumbers int
}

func newNeeds() *needs {
	return &needs{shards: make(map[int16]bool), keys: make(map[string]bool), lanes: make(map[wish]int64), ids: make(map[eventName]bool),
		known:     make(map[string]bool),
		endpoints: make(map[string]bool), targets: make(map[string]bool), kinds: make(map[kind]bool)}
}

func (n *needs) once(o *store.Once) {
	if o != nil {
		n.keys[o.Key] = true
	}
}

// guard makes sure that the epoch of an endpoint's shard is read, and does not change.
func (n *needs) guard(endpoint string, epoch int64) {
	if epoch != 0 {
		n.shards[shardOf(endpoint)] = true
	}
}

// position asks for one more position in a lane.
func (n *needs) position(endpoint, key string) {
	n.targets[endpoint] = true
	n.lanes[wish{endpoint, key}]++
}

// wanted are the lanes by name, and the number of positions in each.
func (n *needs) wanted(names *named) (targets []int32, keys []string, counts []int64, err error) {
	for _, w := range sortedKeys(n.lanes, func(a, b wish) int {
		return cmp.Or(strings.Compare(a.endpoint, b.endpoint), strings.Compare(a.key, b.key))
	}) {
		target, err := names.target(w.endpoint)
		if err != nil {
			return nil, nil, nil, err
		}
		targets, keys, counts = append(targets, target), append(keys, w.key), append(counts, n.lanes[w])
	}
	return targets, keys, counts, nil
}

// tenants are the tenants of the ids to look up.
func (n *needs) tenants() []string {
	all := make(map[string]bool)
	for name := range n.ids {
		all[name.tenant] = true
	}
	return keysOf(all)
}
