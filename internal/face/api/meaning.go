package api

import (
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func meaningRoutes() []route {
	return []route{{method: "GET", path: "/v1/search", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: showMeaning,
		name: "explain-word", tag: "Deliveries", summary: "Say what a word of a search stands for",
		about: "A word without a name in filter is an id, else an ordering key, else an event type, else text in the data of events. " +
			"In quotation marks it is always text.",
		query: []param{{name: "word", form: "text", required: true, doc: "the word"}, tenantParam}, gives: map[int]any{200: wire.Meaning{}}}}
}

func showMeaning(a *api, c *call) (answer, error) {
	word := c.query.text("word")
	as, err := a.meaning(c, word, c.query.text("tenant"))
	return result(wire.Meaning{Word: word, As: as}, err)
}

// meaning says what a word stands for. Each question is answered by an index with one row: an
// event by its id, the newest event of a key, the newest event of a type.
func (a *api) meaning(c *call, word, tenant string) (as string, err error) {
	switch prefix, _, _ := strings.Cut(word, "_"); {
	case !grapnel.ValidID(word):
	case prefix == grapnel.DeliveryPrefix:
		return "delivery", nil
	case prefix == grapnel.EventPrefix:
		return "event", nil
	case prefix == grapnel.EndpointPrefix, prefix == grapnel.QueuePrefix, prefix == grapnel.ChannelPrefix:
		return "endpoint", nil
	default:
		_, _, err := a.History.Event(c.Context(), c.scope, tenant, word)
		if err == nil {
			return "event", nil
		}
		if code := grapnel.CodeOf(err); code != grapnel.CodeNotFound && code != grapnel.CodeOf(store.ErrSeveral) {
			return "", err
		}
	}
	if len(word) <= grapnel.MaxKeyLength {
		if some, err := a.anEvent(c, store.EventQuery{Key: word, Tenant: tenant}); some || err != nil {
			return "key", err
		}
	}
	if grapnel.ValidPattern(word) {
		if some, err := a.anEvent(c, store.EventQuery{Type: word, Tenant: tenant}); some || err != nil {
			return "type", err
		}
	}
	return "text", nil
}

func (a *api) anEvent(c *call, q store.EventQuery) (bool, error) {
	q.Limit = 1
	found, err := a.History.EventList(c.Context(), c.scope, q)
	return len(found) > 0, err
}
