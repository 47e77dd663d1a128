package configuration

import (
	"slices"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Pulled separates heads: it returns the heads of pushed endpoints, and the ids of the queues of
// the others.
func (c *Snapshot) Pulled(heads []store.Head) (pushed []store.Head, queues []string) {
	if c.queues == 0 {
		return heads, nil
	}
	for i := range heads {
		if id := heads[i].Endpoint; !c.Pulls(id) {
			pushed = append(pushed, heads[i])
		} else if !slices.Contains(queues, id) {
			queues = append(queues, id)
		}
	}
	return pushed, queues
}

// Pulls says whether an endpoint is a queue.
func (c *Snapshot) Pulls(endpoint string) bool {
	ep := c.At(endpoint)
	return ep != nil && ep.Queue != nil
}
