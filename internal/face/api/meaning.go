package api

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

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
	word, tenant := c.query.text("word"), c.query.text("tenant")
	var found ranked
	var ask errgroup.Group // names are in memory, and the store says the rest
	ask.Go(func() error {
		found = a.things(c, search.NewWord(word), tenant)
		return nil
	})
	is := wire.Meaning{Word: word}
	err := a.byItself(c, tenant, &is)
	_ = ask.Wait() // things cannot fail
	found.into(&is, a.Bounds.Things)
	return result(is, err)
}

// meaning says what a word stands for. Each question to the store is answered by an index with one
// row: an event by its id, the newest event of a key, the newest event of a type. Names are in
// memory, and looked at only if the word is none of these.
func (a *api) meaning(c *call, word, tenant string) (is wire.Meaning, err error) {
	is = wire.Meaning{Word: word}
	if err = a.byItself(c, tenant, &is); is.As == "" && err == nil {
		found := a.things(c, search.NewWord(word), tenant)
		found.into(&is, a.Bounds.Things)
	}
	return is, err
}

// byItself says what a word is if it is no name; As stays empty: none of these.
func (a *api) byItself(c *call, tenant string, is *wire.Meaning) error {
	word := is.Word
	switch prefix, _, _ := strings.Cut(word, "_"); {
	case !grapnel.ValidID(word):
	case prefix == grapnel.DeliveryPrefix:
		is.As = "delivery"
	case prefix == grapnel.EventPrefix:
		is.As = "event"
	case prefix == grapnel.EndpointPrefix, prefix == grapnel.QueuePrefix, prefix == grapnel.ChannelPrefix:
		is.As, is.ID, is.Name = "endpoint", word, a.endpointName(c, word)
	case prefix == grapnel.SourcePrefix:
		is.As, is.ID, is.Name = "source", word, a.sourceName(c, word)
	default:
		_, _, err := a.History.Event(c.Context(), c.scope, tenant, word)
		if err == nil {
			is.As = "event"
		} else if code := grapnel.CodeOf(err); code != grapnel.CodeNotFound && code != grapnel.CodeOf(store.ErrSeveral) {
			return err
		}
	}
	for _, q := range []struct {
		as    string
		valid bool
		store.EventQuery
	}{
		{"key", len(word) <= grapnel.MaxKeyLength, store.EventQuery{Key: word, Tenant: tenant, Limit: 1}},
		{"type", grapnel.ValidPattern(word), store.EventQuery{Type: word, Tenant: tenant, Limit: 1}},
	} {
		if is.As != "" || !q.valid {
			continue
		}
		found, err := a.History.EventList(c.Context(), c.scope, q.EventQuery)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			is.As = q.as
		}
	}
	return nil
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

// into names the first things, and says which one the word names if it is nothing by itself.
func (r *ranked) into(is *wire.Meaning, most int) {
	all := append([]wire.Thing{}, slices.Concat(r[:]...)...)
	is.Things = all[:min(len(all), most)]
	for _, of := range [][]string{{"endpoint", "queue"}, {"source"}, {"tenant"}} {
		if one, only := r.named(of); only && is.As == "" {
			is.As, is.ID, is.Name = of[0], one.ID, one.Name
		}
	}
	is.As = cmp.Or(is.As, "text")
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
