package importer

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/wire"
)

// Look reads the objects of the server that an import compares with.
func Look(ctx context.Context, c *client.Client, found *Found) (*Here, error) {
	here := &Here{Tenants: map[string]wire.Tenant{}, Types: map[string]wire.EventType{}}
	schemas := map[string]bool{}
	kinds := map[Kind]bool{}
	for i := range found.Wants {
		w := &found.Wants[i]
		kinds[w.Kind] = true
		schemas[w.ID] = schemas[w.ID] || w.Kind == EventType && len(w.Schemas) > 0
	}
	if kinds[Tenant] {
		if err := each(ctx, c, paths[Tenant], url.Values{}, func(t *wire.Tenant) { here.Tenants[t.Tenant] = *t }); err != nil {
			return nil, err
		}
	}
	if kinds[EventType] {
		q := url.Values{"tenant": {grapnel.DefaultTenant}}
		if err := each(ctx, c, paths[EventType], q, func(t *wire.EventType) { here.Types[t.Name] = *t }); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(here.Types)) { // lists leave schemas out
		if !schemas[name] {
			continue
		}
		whole, err := c.EventType(ctx, here.Types[name].ID)
		if err != nil {
			return nil, err
		}
		here.Types[name] = *whole
	}
	err := each(ctx, c, paths[Endpoint], url.Values{}, func(e *wire.Endpoint) { here.Endpoints = append(here.Endpoints, *e) })
	return here, err
}

// each reads all pages of a list of the server.
func each[T any](ctx context.Context, c *client.Client, path string, q url.Values, take func(*T)) error {
	for {
		var page struct {
			Data []T     `json:"data"`
			Next *string `json:"next"`
		}
		q.Set("limit", "500")
		if err := c.Do(ctx, http.MethodGet, path, q, nil, &page); err != nil {
			return err
		}
		for i := range page.Data {
			take(&page.Data[i])
		}
		if page.Next == nil || *page.Next == "" {
			return nil
		}
		q.Set("cursor", *page.Next)
	}
}

// paths are the lists of each kind.
var paths = map[Kind]string{Tenant: "/v1/tenants", EventType: "/v1/event-types", Endpoint: "/v1/endpoints"}

// applying carries out one plan.
type applying struct {
	*client.Client
	system string
}

// Apply carries out a plan. An object that the server refuses gets its Failure, and the others
// follow. Any other error ends it; the same import continues later.
func Apply(ctx context.Context, c *client.Client, plan *Plan, tell func(done int)) error {
	a := applying{c, plan.System}
	done := 0
	for i := range plan.Items {
		it := &plan.Items[i]
		if it.Action != Create && it.Action != Change {
			continue
		}
		err := a.item(ctx, it)
		refused, is := errors.AsType[*client.Error](err)
		switch {
		case err == nil:
			it.Done = true
			done++
			tell(done)
		case errors.Is(err, errMoved):
			it.Failure = err.Error()
		case is && itsOwn(refused.Status):
			it.Failure = refused.Error()
		default:
			return err
		}
	}
	return nil
}

var errMoved = errors.New("changed since the plan was made; the same import makes another plan")

// itsOwn says whether a refusal is about one object, and not about the key or the server.
func itsOwn(status int) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}, status)
}

func (a applying) item(ctx context.Context, it *Item) error {
	m := it.want.markOf(a.system)
	if it.Action == Create {
		return a.create(ctx, it, m)
	}
	path := paths[it.Kind] + "/" + url.PathEscape(it.Here)
	var now map[string]any
	if err := a.Do(ctx, http.MethodGet, path, nil, nil, &now); err != nil {
		return err
	}
	if hashOf(it.want.project(now, a.system)) != it.state {
		return errMoved
	}
	labels, _ := it.patch["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	it.patch["labels"] = labels
	if it.Kind == Endpoint {
		labels[idLabel(a.system)] = it.ID
	}
	var q url.Values
	if it.Kind != EventType { // whose changes have no reason
		q = url.Values{"reason": {"import from " + a.system}}
	}
	last := m
	if it.rotate {
		last.secret, last.since = "0", rotating
	}
	labels[markLabel(a.system)] = last.text()
	if err := a.Do(ctx, http.MethodPatch, path, q, it.patch, nil); err != nil {
		return err
	}
	if it.rotate {
		if err := a.rotate(ctx, path, it.want.Secret, m); err != nil {
			return err
		}
	}
	return a.versions(ctx, it.Here, it.want.Schemas, it.schemas)
}

// rotate gives an endpoint the other system's secret; the one before signs for a day as well. A
// secret that signs already stays.
func (a applying) rotate(ctx context.Context, path, secret string, m mark) error {
	var e wire.Endpoint
	in := map[string]any{"secret": secret, "reason": "import from " + a.system}
	err := a.Do(ctx, http.MethodPost, path+"/rotate-secret", nil, in, &e)
	refused, is := errors.AsType[*client.Error](err)
	if is && slices.ContainsFunc(refused.Fields, func(f client.Field) bool { return f.Pointer == "/secret" }) {
		err = a.Do(ctx, http.MethodGet, path, nil, nil, &e)
	}
	if err != nil {
		return err
	}
	m.since = secretSince(&e)
	return a.Do(ctx, http.MethodPatch, path, nil, map[string]any{"labels": map[string]any{markLabel(a.system): m.text()}}, nil)
}

func (a applying) create(ctx context.Context, it *Item, m mark) error {
	w, in := it.want, map[string]any{}
	for name, value := range w.Fields {
		if value = plain(value); value != nil {
			in[name] = value
		}
	}
	labels := map[string]any{markLabel(a.system): m.text()}
	if own, is := in["labels"].(map[string]any); is {
		maps.Copy(labels, own)
	}
	in["labels"], in["tenant"] = labels, w.Tenant
	switch w.Kind {
	case Tenant:
	case EventType:
		in["name"] = w.ID
	default:
		labels[idLabel(a.system)] = w.ID
		if w.Secret != "" {
			in["secret"] = w.Secret
		}
	}
	var made struct{ ID, Tenant string }
	if err := a.Do(ctx, http.MethodPost, paths[w.Kind], nil, in, &made); err != nil {
		return err
	}
	if it.Here = made.ID; w.Kind == Tenant {
		it.Here = made.Tenant
	}
	return a.versions(ctx, made.ID, w.Schemas, 0)
}

// versions adds the versions of an event type's schema behind those that it has.
func (a applying) versions(ctx context.Context, id string, all []json.RawMessage, have int) error {
	for _, schema := range all[min(have, len(all)):] {
		if _, err := a.AddTypeVersion(ctx, id, wire.NewTypeVersion{Schema: schema}); err != nil {
			return err
		}
	}
	return nil
}
