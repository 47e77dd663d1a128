package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of searches.
type (
	Meaning = wire.Meaning // says what a word of a search stands for
	Thing   = wire.Thing   // a part of the configuration that has a name
)

// Meant says what a word without a name stands for in a search such as DeliveryFilter.Filter.
func (c *Client) Meant(ctx context.Context, word, tenant string) (*Meaning, error) {
	return get[Meaning](ctx, c, "/v1/search", query("word", word, "tenant", tenant))
}
