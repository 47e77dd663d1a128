package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/search"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// Webhook endpoints, queues and channels are kinds of endpoints. All are created, listed, changed
// and deleted here.

// newEndpoint begins an endpoint of the kind that the prefix of ids says, for the tenant that the
// body names.
func (a *api) newEndpoint(c *call, prefix, tenant string, f *strict.Faults) grapnel.Endpoint {
	return grapnel.Endpoint{ID: a.newID(prefix, c.now), CreatedAt: c.now, UpdatedAt: c.now,
		Tenant: c.tenant(optional{tenant, tenant != ""}, "/tenant", f)}
}

// A kind of endpoints has a way to find the one that the path names, and a way to show it.
type (
	finding = func(*api, *call) (grapnel.Endpoint, error)
	showing = func(*api, *call, grapnel.Endpoint) (answer, error)
)

// getting shows the endpoint.
func getting(find finding, show showing) handler {
	return func(a *api, c *call) (answer, error) {
		ep, err := find(a, c)
		if err != nil {
			return answer{}, err
		}
		return show(a, c, ep)
	}
}

// patching merges a patch into the settings, and puts the result on the endpoint.
func patching[S any](find finding, show showing, settings func(*grapnel.Endpoint) S,
	set func(*api, *call, *grapnel.Endpoint, *S, *strict.Faults)) handler {
	return func(a *api, c *call) (answer, error) {
		ep, err := a.change(c, find, c.reason(), func(ep *grapnel.Endpoint) error {
			var f strict.Faults
			whole := merged(settings(ep), gjson.ParseBytes(c.body), &f)
			if whole == nil {
				return f.Err()
			}
			in := decode[S](a.policyPatched(c, ep, whole, &f), &f)
			set(a, c, ep, &in, &f)
			return f.Err()
		}, notOnce)
		if err != nil {
			return answer{}, err
		}
		return show(a, c, ep)
	}
}

// steering changes the status for the reason in the body.
func steering(find finding, show showing, edit func(*call, *grapnel.Endpoint) error) handler {
	return ordered(func(a *api, c *call, by grapnel.By) (answer, error) {
		ep, err := a.change(c, find, by.Reason, func(ep *grapnel.Endpoint) error { return edit(c, ep) }, notOnce)
		if errors.Is(err, errAsItIs) {
			err = a.Engine.Confirm(c.Context()) // the request that made it so may be waiting for a node
		}
		if err != nil {
			return answer{}, err
		}
		return show(a, c, ep)
	})
}

// errAsItIs stops a change of something that is that way already.
var errAsItIs = errors.New("api: already in that state")

// paused makes an endpoint one that is paused.
func paused(c *call, ep *grapnel.Endpoint) error {
	switch ep.Status {
	case grapnel.EndpointDisabled:
		return grapnel.Errorf(grapnel.CodeConflict, "The endpoint is disabled: no attempts are made.")
	case grapnel.EndpointPaused:
		if !ep.HeldForConsent() {
			return errAsItIs
		}
		ep.DisabledReason, ep.DisabledAt = "", time.Time{} // from now on a person's pause, which consent does not end
	}
	setStatus(ep, grapnel.EndpointPaused, c)
	return nil
}

// resumed makes it one that is not.
func resumed(c *call, ep *grapnel.Endpoint) error {
	switch ep.Status {
	case grapnel.EndpointDisabled:
		return grapnel.Errorf(grapnel.CodeConflict, "The endpoint is disabled%s, not paused: enable it instead.", because(ep.DisabledReason))
	case grapnel.EndpointEnabled:
		return errAsItIs
	}
	if ep.HeldForConsent() {
		return grapnel.Errorf(grapnel.CodeConflict, "The endpoint is paused because %s. POST /v1/endpoints/%s/consent asks it again.",
			ep.DisabledReason, ep.ID)
	}
	setStatus(ep, grapnel.EndpointEnabled, c)
	return nil
}

// setStatus notes when and why an endpoint became disabled.
func setStatus(ep *grapnel.Endpoint, status grapnel.EndpointStatus, c *call) {
	switch {
	case status == ep.Status:
	case status != grapnel.EndpointDisabled:
		ep.DisabledReason, ep.DisabledAt, ep.DisabledByAnswer = "", time.Time{}, false
	default:
		ep.DisabledReason, ep.DisabledAt = grapnel.OperatorReason, c.now
		if why := c.query.text(reasonParam.name); why != "" {
			ep.DisabledReason += ": " + why
		}
	}
	ep.Status = status
}

// deleting stops the endpoint for good.
func deleting(find finding) handler {
	return func(a *api, c *call) (answer, error) {
		ep, err := find(a, c)
		if err == nil {
			err = a.Engine.DeleteEndpoint(c.Context(), c.scope, ep.ID, c.by(named(title(&ep), c.reason())))
		}
		return nothing(), err
	}
}

// create stores a new endpoint; view shows it in the answer.
func (a *api) create(c *call, ep grapnel.Endpoint, view func(*grapnel.Endpoint) any) (answer, error) {
	ep.AskConsent(nil, a.Engine.Consent(ep.Tenant), c.now)
	made, err := put(c, a.Engine.PutEndpoint, ep, c.entry(grapnel.VerbCreate, &ep, ""), func(done store.Put) answer {
		ep := ep
		ep.Revision = done.Revision
		return jsonAnswer(http.StatusCreated, view(&ep))
	})
	if err == nil {
		a.askConsent(&ep)
	}
	return made, err
}

// listOf lists endpoints of one kind in scope, by id, which is by age.
func listOf[V any](a *api, c *call, is func(*grapnel.Endpoint) bool, view func([]grapnel.Endpoint) ([]V, error)) (answer, error) {
	only, word := c.query.text("tenant"), search.NewWord(c.query.text("search"))
	return pages(c, func(after string, most int) (found []grapnel.Endpoint, _ error) {
		a.Engine.EachEndpoint(c.scope, func(ep *grapnel.Endpoint) bool {
			e := entry{ep.ID, ep.Tenant, ep.Description, ep.URL}
			if word != "" {
				e.about = c.address(ep.URL)
			}
			if ep.Queue != nil {
				e.name, e.about = ep.Queue.Name, ep.Description
			}
			if is(ep) && e.takes(after, only, word) {
				found = append(found, *ep)
			}
			return len(found) < most
		})
		return found, nil
	}, func(ep *grapnel.Endpoint) string { return ep.ID }, view)
}

// withHealth shows endpoints with their health.
func withHealth[V any](a *api, c *call, view func(*grapnel.Endpoint, wire.Health) V) func([]grapnel.Endpoint) ([]V, error) {
	return func(eps []grapnel.Endpoint) ([]V, error) {
		health, err := a.health(c, mostHeldListed, eps...)
		all := make([]V, len(health))
		for i := range health {
			all[i] = view(&eps[i], health[i])
		}
		return all, err
	}
}
