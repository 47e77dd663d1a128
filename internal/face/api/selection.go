package api

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/search"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// A selection is what a list of deliveries or an export was asked for.
type selection struct {
	store.DeliveryQuery
	text  string        // in the event's data; empty: any
	took  time.Duration // at least, of the last attempt; 0: any
	again bool          // only those that repeat another
	tries *search.Range // attempts made; nil: any number

	id      string // of a delivery or an event, in the place of all others; empty: any
	ofEvent bool   // id is an event's
	err     error  // the meaning of a word could not be looked up
}

func statuses() []string {
	var names []string
	for _, s := range grapnel.Statuses() {
		names = append(names, string(s))
	}
	return names
}

var (
	endpointParam = param{name: "endpoint", form: "id", doc: "an endpoint's id"}
	statusParam   = param{name: "status", repeat: true, one: statuses(), doc: "one or more statuses, repeated or separated by commas"}
)

// deadLetterFilter are the parameters that choose among dead letters, and among deliveries of any
// status.
func deadLetterFilter() []param {
	return []param{
		typeParam, keyParam, tenantParam, fromParam, toParam,
		{name: "reason_code", one: search.Values("reason"), doc: "why it failed"},
		{name: "error_class", one: search.Values("error"), doc: "error class of the last attempt; none: it succeeded"},
		{name: "status_code", bound: func(*Bounds) strict.Form { return strict.WholeNumber(100, 599) }, doc: "status of the last attempt's response: 100 to 599"},
		{name: "text", form: "text", doc: "exact text in the event's data, at most 256 bytes. There is no index for it, so a page searches a limited " +
			"number of events: it may be short or empty while next says that more can be searched"},
		filterParam,
	}
}

// filterParam is the search grammar of pages and of the command line.
var filterParam = param{name: "filter", form: "filter", doc: "a search, such as status:dead endpoint:acme type:invoice.* code:5xx since:6h \"text\"; the names are " +
	strings.Join(search.Names, ", ") + ". endpoint: and source: take an id, a name or a part of one; took:, replayed: and attempts: look at a limited number of " +
	"deliveries for each page, which may be short while next says that more can be searched"}

// replayedParam shows more dead letters than there are by themselves.
var replayedParam = param{name: "replayed", one: []string{"true"}, doc: "include dead letters that were replayed with success"}

func deliveryFilter() []param { return append([]param{statusParam}, deadLetterFilter()...) }

// selection reads the filters of a request, without limit and cursor. Faults are in the query.
func (a *api) selection(c *call, endpoint string) selection {
	q := &c.query
	s := selection{text: q.text("text"), DeliveryQuery: store.DeliveryQuery{
		Endpoint: cmp.Or(endpoint, q.text("endpoint")), Type: q.text("type"), Key: q.text("key"), Tenant: q.text("tenant"),
		Class: policy.Class(q.text("error_class")), ReasonCode: grapnel.ReasonCode(q.text("reason_code")), StatusCode: q.number("status_code", 0),
	}}
	s.From, s.To = q.span()
	for _, status := range q.all("status") {
		s.Status = append(s.Status, grapnel.Status(status))
	}
	a.filter(c, &s, endpoint)
	if slices.Contains(s.Status, grapnel.Held) || slices.Contains(s.Status, grapnel.Pending) {
		s.HeldEndpoints = a.Engine.Held()
	}
	return s
}

// filter adds what filter= says. A condition is given there or as a parameter of its own.
func (a *api) filter(c *call, s *selection, endpoint string) {
	q := &c.query
	read := search.Parse(q.text("filter"), c.now)
	f := &read.Filter
	for _, fault := range read.Faults {
		q.faults.Add("?filter", "%s", fault)
	}
	if f.Source != "" {
		id, says := search.One("source", f.Source, a.sources(c))
		if says != "" && (c.scope.HidesAlerts() || !strings.HasPrefix(f.Source, grapnel.SourcePrefix+"_")) {
			q.faults.Add("?filter", "%s: %s", search.Token{Name: "source", Value: f.Source}, says)
		}
		s.Source = cmp.Or(id, f.Source)
	}
	if f.Endpoint != "" {
		id, says := search.One("endpoint", f.Endpoint, a.callable(c))
		if says != "" && !strings.HasPrefix(f.Endpoint, grapnel.EndpointPrefix+"_") { // a deleted one has deliveries
			q.faults.Add("?filter", "%s: %s", search.Token{Name: "endpoint", Value: f.Endpoint}, says)
		}
		f.Endpoint = cmp.Or(id, f.Endpoint)
	}
	s.took, s.again, s.tries = f.Took, f.Again, f.Attempts
	for _, add := range []struct {
		name  string
		given bool // by the search
		twice bool
		set   func()
	}{
		{"status", f.Status != nil, q.values.Has("status"), func() { s.Status = f.Status }},
		{"endpoint", f.Endpoint != "", endpoint != "" || q.values.Has("endpoint"), func() { s.Endpoint = f.Endpoint }},
		{"type", f.Type != "", q.values.Has("type"), func() { s.Type = f.Type }},
		{"key", f.Key != "", q.values.Has("key"), func() { s.Key = f.Key }},
		{"tenant", f.Tenant != "", q.values.Has("tenant"), func() { s.Tenant = f.Tenant }},
		{"code", f.Code != 0, q.values.Has("status_code"), func() { s.StatusCode = f.Code }},
		{"error", f.Class != "", q.values.Has("error_class"), func() { s.Class = f.Class }},
		{"reason", f.Reason != "", q.values.Has("reason_code"), func() { s.ReasonCode = f.Reason }},
		{"from", !f.From.IsZero(), q.values.Has("from"), func() { s.From = f.From }},
		{"to", !f.To.IsZero(), q.values.Has("to"), func() { s.To = f.To }},
		{"text", f.Text != "", q.values.Has("text"), func() { s.text = f.Text }},
	} {
		switch {
		case add.given && add.twice:
			q.faults.Add("?filter", "%s is given in filter and as a parameter; give it once", add.name)
		case add.given:
			add.set()
		}
	}
	if read.Bare != "" && q.faults.Err() == nil {
		s.err = a.word(c, s, read.Bare)
	}
	if len(s.text) > longestText {
		q.faults.Add("?filter", "its text has more than %d bytes", longestText)
	}
}

// word applies what the bare word of a search stands for. A condition that is given already leaves
// it as text.
func (a *api) word(c *call, s *selection, word string) error {
	is, err := a.meaning(c, word, s.Tenant)
	switch as := is.As; {
	case err != nil:
		return err
	case as == "key" && s.Key == "":
		s.Key = word
	case as == "type" && s.Type == "":
		s.Type = word
	case as == "endpoint" && s.Endpoint == "":
		s.Endpoint = is.ID
	case as == "source" && s.Source == "":
		s.Source = is.ID
	case as == "tenant" && s.Tenant == "":
		s.Tenant = is.ID
	case as == "event" || as == "delivery":
		s.id = word
		s.ofEvent = as == "event"
	default:
		return nil
	}
	s.text = ""
	return nil
}

// byID finds the delivery, or the deliveries of the event, whose id a search has, as find does.
func (a *api) byID(c *call, s selection, before int64, limit int) (found []grapnel.Delivery, resume int64, err error) {
	all := make([]grapnel.Delivery, 1)
	if s.ofEvent {
		_, all, err = a.History.Event(c.Context(), c.scope, s.Tenant, s.id)
	} else if d, failed := a.delivery(c, s.id); failed == nil {
		all[0] = *d
	} else {
		err = failed
	}
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if s.Source != "" && len(all) > 0 {
		ev, _, err := a.History.Event(c.Context(), c.scope, all[0].Tenant, all[0].EventID)
		if err != nil || ev.Source != s.Source {
			return nil, 0, err
		}
	}
	of := s.Events()
	for _, d := range slices.Backward(all) {
		if before > 0 && d.Seq >= before || !s.Takes(&d) || !of.Takes(c.scope, d.Tenant, d.Type, d.Key, d.CreatedAt) {
			continue
		}
		if len(found) == limit {
			return found, found[limit-1].Seq, nil
		}
		d.Attempts = nil
		found = append(found, d)
	}
	return found, 0, nil
}

// callable are the endpoints and queues that a search can name.
func (a *api) callable(c *call) (all []search.Named) {
	a.Engine.EachEndpoint(c.scope, func(ep *grapnel.Endpoint) bool {
		name := cmp.Or(ep.Description, withoutQuery(ep.URL))
		if ep.Queue != nil {
			name = ep.Queue.Name
		}
		all = append(all, search.Named{ID: ep.ID, Name: name})
		return true
	})
	return all
}

// sources are those that a search can name. Customers see none.
func (a *api) sources(c *call) (all []search.Named) {
	if c.scope.HidesAlerts() {
		return nil
	}
	for _, s := range a.Engine.Sources(c.scope) {
		all = append(all, search.Named{ID: s.ID, Name: s.Name})
	}
	return all
}

// scanned finds deliveries by what the store has no condition for. It reads at most Scan of them
// for a page, so a page may be short while resume says that more can be searched.
func (a *api) scanned(c *call, s selection, before int64, limit int) (found []grapnel.Delivery, resume int64, err error) {
	took, again, tries := s.took, s.again, s.tries
	s.took, s.again, s.tries = 0, false, nil
	for read := 0; read < a.Bounds.DeliveryScan; {
		part, next, err := a.find(c, s, before, min(a.Bounds.PageMost, a.Bounds.DeliveryScan-read))
		if err != nil {
			return nil, 0, err
		}
		for i := range part {
			if d := &part[i]; d.Last.Duration < took || again && d.ReplayOf == 0 || !tries.Has(d.AttemptsMade) {
				continue
			}
			if found = append(found, part[i]); len(found) == limit && (i+1 < len(part) || next > 0) {
				return found, part[i].Seq, nil
			}
		}
		if before = next; next == 0 {
			return found, 0, nil
		}
		read += max(len(part), 1)
		if s.text != "" { // which has a limit of its own
			break
		}
	}
	return found, before, nil
}

// find returns the next deliveries that a selection means, the newest first, and the number before
// which to go on; 0: nowhere, these were the last. While that is not 0 there may be fewer than
// limit: what a page reads is bounded, also if it finds nothing.
func (a *api) find(c *call, s selection, before int64, limit int) (found []grapnel.Delivery, resume int64, err error) {
	switch {
	case s.err != nil:
		return nil, 0, s.err
	case s.took > 0 || s.again || s.tries != nil:
		return a.scanned(c, s, before, limit)
	case s.id != "":
		return a.byID(c, s, before, limit)
	}
	q := s.DeliveryQuery
	q.Before, q.Limit = before, limit+1
	if s.text != "" && !c.mayReadPayloads() {
		return nil, 0, errHidden // what a search finds tells what the data are
	}
	found, resume, err = a.History.DeliverySearch(c.Context(), c.scope, q, s.text)
	if err != nil || len(found) <= limit {
		return found, resume, err
	}
	return found[:limit], found[limit-1].Seq, nil
}

// known says whether the caller can see an endpoint, or what became of one that is deleted: its
// history outlives it.
func (a *api) known(c *call, endpoint string) error {
	if _, ok := a.Engine.Endpoint(c.scope, endpoint); ok {
		return nil
	}
	past, err := a.History.DeliveryList(c.Context(), c.scope, store.DeliveryQuery{Endpoint: endpoint, Limit: 1})
	if err != nil || len(past) == 0 {
		return cmp.Or(err, store.ErrNotFound("endpoint"))
	}
	return nil
}
