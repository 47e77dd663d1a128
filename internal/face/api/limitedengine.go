package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// limitedEngine does what callers of limited scopes order. Policies and event types are the
// tenant's: they say nothing about an endpoint, and are needed to set one up.
type limitedEngine struct {
	Engine
	history limitedHistory
}

// Endpoint is one in scope.
func (e limitedEngine) Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool) {
	if scope.Hides("", id) {
		return grapnel.Endpoint{}, false
	}
	return e.Engine.Endpoint(scope, id)
}

// Endpoints are those in scope.
func (e limitedEngine) Endpoints(scope store.Scope) []grapnel.Endpoint {
	all := e.Engine.Endpoints(scope)
	if !scope.HidesAlerts() {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(ep grapnel.Endpoint) bool { return scope.Hides("", ep.ID) })
}

// EachEndpoint shows those in scope.
func (e limitedEngine) EachEndpoint(scope store.Scope, see func(*grapnel.Endpoint) bool) {
	e.Engine.EachEndpoint(scope, func(ep *grapnel.Endpoint) bool { return scope.Hides("", ep.ID) || see(ep) })
}

// PutEndpoint changes an endpoint in scope; a limited scope has no new ones.
func (e limitedEngine) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	whole, err := about(scope, ep.ID)
	if err != nil {
		return store.Put{}, err
	}
	return e.Engine.PutEndpoint(ctx, whole, ep, with)
}

// DeleteEndpoint deletes an endpoint in scope.
func (e limitedEngine) DeleteEndpoint(ctx context.Context, scope store.Scope, id string, by grapnel.By) error {
	whole, err := about(scope, id)
	if err != nil {
		return err
	}
	return e.Engine.DeleteEndpoint(ctx, whole, id, by)
}

// Test sends an event to an endpoint in scope.
func (e limitedEngine) Test(ctx context.Context, scope store.Scope, endpoint string, ev *grapnel.Event,
	delay time.Duration, once *store.Once) (store.Accepted, error) {
	whole, err := about(scope, endpoint)
	if err != nil {
		return store.Accepted{}, err
	}
	return e.Engine.Test(ctx, whole, endpoint, ev, delay, once)
}

// Probe tries an endpoint in scope.
func (e limitedEngine) Probe(ctx context.Context, scope store.Scope, endpoint string, by grapnel.By) error {
	whole, err := about(scope, endpoint)
	if err != nil {
		return err
	}
	return e.Engine.Probe(ctx, whole, endpoint, by)
}

// Retry tries a delivery to an endpoint in scope.
func (e limitedEngine) Retry(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By,
	once *store.Once) (store.Redelivered, error) {
	whole, err := e.ofDelivery(ctx, scope, delivery)
	if err != nil {
		return store.Redelivered{}, err
	}
	return e.Engine.Retry(ctx, whole, delivery, by, once)
}

// RetryAll tries the pending deliveries of an endpoint in scope.
func (e limitedEngine) RetryAll(ctx context.Context, scope store.Scope, endpoint string, s *grapnel.Selection,
	by grapnel.By) (int, bool, error) {
	whole, err := about(scope, endpoint)
	if err != nil {
		return 0, false, err
	}
	return e.Engine.RetryAll(ctx, whole, endpoint, s, by)
}

// Skip ends a delivery to an endpoint in scope.
func (e limitedEngine) Skip(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error {
	whole, err := e.ofDelivery(ctx, scope, delivery)
	if err != nil {
		return err
	}
	return e.Engine.Skip(ctx, whole, delivery, by)
}

// Discard ends a delivery to an endpoint in scope.
func (e limitedEngine) Discard(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error {
	whole, err := e.ofDelivery(ctx, scope, delivery)
	if err != nil {
		return err
	}
	return e.Engine.Discard(ctx, whole, delivery, by)
}

// ofDelivery is the scope for an order about a delivery.
func (e limitedEngine) ofDelivery(ctx context.Context, scope store.Scope, delivery int64) (store.Scope, error) {
	if _, limited := scope.Limited(); limited || scope.HidesAlerts() {
		if _, err := e.history.Delivery(ctx, scope, delivery); err != nil {
			return store.Scope{}, err
		}
	}
	return scope.Whole(), nil
}

// Policies are those of the tenant.
func (e limitedEngine) Policies(scope store.Scope) []grapnel.NamedPolicy {
	return e.Engine.Policies(scope.Whole())
}

// EventType is one of the tenant's.
func (e limitedEngine) EventType(scope store.Scope, id string) (grapnel.EventType, bool) {
	return e.Engine.EventType(scope.Whole(), id)
}

// EventTypes are those of the tenant.
func (e limitedEngine) EventTypes(scope store.Scope) []grapnel.EventType {
	return e.Engine.EventTypes(scope.Whole())
}

// about is the scope for an order about an endpoint.
func about(scope store.Scope, endpoint string) (store.Scope, error) {
	whole, covered := scope.For(endpoint)
	if !covered {
		return store.Scope{}, store.ErrNotFound("endpoint")
	}
	return whole, nil
}

// newestReplay orders replays by their ids, which sort by time.
func newestReplay(a, b string) int { return strings.Compare(b, a) }
