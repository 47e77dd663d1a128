package api

import (
	"reflect"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
)

// notOnce is for changes that come to the same however often they are made.
func notOnce(grapnel.Endpoint) *store.Once { return nil }

// change applies edit to the endpoint as it is now, and again if another request changed it
// meanwhile. The slices and maps of the endpoint belong to the engine: edit replaces them. The
// audit gets the change with the caller's reason.
func (a *api) change(c *call, find func(*api, *call) (grapnel.Endpoint, error), reason string, edit func(*grapnel.Endpoint) error,
	once func(grapnel.Endpoint) *store.Once) (grapnel.Endpoint, error) {
	for tries := 1; ; tries++ {
		ep, err := find(a, c)
		if err != nil {
			return ep, err
		}
		before := ep
		if err := edit(&ep); err != nil {
			return ep, err
		}
		ep.UpdatedAt = c.now
		ep.AskConsent(&before, a.Engine.Consent(ep.Tenant), c.now)
		with := store.With{Once: once(ep), Audit: c.entry(verbOf(&before, &ep), &ep, reason)}
		done, err := a.Engine.PutEndpoint(c.Context(), c.scope, ep, with)
		if grapnel.CodeOf(err) == grapnel.CodeConflict && tries < 5 {
			continue
		}
		if err == nil {
			err = first(done.Answer)
		}
		ep.Revision = done.Revision
		if err == nil {
			a.askConsent(&ep)
		}
		return ep, err
	}
}

// askConsent has the address of a changed endpoint asked, if it waits for that.
func (a *api) askConsent(ep *grapnel.Endpoint) {
	if a.Consents != nil && ep.AwaitsConsent() {
		a.Consents.Due(ep.ID)
	}
}

// needed drops the former shapes of an endpoint that no delivery has, once there are many of them.
func needed(a *api, c *call, ep *grapnel.Endpoint) error {
	if len(ep.Former) <= a.Bounds.FormerShapes {
		return nil
	}
	var kept []grapnel.Shape
	var from time.Time
	for i, s := range ep.Former {
		q := store.DeliveryQuery{Endpoint: ep.ID, From: from, To: s.Until, Limit: 1}
		found, err := a.History.DeliveryList(c.Context(), store.Of(ep.Tenant), q)
		if err != nil {
			return err
		}
		// Events accepted under the last shape may not be in the store yet.
		if len(found) > 0 || i == len(ep.Former)-1 {
			kept = append(kept, s)
		}
		from = s.Until
	}
	if len(kept) > a.Bounds.FormerShapes {
		return grapnel.Errorf(grapnel.CodeConflict, "%d former values of format and transform are stored for deliveries that use them. Change it again after "+
			"some are purged, or create another endpoint.", a.Bounds.FormerShapes)
	}
	ep.Former = kept
	return nil
}

// patched is what a merge patch in the body makes of settings. The result is read as if it had been
// given as a whole. f gets the faults of both.
func patched[S any](c *call, settings S, f *strict.Faults) S {
	whole := merged(settings, gjson.ParseBytes(c.body), f)
	if whole == nil {
		return settings
	}
	return decode[S](whole, f)
}

// merged is a merge patch applied to settings, to be read as if it had been given as a whole. It
// looks for names that cannot be changed in the patch itself: a member that is null would not show
// in the result. nil: the patch is no object.
func merged[T any](settings T, patch gjson.Result, f *strict.Faults) []byte {
	if !patch.IsObject() {
		f.Add("", "must be an object")
		return nil
	}
	fields := strict.Fields(reflect.TypeFor[T]())
	patch.ForEach(func(name, v gjson.Result) bool {
		if !slices.ContainsFunc(fields, func(m strict.Field) bool { return m.Name == name.Str && !m.Fixed }) {
			f.Add("/"+strict.Escape(name.Str), "unknown field, or one that cannot be changed")
		}
		return !f.Full()
	})
	return strict.Merge(gjson.ParseBytes(encode(settings)), patch, "/", f)
}
