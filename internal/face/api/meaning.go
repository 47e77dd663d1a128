package api

import (
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/search"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func meaningRoutes() []route {
	return []route{{method: "GET", path: "/v1/search", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: showMeaning,
		name: "explain-word", tag: "Deliveries", summary: "Say what a word of a search stands for, and find things by their names",
		about: "A word without a name in filter is an id, else an ordering key, else an event type, else an endpoint, a queue, a source or a " +
			"tenant by its name, else text in the data of events. A name counts if it is the word, or if it alone has the word among its own. " +
			"In quotation marks a word is always text. things are endpoints, queues, sources, policies, event types and tenants whose " +
			"names contain the word, the best matches first.",
		query: []param{{name: "word", form: "text", required: true, doc: "the word"}, tenantParam}, gives: map[int]any{200: wire.Meaning{}}}}
}

func showMeaning(a *api, c *call) (answer, error) {
	is, err := a.meaning(c, c.query.text("word"), c.query.text("tenant"))
	if err == nil && is.Things == nil {
		found := a.things(c, search.NewWord(is.Word), c.query.text("tenant"))
		is.Things = found.best(a.Bounds.Things)
	}
	return result(is, err)
}

// meaning says what a word stands for. Each question to the store is answered by an index with one
// row: an event by its id, the newest event of a key, the newest event of a type. Names are in
// memory; Things is nil if they were not looked at.
func (a *api) meaning(c *call, word, tenant string) (is wire.Meaning, err error) {
	is = wire.Meaning{Word: word}
	if is.As, err = a.byItself(c, word, tenant); is.As != "" || err != nil {
		switch is.As {
		case "endpoint":
			is.ID, is.Name = word, a.endpointName(c, word)
		case "source":
			is.ID, is.Name = word, a.sourceName(c, word)
		}
		return is, err
	}
	found := a.things(c, search.NewWord(word), tenant)
	is.As, is.Things = "text", found.best(a.Bounds.Things)
	if len(found[search.Exact])+len(found[search.Whole]) > 0 {
		for _, of := range [][]string{{"endpoint", "queue"}, {"source"}, {"tenant"}} {
			if one, only := found.named(of); only {
				is.As, is.ID, is.Name = of[0], one.ID, one.Name
				break
			}
		}
	}
	return is, nil
}

// byItself says what a word is if it is no name; empty: none of these.
func (a *api) byItself(c *call, word, tenant string) (as string, err error) {
	switch prefix, _, _ := strings.Cut(word, "_"); {
	case !grapnel.ValidID(word):
	case prefix == grapnel.DeliveryPrefix:
		return "delivery", nil
	case prefix == grapnel.EventPrefix:
		return "event", nil
	case prefix == grapnel.EndpointPrefix, prefix == grapnel.QueuePrefix, prefix == grapnel.ChannelPrefix:
		return "endpoint", nil
	case prefix == grapnel.SourcePrefix:
		return "source", nil
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
	return "", nil
}

// ranked are things by how well their names match; of each rank at most Bounds.Things+1 of a kind.
type ranked [search.Differs][]wire.Thing

// things finds the things whose names contain a word, by one look at each in the configuration.
func (a *api) things(c *call, word search.Word, tenant string) (found ranked) {
	type ranking struct {
		kind string
		rank int
	}
	kinds := map[ranking]int{}
	add := func(kind, of, id, name string) {
		rank := word.Rank(id, name)
		if rank == search.Differs || tenant != "" && of != tenant || kinds[ranking{kind, rank}] > a.Bounds.Things {
			return
		}
		kinds[ranking{kind, rank}]++
		found[rank] = append(found[rank], wire.Thing{Kind: kind, ID: id, Name: name, Tenant: of})
	}
	a.Engine.EachEndpoint(c.scope, func(ep *grapnel.Endpoint) bool {
		switch {
		case ep.Queue != nil:
			add("queue", ep.Tenant, ep.ID, title(ep))
		case ep.Channel == nil:
			add("endpoint", ep.Tenant, ep.ID, title(ep))
		}
		return true
	})
	if c.scope.HidesAlerts() {
		return found // customers have endpoints only
	}
	for _, s := range a.Engine.Sources(c.scope) {
		add("source", s.Tenant, s.ID, s.Name)
	}
	for _, p := range a.Engine.Policies(c.scope) {
		add("policy", p.Tenant, p.ID, p.Name)
	}
	for _, t := range a.Engine.EventTypes(c.scope) {
		add("event_type", t.Tenant, t.ID, t.Name)
	}
	if c.key.Tenant == "" {
		for _, name := range a.Engine.Tenants() {
			add("tenant", name, name, name)
		}
	}
	return found
}

// best are the first things, never nil.
func (r *ranked) best(most int) []wire.Thing {
	all := append([]wire.Thing{}, slices.Concat(r[:]...)...)
	return all[:min(len(all), most)]
}

// named is the thing of some kinds that has a name, or that alone has it as a word of its own.
func (r *ranked) named(kinds []string) (one wire.Thing, only bool) {
	for _, all := range r[:search.Whole+1] {
		n := 0
		for _, t := range all {
			if slices.Contains(kinds, t.Kind) {
				one, n = t, n+1
			}
		}
		if n > 0 {
			return one, n == 1
		}
	}
	return one, false
}

func (a *api) anEvent(c *call, q store.EventQuery) (bool, error) {
	q.Limit = 1
	found, err := a.History.EventList(c.Context(), c.scope, q)
	return len(found) > 0, err
}
