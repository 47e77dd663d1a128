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
}

const mostSuggestions = 12

// completions answers with words that complete one. It asks for the endpoints, which the server has
// in memory, for the event types of the catalogue, and for the newest page of events: none of these
// grows with the number of deliveries. So types and keys are registered or recent ones.
func (w *web) completions(rw http.ResponseWriter, r *http.Request) {
	v := w.visit(rw, r, nil)
	if v.session == nil {
		http.Error(rw, "The session has ended.", http.StatusUnauthorized)
		return
	}
	word := r.URL.Query().Get("word")
	if len(word) > w.Bounds.Search {
		word = ""
	}
	found, err := v.complete(word)
	if err != nil {
		v.fail(err)
		return
	}
	if found == nil {
		found = []suggestion{}
	}
	rw.Header().Set("Content-Type", grapnel.JSONType)
	_ = json.NewEncoder(rw).Encode(found) // the browser may have left
}

func (v *visit) complete(word string) (all []suggestion, err error) {
	name, value, named := strings.Cut(word, ":")
	if !named {
		for _, n := range grammar.Names {
			if strings.HasPrefix(n, strings.ToLower(word)) {
				all = append(all, suggestion{n + ":", "such as " + n + ":" + grammar.Examples[n]})
			}
		}
		return all, nil
	}
	if !slices.Contains(grammar.Names, name) {
		return nil, nil
	}
	value = strings.ToLower(strings.Trim(value, `"`))
	add := func(value, says string) {
		one := suggestion{token{name, value}.String(), says}
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
	case "endpoint":
		found, err := v.namedEndpoints()
		for _, n := range found {
			if strings.Contains(strings.ToLower(n.Name), value) || strings.HasPrefix(n.ID, value) {
				add(n.ID, n.Name)
			}
		}
		return all, err
	case "type":
		found, err := v.client.EventTypes(v.Context(), client.ListFilter{Limit: 500})
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
