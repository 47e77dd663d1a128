// Package importer brings endpoints, event types and tenants of another system to a Grapnel server.
//
// A source (Svix, Convoy, CSV) reads the other system and returns its objects in the terms of the
// API. Compare makes a plan of these and of the objects that the server has. Apply carries the plan
// out through the API, with the caller's key.
//
// It can be repeated, and continued after an interruption, because nothing is remembered outside of
// the server. A label of each endpoint has the other system's id, and a label of each object has a
// mark of the settings and of the secret as they were imported (mark.go). So an object that a
// person has changed here is told from one that was changed there. The former is overwritten only
// if the caller asks for it.
//
// An endpoint is not created if it would get other events, other bodies or other signatures than
// before: Want.Blocked has the reason. Lesser losses are listed in Want.Lost. Convoy signs in a way
// of its own, so all of its receivers have to change; a note says so.
//
// It does not promise more than its sources do: events, attempts and their history stay where they
// are.
package importer

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/wire"
)

// comparing makes one plan.
type comparing struct {
	system    string
	overwrite bool
	here      *Here
	byID      map[string]*wire.Endpoint   // imported endpoints, by tenant and the other system's id
	byName    map[string]*wire.Endpoint   // endpoints by tenant, label and the label's value
	strangers map[string][]*wire.Endpoint // those without such an id, by tenant and URL
	claimed   map[string]bool             // ids of the endpoints that an object of the other system is
}

// Compare says what becomes of each object. Overwrite also changes objects that a person has
// changed here.
func Compare(found *Found, here *Here, overwrite bool) *Plan {
	c := &comparing{system: found.System, overwrite: overwrite, here: here, byID: map[string]*wire.Endpoint{},
		byName: map[string]*wire.Endpoint{}, strangers: map[string][]*wire.Endpoint{}, claimed: map[string]bool{}}
	for i := range here.Endpoints {
		e := &here.Endpoints[i]
		if id := e.Labels[idLabel(c.system)]; id != "" {
			c.byID[e.Tenant+"\x00"+id] = e
		} else {
			c.strangers[e.Tenant+"\x00"+e.URL] = append(c.strangers[e.Tenant+"\x00"+e.URL], e)
		}
		for name, value := range e.Labels {
			c.byName[e.Tenant+"\x00"+name+"\x00"+value] = e
		}
	}
	plan := &Plan{System: found.System, Notes: append([]string{}, found.Notes...), Items: []Item{}}
	seen := map[string]bool{}                                  // a list that changes while it is read may have an object on two pages
	for _, kind := range []Kind{Tenant, EventType, Endpoint} { // an endpoint's tenant comes before it
		for i := range found.Wants {
			w := &found.Wants[i]
			if key := w.Tenant + "\x00" + w.ID; w.Kind == kind && !seen[string(kind)+key] {
				seen[string(kind)+key] = true
				it := Item{Kind: w.Kind, ID: w.ID, Tenant: w.Tenant, Title: w.Title, Lost: w.Lost, want: w}
				c.decide(&it)
				plan.Items = append(plan.Items, it)
			}
		}
	}
	if found.System == "svix" { // files and projects are parts of a whole; Svix was read whole
		plan.Items = append(plan.Items, c.left()...)
	}
	return plan
}

// left are the endpoints that were imported, and that the other system has no longer.
func (c *comparing) left() (all []Item) {
	for i := range c.here.Endpoints {
		e := &c.here.Endpoints[i]
		if id := e.Labels[idLabel(c.system)]; id != "" && !c.claimed[e.ID] {
			all = append(all, Item{Action: Same, Kind: Endpoint, ID: id, Tenant: e.Tenant, Title: shown(e.URL), Here: e.ID,
				Why: "the other system has it no longer; grapnel endpoints delete " + e.ID + " ends it here"})
		}
	}
	return all
}

// decide finds the object here, and says what becomes of it.
func (c *comparing) decide(it *Item) {
	var at *object
	switch it.Kind {
	case Tenant:
		at = c.tenant(it.want)
	case EventType:
		at = c.eventType(it)
	default:
		at = c.endpoint(it.want)
	}
	switch {
	case at == nil && it.want.Blocked != "":
		it.Action, it.Why = Skip, it.want.Blocked
	case at == nil && it.Kind == Endpoint && c.twice(it):
	case at == nil:
		it.Action = Create
	case it.want.Blocked != "" && at.labels[markLabel(c.system)] == "":
		it.Action, it.Here, it.Why = Same, at.id, "created by hand, because of "+it.want.Blocked
	case it.want.Blocked != "": // since the last import
		it.Action, it.Here, it.Why = Keep, at.id, it.want.Blocked
	default:
		it.Here = at.id
		c.differ(it, at)
	}
}

// object is something that the server has.
type object struct {
	id     string
	fields map[string]any
	labels map[string]string
	secret string // when its newest secret was made; empty: with the object
}

func objectOf(id string, answer any, labels map[string]string) *object {
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err) // it came as JSON
	}
	o := &object{id: id, labels: labels}
	if err := json.Unmarshal(text, &o.fields); err != nil {
		panic(err)
	}
	return o
}

// tenant finds a tenant that is registered. One that was only used has no settings yet.
func (c *comparing) tenant(w *Want) *object {
	t, is := c.here.Tenants[w.Tenant]
	if !is || t.Name == "" && len(t.Labels) == 0 {
		return nil
	}
	return objectOf(t.Tenant, t.TenantTerms, t.Labels)
}

func (c *comparing) eventType(it *Item) *object {
	t, is := c.here.Types[it.ID]
	if !is {
		return nil
	}
	it.schemas = len(t.Versions)
	for i, text := range it.want.Schemas {
		if i < len(t.Versions) && len(t.Versions[i].Schema) > 0 && !sameSchema(t.Versions[i].Schema, text) {
			it.Lost = append(slices.Clip(it.Lost), "schema "+strconv.Itoa(i+1)+": the version here is another one, and versions stay as they are")
		}
	}
	return objectOf(t.ID, t, t.Labels)
}

func sameSchema(a, b json.RawMessage) bool {
	return hashOf(map[string]any{"": plain(a)}) == hashOf(map[string]any{"": plain(b)})
}

func (c *comparing) endpoint(w *Want) *object {
	e := c.byID[w.Tenant+"\x00"+w.ID]
	if e == nil && w.sameName != "" {
		labels, _ := w.Fields["labels"].(map[string]any)
		name, _ := labels[w.sameName].(string)
		e = c.byName[w.Tenant+"\x00"+w.sameName+"\x00"+name]
	}
	if e == nil {
		return nil
	}
	c.claimed[e.ID] = true
	o := objectOf(e.ID, e, e.Labels)
	o.secret = secretSince(e)
	return o
}

// twice refuses an endpoint whose URL an endpoint of the tenant has that no import made: it would
// get every event twice.
func (c *comparing) twice(it *Item) bool {
	target, _ := it.want.Fields["url"].(string)
	for _, e := range c.strangers[it.Tenant+"\x00"+target] {
		it.Action, it.Here = Skip, e.ID
		it.Why = e.ID + " of the tenant has this URL, so each event would arrive twice; if it is the same endpoint: grapnel endpoints update " +
			e.ID + " --label " + idLabel(c.system) + "=" + it.ID
		return true
	}
	return false
}

// differ compares three states of an object: as it is here, as it was last imported, and as the
// other system has it.
func (c *comparing) differ(it *Item, at *object) {
	w := it.want
	theirs, ours := w.project(w.Fields, c.system), w.project(at.fields, c.system)
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if hashOf(map[string]any{"": theirs[name]}) != hashOf(map[string]any{"": ours[name]}) {
			it.Changes = append(it.Changes, name)
		}
	}
	last, imported := readMark(at.labels[markLabel(c.system)])
	now := w.markOf(c.system)
	changedThere, changedHere := last.settings != now.settings, last.settings != hashOf(ours)
	secretThere := w.Secret != "" && last.secret != now.secret
	secretHere := secretThere && last.since != rotating && at.secret != last.since // of interest only if both differ
	if !imported {
		secretThere, secretHere = w.Secret != "", w.Secret != ""
		changedThere, changedHere = true, len(it.Changes) > 0
	}
	if len(it.Changes) == 0 {
		changedThere, changedHere = false, false
	}
	if changedHere && !changedThere && !c.overwrite {
		it.Why = "changed here since the last import, and stays: " + strings.Join(it.Changes, ", ")
		it.Changes = nil
	}
	if secretThere {
		it.Changes = append(it.Changes, "secret")
	}
	if it.schemas < len(w.Schemas) {
		it.Changes = append(it.Changes, "schemas")
	}
	switch {
	case (changedThere && changedHere || secretHere) && !c.overwrite:
		it.Action, it.Why = Keep, "it was changed here and there since the last import; --overwrite takes the other system's settings"
		if !imported {
			it.Why = "it was not imported; --overwrite takes the other system's settings, and its secret"
		}
	case len(it.Changes) == 0:
		it.Action = Same
	default:
		it.Action, it.rotate, it.state = Change, secretThere, hashOf(ours)
		it.patch = w.patchOf(theirs, ours, it.Changes)
	}
}

// patchOf is the merge patch that gives an object the other system's settings.
func (w *Want) patchOf(theirs, ours map[string]any, changes []string) map[string]any {
	patch := map[string]any{}
	for _, name := range changes {
		value, is := theirs[name]
		if !is {
			continue // secret and schemas have requests of their own
		}
		members, _ := value.(map[string]any)
		if before, both := ours[name].(map[string]any); both && (name == "labels" || name == "headers") {
			merged := map[string]any{}
			for member := range before {
				merged[member] = nil
			}
			maps.Copy(merged, members)
			value = merged
		}
		patch[name] = value
	}
	return patch
}
