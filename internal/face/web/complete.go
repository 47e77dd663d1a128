package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// suggestion completes the word at the cursor of a search box.
type suggestion struct {
	Word string `json:"word"`
	Says string `json:"says,omitempty"`
	To   string `json:"to,omitempty"` // of a name: the page of the thing
}

const mostSuggestions = 12

// completions answers with words that complete one. It asks for names, which the server has in
// memory, for the event types of the catalogue, and for the newest page of events: none of these
// grows with the number of deliveries. So types and keys are registered or recent ones.
func (v *visit) completions() error {
	if v.session == nil {
		http.Error(v.rw, "The session has ended.", http.StatusUnauthorized)
		return nil
	}
	word, most := v.URL.Query().Get("word"), v.web.Bounds.Search
	if len(word) > most {
		word = ""
	}
	find := v.complete
	if name := v.URL.Query().Get("name"); name != "" && len(name) <= most {
		word, find = strings.TrimSpace(name), v.places
	}
	found, err := find(word)
	if err != nil {
		return err
	}
	if found == nil {
		found = []suggestion{}
	}
	v.rw.Header().Set("Content-Type", grapnel.JSONType)
	_ = json.NewEncoder(v.rw).Encode(found) // the browser may have left
	return nil
}

func (v *visit) complete(word string) (all []suggestion, err error) {
	name, value, named := strings.Cut(word, ":")
	if !named {
		for _, n := range grammar.Names {
			if strings.HasPrefix(n, strings.ToLower(word)) {
				all = append(all, suggestion{Word: n + ":", Says: "such as " + n + ":" + grammar.Examples[n]})
			}
		}
		return all, nil
	}
	if !slices.Contains(grammar.Names, name) {
		return nil, nil
	}
	value = strings.ToLower(strings.Trim(value, `"`))
	add := func(value, says string) {
		one := suggestion{Word: token{name, value}.String(), Says: says}
		if len(all) < mostSuggestions && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	before, value := lastOf(name, value)
	for _, known := range grammar.Values(name) {
		if strings.HasPrefix(known, value) {
			add(before+known, "")
		}
	}
	switch name {
	case "endpoint", "source", "tenant":
		found, err := v.things(value)
		for _, t := range found {
			if t.Kind == name || name == "endpoint" && t.Kind == "queue" {
				add(t.ID, strings.TrimPrefix(t.Name, t.ID)) // a tenant is its name
			}
		}
		return all, err
	case "type":
		found, err := v.client.EventTypes(v.Context(), client.ListFilter{Search: value, Limit: mostTypes})
		if err != nil {
			return nil, err
		}
		for i := range found.Data {
			if n := found.Data[i].Name; strings.HasPrefix(strings.ToLower(n), value) {
				add(n, "")
			}
		}
		return all, v.recent(func(e *client.Event) {
			if strings.HasPrefix(strings.ToLower(e.Type), value) {
				add(e.Type, "")
				if kind, _, parts := strings.Cut(e.Type, "."); parts {
					add(kind+".*", "all types of this kind")
				}
			}
		})
	case "key":
		return all, v.recent(func(e *client.Event) {
			if e.Key != "" && strings.HasPrefix(strings.ToLower(e.Key), value) {
				add(e.Key, "of "+e.Type)
			}
		})
	}
	return all, nil
}

// places are the pages that a part of a name leads to, by one request to the API.
func (v *visit) places(word string) (all []suggestion, err error) {
	is, err := v.client.Meant(v.Context(), word, "")
	if err != nil {
		return nil, err
	}
	if is.As == "key" || is.As == "type" {
		all = append(all, suggestion{word, "deliveries of this " + is.As, v.link("/deliveries" + withQuery("q", token{is.As, word}.String()))})
	}
	for i := range is.Things {
		t := &is.Things[i]
		says := thingKinds[t.Kind].word
		if v.session.Tenant == "" && t.Kind != "tenant" {
			says += " of " + t.Tenant
		}
		all = append(all, suggestion{t.Name, says, v.link(thingPath(t))})
	}
	return all, nil
}

// things are those that a part of a name finds. The API looks at all names in its memory and
// answers with few of them.
func (v *visit) things(part string) ([]client.Thing, error) {
	if part == "" {
		return v.someThings()
	}
	is, err := v.client.Meant(v.Context(), part, "")
	if err != nil {
		return nil, err
	}
	return is.Things, nil
}

// someThings are endpoints and sources to begin with, where nothing is typed yet.
func (v *visit) someThings() (all []client.Thing, err error) {
	eps, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: mostSuggestions})
	if err != nil {
		return nil, err
	}
	for i := range eps.Data {
		all = append(all, client.Thing{Kind: "endpoint", ID: eps.Data[i].ID, Name: endpointName(&eps.Data[i])})
	}
	if v.session.portal {
		return all, nil
	}
	sources, err := v.client.Sources(v.Context(), client.SourceFilter{Limit: mostSuggestions})
	if err != nil {
		return nil, err
	}
	for i := range sources.Data {
		all = append(all, client.Thing{Kind: "source", ID: sources.Data[i].ID, Name: sources.Data[i].Name})
	}
	return all, nil
}

// lastOf takes the values off that stand before the last comma, where a name can have several.
func lastOf(name, value string) (before, last string) {
	if at := strings.LastIndex(value, ","); name == "status" && at >= 0 {
		return value[:at+1], value[at+1:]
	}
	return "", value
}

// recent looks at the newest page of events.
func (v *visit) recent(look func(*client.Event)) error {
	found, err := v.client.Events(v.Context(), client.EventFilter{Limit: v.web.Bounds.Page})
	if err != nil {
		return err
	}
	for i := range found.Data {
		look(&found.Data[i])
	}
	return nil
}
