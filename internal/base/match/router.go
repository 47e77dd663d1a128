package match

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// Router knows the endpoints of every tenant as they were when it was built.
type Router struct {
	tenants map[string]*table
	filters map[string]*Filter // by their text, for the next router
}

// table has the endpoints of one tenant, in the order of their ids. An endpoint can be in both
// lists.
type table struct {
	entries []entry
	exact   map[string][]int // type → entries that name it
	open    []int            // entries with a pattern, or that want everything
	filters bool             // an entry has a filter
}

// entry is one endpoint, prepared.
type entry struct {
	endpoint *grapnel.Endpoint
	all      bool     // wants every type
	patterns []string // those with a star
	filter   *Filter  // nil: none
	broken   error    // the filter does not compile
}

// NewRouter prepares endpoints for matching. Deleted ones are left out; paused and disabled ones
// are wanted, because their deliveries are held or dropped later. The endpoints must not be changed
// afterwards.
//
// A filter that does not compile, which can only be one that an older version accepted, is reported
// as an error. The router is complete even so: that endpoint matches nothing, and Explain says why.
func NewRouter(endpoints []grapnel.Endpoint) (*Router, error) {
	all := make([]*grapnel.Endpoint, len(endpoints))
	for i := range endpoints {
		all[i] = &endpoints[i]
	}
	return (&Router{}).Next(all)
}

// Next prepares a changed set of endpoints. It takes over the filters that this router has compiled
// already, because compiling the filters of ten thousand endpoints for every change of one of them
// would take seconds.
func (r *Router) Next(endpoints []*grapnel.Endpoint) (*Router, error) {
	next := &Router{tenants: map[string]*table{}, filters: map[string]*Filter{}}
	var broken []error
	for _, ep := range byID(endpoints) {
		e := entry{endpoint: ep}
		if ep.Filter != "" {
			e.filter, e.broken = next.compiled(ep.Filter, r)
		}
		if e.broken != nil {
			broken = append(broken, fmt.Errorf("match: the filter of endpoint %s: %w", ep.ID, e.broken))
		}
		next.table(ep.Tenant).add(e, ep.EventTypes)
	}
	return next, errors.Join(broken...)
}

// byID lists the endpoints that are not deleted, in the order of their ids.
func byID(endpoints []*grapnel.Endpoint) []*grapnel.Endpoint {
	order := slices.DeleteFunc(slices.Clone(endpoints), func(ep *grapnel.Endpoint) bool { return !ep.DeletedAt.IsZero() })
	slices.SortStableFunc(order, func(a, b *grapnel.Endpoint) int { return strings.Compare(a.ID, b.ID) })
	return order
}

// compiled finds a filter in this router or the one before, or compiles it.
func (r *Router) compiled(filter string, before *Router) (*Filter, error) {
	f := r.filters[filter]
	if f == nil {
		f = before.filters[filter]
	}
	if f == nil {
		var err error
		if f, err = Compile(filter); err != nil {
			return nil, err
		}
	}
	r.filters[filter] = f
	return f, nil
}

func (r *Router) table(tenant string) *table {
	t := r.tenants[tenant]
	if t == nil {
		t = &table{exact: map[string][]int{}}
		r.tenants[tenant] = t
	}
	return t
}

func (t *table) add(e entry, eventTypes []string) {
	n := len(t.entries)
	e.all = len(eventTypes) == 0 || slices.Contains(eventTypes, "*")
	for _, pattern := range eventTypes {
		switch {
		case e.all && !grapnel.WantsAlerts(pattern):
		case strings.Contains(pattern, "*"):
			e.patterns = append(e.patterns, pattern)
		case !slices.Contains(t.exact[pattern], n):
			t.exact[pattern] = append(t.exact[pattern], n)
		}
	}
	if e.all || len(e.patterns) > 0 {
		t.open = append(t.open, n)
	}
	t.entries = append(t.entries, e)
	t.filters = t.filters || e.filter != nil
}

// Match returns the endpoints that want the event, in the order of their ids. With an error, which
// is ErrTooCostly or that of the budget's context, endpoints are missing whose filters did not run.
// The budget may be nil if the tenant has no Filters.
func (r *Router) Match(ev *grapnel.Event, b *Budget) ([]*grapnel.Endpoint, error) {
	t := r.tenants[ev.Tenant]
	if t == nil {
		return nil, nil
	}
	var wanted []*grapnel.Endpoint
	var v *view
	at := t.subscribers(ev.Type)
	for e := at.next(); e != nil; e = at.next() {
		if e.filter == nil {
			if e.closed(ev) == nil {
				wanted = append(wanted, e.endpoint)
			}
			continue
		}
		if err := b.open(); err != nil {
			return wanted, err
		}
		if v == nil {
			v = &view{event: ev}
		}
		before := v.cost
		if e.passes(v) == nil {
			wanted = append(wanted, e.endpoint)
		}
		b.left -= v.cost - before
	}
	return wanted, nil
}

// Filters says whether an endpoint of the tenant has a filter.
func (r *Router) Filters(tenant string) bool {
	t := r.tenants[tenant]
	return t != nil && t.filters
}

// Explain returns the verdict on every endpoint that subscribes to the event's type, in the order
// of their ids.
func (r *Router) Explain(ev *grapnel.Event) []Verdict {
	t := r.tenants[ev.Tenant]
	if t == nil {
		return nil
	}
	var verdicts []Verdict
	v := &view{event: ev}
	at := t.subscribers(ev.Type)
	for e := at.next(); e != nil; e = at.next() {
		verdict := Verdict{Endpoint: e.endpoint, Wanted: true}
		if err := e.passes(v); err != nil {
			verdict.Wanted, verdict.Reason = false, err.Error()
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts
}

var errFilteredOut = errors.New("the filter is false")

var errOtherSource = errors.New("the event is not of the endpoint's source")

// passes returns nil if the entry's source and filter let the event through, else the reason.
func (e *entry) passes(v *view) error {
	if err := e.closed(v.event); err != nil || e.filter == nil {
		return err
	}
	return v.passes(e.filter)
}

// closed returns why the entry takes no event of this source, whatever its filter says.
func (e *entry) closed(ev *grapnel.Event) error {
	if e.endpoint.Source != "" && e.endpoint.Source != ev.Source {
		return errOtherSource
	}
	if e.broken != nil {
		return fmt.Errorf("the filter does not compile: %w", e.broken)
	}
	return nil
}

// subscribers merges the two sorted lists: entries that name the type, and entries with a pattern
// that matches it.
func (t *table) subscribers(eventType string) subscribers {
	return subscribers{table: t, eventType: eventType, exact: t.exact[eventType], open: t.open}
}

type subscribers struct {
	*table
	eventType   string
	exact, open []int // the rest of the two lists
}

// next returns nil after the last one.
func (s *subscribers) next() *entry {
	for len(s.exact) > 0 || len(s.open) > 0 {
		switch {
		case len(s.open) == 0 || len(s.exact) > 0 && s.exact[0] <= s.open[0]:
			n := s.exact[0]
			if s.exact = s.exact[1:]; len(s.open) > 0 && s.open[0] == n {
				s.open = s.open[1:]
			}
			return &s.entries[n]
		default:
			e := &s.entries[s.open[0]]
			if s.open = s.open[1:]; e.subscribes(s.eventType) {
				return e
			}
		}
	}
	return nil
}

// subscribes says whether the entry is open to a type. Alerts go only to those that name them.
func (e *entry) subscribes(eventType string) bool {
	alert := grapnel.IsAlert(eventType)
	return e.all && !alert || slices.ContainsFunc(e.patterns, func(p string) bool {
		return grapnel.MatchType(p, eventType) && (!alert || grapnel.WantsAlerts(p))
	})
}

// passes returns nil if the filter lets the event through, else the reason. Endpoints with the same
// filter share its answer.
func (v *view) passes(f *Filter) error {
	err, ran := v.said[f]
	if ran {
		return err
	}
	ok, err := f.match(v)
	if err == nil && !ok {
		err = errFilteredOut
	}
	if v.said == nil {
		v.said = map[*Filter]error{}
	}
	v.said[f] = err
	return err
}
