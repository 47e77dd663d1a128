package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// search is what the search box asks for, in the grammar of package search. A word alone that is an
// id leads to the page of the thing.
type search struct {
	Text   string // as it was typed
	Filter client.DeliveryFilter
	Jump   string         // a path to go to: the search is an id
	Source string         // an id or a name, which Filter.Filter has as well
	Bare   string         // a word that may be an id, a key, a type, a name or text
	Means  string         // what it is, before the word: key, type, source, text
	Called string         // the name of the endpoint or source that it means
	Also   []client.Thing // whose names contain the word, if it means something else
	Faults []string
}

// parseSearch reads a search. What it cannot read is named in Faults; nothing may be selected then.
func parseSearch(text string, now time.Time) search {
	read := grammar.Parse(text, now)
	f := &read.Filter
	s := search{Text: read.Text, Filter: client.DeliveryFilter{
		Status: f.Status, Endpoint: f.Endpoint, Type: f.Type, Key: f.Key, Tenant: f.Tenant, StatusCode: f.Code,
		ErrorClass: f.Class, ReasonCode: f.Reason,
		From: f.From, To: f.To, Text: f.Text,
	}}
	for _, fault := range read.Faults {
		s.Faults = append(s.Faults, fault.String()+".")
	}
	var rest []string // conditions that only filter= has
	for _, t := range grammar.Tokens(read.Text) {
		if t.Name == "source" || t.Name == "took" || t.Name == "replayed" || t.Name == "attempts" || t.Name == "code" && s.Filter.StatusCode == 4 {
			rest = append(rest, t.String())
		}
	}
	if s.Filter.StatusCode == 4 {
		s.Filter.StatusCode = 0
	}
	s.Source = read.Filter.Source
	s.Filter.Filter = strings.Join(rest, " ")
	if s.Bare = read.Bare; s.Bare == s.Text {
		s.Jump = jump(s.Bare)
	}
	if s.Jump != "" {
		s.Filter.Text, s.Bare = "", ""
	}
	return s
}

// understood asks the API what the bare word of a search is, and makes it that condition.
func (v *visit) understood(s *search) error {
	if s.Bare == "" || len(s.Faults) > 0 {
		return nil
	}
	if v.meant == nil || v.meant.Word != s.Bare {
		is, err := v.client.Meant(v.Context(), s.Bare, s.Filter.Tenant)
		if err != nil {
			return err
		}
		v.meant = is
	}
	f := &s.Filter
	switch as := v.meant.As; {
	case as == "key" && f.Key == "":
		s.Means, f.Key, f.Text = "key", s.Bare, ""
	case as == "type" && f.Type == "":
		s.Means, f.Type, f.Text = "type", s.Bare, ""
	case as == "endpoint" && f.Endpoint == "":
		s.Means, f.Endpoint, f.Text = "endpoint", v.meant.ID, ""
	case as == "source" && s.Source == "":
		s.Means, s.Source, f.Text = "source", v.meant.ID, ""
		f.Filter = grammar.With(f.Filter, "source", s.Source)
	case as == "tenant" && f.Tenant == "":
		s.Means, f.Tenant, f.Text = "customer", v.meant.ID, ""
	case as == "event" && s.Bare == s.Text:
		s.Jump = "/events/" + s.Bare + v.ofTenant(f.Tenant)
	case as == "event" || as == "delivery":
		s.Means, f.Text = as, ""
		f.Filter = strings.TrimSpace(f.Filter + " " + s.Bare) // which only filter= has
	default:
		s.Means = "text"
	}
	if v.meant.Name != "" {
		s.Called = v.meant.Name
	}
	if s.Also = v.meant.Things; v.meant.ID != "" {
		s.Also = nil
	}
	return nil
}

// about puts what the bare word is before a sentence: "Key order_14: 12 deliveries".
func (s *search) about(text string) string {
	if s.Means == "" {
		return text
	}
	return strings.ToUpper(s.Means[:1]) + s.Means[1:] + " " + cmp.Or(s.Called, s.Bare) + ": " + strings.ToLower(text[:1]) + text[1:]
}

// jump is the page of a thing by its id; empty: it is not an id that has a page.
func jump(word string) string {
	for prefix, path := range map[string]string{grapnel.DeliveryPrefix + "_": "/deliveries/", grapnel.EndpointPrefix + "_": "/endpoints/",
		grapnel.EventPrefix + "_": "/events/", grapnel.ReplayPrefix + "_": "/replays/", grapnel.SourcePrefix + "_": "/sources/",
		grapnel.QueuePrefix + "_": "/queues/", grapnel.PolicyPrefix + "_": "/policies/", grapnel.AsidePrefix + "_": "/inbox/"} {
		if strings.HasPrefix(word, prefix) && grapnel.ValidID(word) {
			return path + word
		}
	}
	return ""
}

// token is a word of a search.
type token struct{ name, value string }

// String writes the word as it would be typed.
func (t token) String() string { return grammar.Token{Name: t.name, Value: t.value}.String() }

// with is the search with one condition more, in the place of one of the same name.
func (s search) with(name, value string) string { return grammar.With(s.Text, name, value) }

// within is the search for a part of time, in the place of the one that it has.
func (s search) within(from, to time.Time) string {
	text := grammar.With(s.Text, "from", from.UTC().Format(time.RFC3339), "since", "to")
	return grammar.With(text, "to", to.UTC().Format(time.RFC3339))
}

// always is the search without a time.
func (s search) always() string { return grammar.With(s.Text, "since", "", "from", "to") }

// has says whether the search has a condition.
func (s search) has(name string) bool {
	return slices.ContainsFunc(grammar.Tokens(s.Text), func(t grammar.Token) bool { return t.Name == name })
}

// timeOnly says whether the search has no conditions but for the time and the endpoint, which are
// those that totals have.
func (s search) timeOnly() bool {
	return !slices.ContainsFunc(grammar.Tokens(s.Text), func(t grammar.Token) bool {
		return !slices.Contains([]string{"since", "from", "to", "endpoint", "tenant"}, t.Name)
	})
}

// ofTenant is the query that names the tenant of an event, which sessions of all tenants need.
func (v *visit) ofTenant(tenant string) string {
	if v.session.Tenant != "" {
		return ""
	}
	return withQuery("tenant", tenant)
}
