package svix

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// oneEndpoint is the path of an endpoint.
const oneEndpoint = " /app/{app}/endpoint/{endpoint}"

func endpoints() []operation {
	const one = oneEndpoint
	return []operation{
		{pattern: "POST /app/{app}/endpoint", handle: createEndpoint},
		{pattern: "GET /app/{app}/endpoint", handle: listEndpoints},
		{pattern: "GET" + one, handle: getEndpoint},
		{pattern: "PUT" + one, handle: upsertEndpoint},
		{pattern: "PATCH" + one, handle: patchEndpoint},
		{pattern: "DELETE" + one, handle: deleteEndpoint},
	}
}

// viewEndpoint is an endpoint as Svix shows it. One that is paused, or whose filter is not that of
// channels, is shown as far as Svix has words for it.
func viewEndpoint(ep *wire.Endpoint) endpointOut {
	channels, _ := channelsOf(ep.Filter)
	out := endpointOut{ID: ep.ID, UID: ep.Labels[uidLabel], URL: ep.URL, Description: ep.Description,
		Disabled: ep.Status != grapnel.EndpointEnabled, EventTypes: ep.EventTypes, FilterTypes: ep.EventTypes, Channels: channels,
		Metadata: metadata(ep.Labels), Version: 1, CreatedAt: ep.CreatedAt, UpdatedAt: ep.UpdatedAt}
	if ep.RateLimit != nil {
		out.ThrottleRate = new(int(math.Ceil(ep.RateLimit.PerSecond)))
		out.RateLimit = out.ThrottleRate
	}
	return out
}

// endpoint finds one of the application by its id or its uid, or by the id that it had in Svix if it
// was imported.
func (a *ask) endpoint(id string) (*wire.Endpoint, error) {
	label := uidLabel
	if strings.HasPrefix(id, epPrefix) && grapnel.ValidID(id) {
		var ep wire.Endpoint
		if err := a.read(at("/v1/endpoints", id), nil, &ep); !missing(err) {
			return &ep, err
		}
		label = IDLabel
	}
	if !validUID(id) {
		return nil, notFound("endpoint")
	}
	var found struct{ Data []wire.Endpoint }
	if err := a.read("/v1/endpoints", url.Values{"label": {label + "=" + id}, "limit": {"1"}}, &found); err != nil {
		return nil, err
	}
	if len(found.Data) == 0 {
		return nil, notFound("endpoint")
	}
	return &found.Data[0], nil
}

// named is the endpoint in the path.
func (a *ask) named() (*wire.Endpoint, error) { return a.endpoint(a.PathValue("endpoint")) }

// check refuses what an endpoint cannot have. It does not look at what the API checks anyway.
func (in *endpointIn) check(g given, made bool) error {
	switch {
	case !made && g.has("secret"):
		return invalid("cannot be changed here; rotate it", "body", "secret")
	case !made && g.has("headers"):
		return invalid("cannot be changed here; they have a path of their own", "body", "headers")
	case in.Version != nil && *in.Version != 1:
		return invalid("must be 1: this server has no versions of endpoints", "body", "version")
	case in.UID != nil && (!validUID(*in.UID) || strings.HasPrefix(*in.UID, epPrefix)):
		return invalid("must be 1 to 256 characters of [A-Za-z0-9_.-] and not begin with ep_", "body", "uid")
	}
	in.ThrottleRate = either(in.ThrottleRate, in.RateLimit)
	if len(in.EventTypes) == 0 {
		in.EventTypes = in.FilterTypes
	}
	if in.ThrottleRate != nil && *in.ThrottleRate < 1 {
		return invalid("must be at least 1", "body", "throttleRate")
	}
	if err := checkChannels(in.Channels, mostEndpointChannels, "channels"); err != nil {
		return err
	}
	return checkMetadata(in.Metadata)
}

func either[T any](one, other *T) *T {
	if one != nil {
		return one
	}
	return other
}

func rateOf(perSecond *int) *grapnel.RateLimit {
	if perSecond == nil {
		return nil
	}
	return &grapnel.RateLimit{PerSecond: float64(*perSecond), Burst: *perSecond}
}

func statusOf(disabled bool) grapnel.EndpointStatus {
	if disabled {
		return grapnel.EndpointDisabled
	}
	return grapnel.EndpointEnabled
}

// prefixed is a secret with the prefix that Svix lets its callers leave out.
func prefixed(secret string) string {
	if secret == "" || strings.Contains(secret, "_") {
		return secret
	}
	return "whsec_" + secret
}

// wanted reads the body; made says that it creates the endpoint.
func (a *ask) wanted(made bool) (in endpointIn, g given, err error) {
	if g, err = a.decode(&in); err == nil {
		err = in.check(g, made)
	}
	return in, g, err
}

func createEndpoint(a *ask) (reply, error) {
	in, _, err := a.wanted(true)
	if err != nil {
		return reply{}, err
	}
	return a.create(&in)
}

// create makes an endpoint that sends what Svix sends: the payload alone, with headers of both
// names. Whether its uid is free is looked up before, so two requests at the same moment may both
// find it free. A repetition of a request finds its own endpoint, whose mark says that it is that.
func (a *ask) create(in *endpointIn) (reply, error) {
	labels := map[string]string{}
	for name, value := range in.Metadata {
		labels[name] = value
	}
	if in.UID != nil {
		labels[uidLabel] = *in.UID
		if mark := a.mark(); mark != "" {
			labels[onceLabel] = mark
		}
		switch is, err := a.endpoint(*in.UID); {
		case err == nil && (labels[onceLabel] == "" || is.Labels[onceLabel] != labels[onceLabel]):
			return reply{}, conflict("An endpoint with this uid exists.")
		case err != nil && !missing(err):
			return reply{}, err
		}
	}
	var ep wire.Endpoint
	err := a.api(http.MethodPost, "/v1/endpoints", nil, wire.NewEndpoint{URL: in.URL, Description: in.Description, Labels: labels,
		EventTypes: in.EventTypes, Filter: filterOf(in.Channels), RateLimit: rateOf(in.ThrottleRate), Headers: in.Headers,
		Format: grapnel.FormatRaw, Signing: grapnel.SigningSvix, Secret: prefixed(in.Secret), Status: statusOf(in.Disabled)}, &ep)
	return reply{http.StatusCreated, viewEndpoint(&ep)}, err
}

func listEndpoints(a *ask) (reply, error) {
	all, err := every[wire.Endpoint](a, "/v1/endpoints", url.Values{})
	if err != nil {
		return reply{}, err
	}
	views := make([]endpointOut, len(all))
	for i := range all {
		views[i] = viewEndpoint(&all[i])
	}
	slices.SortFunc(views, func(x, y endpointOut) int { return strings.Compare(x.ID, y.ID) })
	out, err := window(a, views, func(v *endpointOut) string { return v.ID })
	return reply{http.StatusOK, out}, err
}

func getEndpoint(a *ask) (reply, error) {
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	return reply{http.StatusOK, viewEndpoint(ep)}, nil
}

// upsertEndpoint replaces an endpoint, or creates one whose uid is in the path.
func upsertEndpoint(a *ask) (reply, error) {
	in, g, err := a.wanted(false)
	if err != nil {
		return reply{}, err
	}
	ep, err := a.named()
	if missing(err) {
		uid := a.PathValue("endpoint")
		if strings.HasPrefix(uid, epPrefix) || !validUID(uid) {
			return reply{}, err
		}
		in.UID = either(in.UID, &uid)
		return a.create(&in)
	}
	if err != nil {
		return reply{}, err
	}
	for _, name := range []string{"url", "description", "eventTypes", "channels", "metadata", "throttleRate", "disabled"} {
		g.members[name] = true
	}
	return a.update(ep, &in, g)
}

func patchEndpoint(a *ask) (reply, error) {
	in, g, err := a.wanted(false)
	if err != nil {
		return reply{}, err
	}
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	return a.update(ep, &in, g)
}

// update changes the members that the body has.
func (a *ask) update(ep *wire.Endpoint, in *endpointIn, g given) (reply, error) {
	changes, labels := map[string]any{}, map[string]any{}
	if g.sets("url") {
		changes["url"] = in.URL
	}
	if g.sets("description") {
		changes["description"] = in.Description
	}
	if g.sets("eventTypes", "filterTypes") {
		changes["event_types"] = append([]string{}, in.EventTypes...)
	}
	if g.sets("channels") {
		before, own := channelsOf(ep.Filter)
		switch {
		case own && !slices.Equal(before, in.Channels):
			changes["filter"] = filterOf(in.Channels)
		case !own && len(in.Channels) > 0:
			return reply{}, conflict("The endpoint has a filter of its own, which channels would replace. Remove it through /v1/endpoints first.")
		}
	}
	if g.sets("metadata") {
		labels = relabelled(ep.Labels, in.Metadata)
	}
	if g.sets("throttleRate", "rateLimit") {
		changes["rate_limit"] = rateOf(in.ThrottleRate)
	}
	if g.sets("disabled") {
		changes["status"] = statusOf(in.Disabled)
	}
	if in.UID != nil && *in.UID != ep.Labels[uidLabel] {
		if _, err := a.endpoint(*in.UID); err == nil {
			return reply{}, conflict("An endpoint with this uid exists.")
		} else if !missing(err) {
			return reply{}, err
		}
		labels[uidLabel] = *in.UID
	}
	if len(labels) > 0 {
		changes["labels"] = labels
	}
	var out wire.Endpoint
	err := a.api(http.MethodPatch, at("/v1/endpoints", ep.ID), nil, changes, &out)
	return reply{http.StatusOK, viewEndpoint(&out)}, err
}

func deleteEndpoint(a *ask) (reply, error) {
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, a.api(http.MethodDelete, at("/v1/endpoints", ep.ID), nil, nil, nil)
}
