package svix

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/wire"
)

func attempts() []operation {
	return []operation{
		{pattern: "GET /app/{app}/attempt/endpoint/{endpoint}", handle: listByEndpoint},
		{pattern: "GET /app/{app}/attempt/msg/{msg}", handle: listByMessage},
		{pattern: "GET /app/{app}/endpoint/{endpoint}/msg", handle: listAttempted},
		{pattern: "GET /app/{app}/msg/{msg}/endpoint", handle: listDestinations},
		{pattern: "GET /app/{app}/msg/{msg}/attempt/{attempt}", handle: getAttempt},
		{pattern: "POST /app/{app}/msg/{msg}/endpoint/{endpoint}/resend", handle: resend},
	}
}

// listByMessage lists the attempts of a message at all endpoints, the newest first.
func listByMessage(a *ask) (reply, error) {
	picked, err := a.picked()
	if err != nil {
		return reply{}, err
	}
	ev, err := a.event(a.PathValue("msg"))
	if err != nil {
		return reply{}, err
	}
	only := a.URL.Query().Get("endpoint_id")
	if only != "" {
		ep, err := a.endpoint(only)
		if err != nil {
			return reply{}, err
		}
		only = ep.ID
	}
	all, err := a.attemptsOf(ev, a.truth("with_content", true), func(d *wire.Delivery) bool { return only == "" || d.EndpointID == only })
	if err != nil {
		return reply{}, err
	}
	all = slices.DeleteFunc(all, func(at attemptOut) bool { return !picked(&at) })
	out, err := window(a, all, func(at *attemptOut) string { return at.ID })
	return reply{http.StatusOK, out}, err
}

// attemptsOf are all attempts of an event, the newest first.
func (a *ask) attemptsOf(ev *wire.Event, content bool, of func(*wire.Delivery) bool) (all []attemptOut, err error) {
	addresses := map[string]string{}
	for i := range ev.Deliveries {
		if !of(&ev.Deliveries[i]) || ev.Deliveries[i].AttemptsMade == 0 {
			continue
		}
		d, err := a.delivery(ev.Deliveries[i].ID)
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, known := addresses[d.EndpointID]; !known {
			ep, err := a.endpoint(d.EndpointID)
			switch {
			case err == nil:
				addresses[d.EndpointID] = ep.URL
			case missing(err): // a queue, or deleted
				addresses[d.EndpointID] = d.EndpointName
			default:
				return nil, err
			}
		}
		for _, at := range d.Attempts {
			all = append(all, viewAttempt(d, &at, addresses[d.EndpointID], content))
		}
	}
	slices.SortStableFunc(all, func(x, y attemptOut) int { return y.Timestamp.Compare(x.Timestamp) })
	return all, nil
}

func getAttempt(a *ask) (reply, error) {
	ev, err := a.event(a.PathValue("msg"))
	if err != nil {
		return reply{}, err
	}
	all, err := a.attemptsOf(ev, true, func(*wire.Delivery) bool { return true })
	if err != nil {
		return reply{}, err
	}
	for _, at := range all {
		if at.ID == a.PathValue("attempt") {
			return reply{http.StatusOK, at}, nil
		}
	}
	return reply{}, notFound("attempt")
}

// latest is the newest delivery of an event at an endpoint: a redelivery stands for earlier ones.
func latest(ev *wire.Event, endpoint string) *wire.Delivery {
	var is *wire.Delivery
	for i := range ev.Deliveries {
		if d := &ev.Deliveries[i]; d.EndpointID == endpoint && (is == nil || !d.CreatedAt.Before(is.CreatedAt)) {
			is = d
		}
	}
	return is
}

// listAttempted lists the messages of an endpoint, the newest first, each once.
func listAttempted(a *ask) (reply, error) {
	q, err := a.narrowed()
	if err != nil {
		return reply{}, err
	}
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	chosen, content, status := a.chosen(), a.truth("with_content", true), a.URL.Query().Get("status")
	out, err := gather(a, at("/v1/endpoints", ep.ID, "deliveries"), q, func(d *wire.Delivery) (*endpointMessageOut, error) {
		if d.ReplayOf != nil {
			return nil, nil
		}
		ev, err := a.event(d.EventID)
		if missing(err) {
			return nil, nil
		}
		if err != nil || !chosen(ev.Type, ev.Metadata) {
			return nil, err
		}
		is := d
		if newest := latest(ev, ep.ID); newest != nil {
			is = newest
		}
		v := endpointMessageOut{viewEvent(ev, content), a.standingOf(is)}
		if status != "" && status != strconv.Itoa(v.Status) {
			return nil, nil
		}
		return &v, nil
	})
	return reply{http.StatusOK, out}, err
}

// listDestinations lists the endpoints that a message was for.
func listDestinations(a *ask) (reply, error) {
	ev, err := a.event(a.PathValue("msg"))
	if err != nil {
		return reply{}, err
	}
	all := []messageEndpointOut{}
	for i := range ev.Deliveries {
		id := ev.Deliveries[i].EndpointID
		if slices.ContainsFunc(all, func(v messageEndpointOut) bool { return v.ID == id }) {
			continue
		}
		ep, err := a.endpoint(id)
		if missing(err) {
			continue
		}
		if err != nil {
			return reply{}, err
		}
		all = append(all, messageEndpointOut{endpointOut: viewEndpoint(ep), standing: a.standingOf(latest(ev, id))})
	}
	slices.SortFunc(all, func(x, y messageEndpointOut) int { return strings.Compare(x.ID, y.ID) })
	out, err := window(a, all, func(v *messageEndpointOut) string { return v.ID })
	return reply{http.StatusOK, out}, err
}

// resend retries a pending delivery, and delivers a finished one again.
func resend(a *ask) (reply, error) {
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	ev, err := a.event(a.PathValue("msg"))
	if err != nil {
		return reply{}, err
	}
	// The first delivery, which a repetition of the request finds too.
	is := slices.IndexFunc(ev.Deliveries, func(d wire.Delivery) bool { return d.EndpointID == ep.ID && d.ReplayOf == nil })
	if is < 0 {
		return reply{}, conflict("The message was never meant for this endpoint: it did not exist, or did not want the message.")
	}
	err = a.api(http.MethodPost, at("/v1/deliveries", ev.Deliveries[is].ID, "retry"), nil, nil, nil)
	return reply{http.StatusAccepted, struct{}{}}, err
}
