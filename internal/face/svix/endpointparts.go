package svix

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// endpointParts are the operations on parts of an endpoint.
func endpointParts() []operation {
	const one = oneEndpoint
	return []operation{
		{pattern: "GET" + one + "/secret", handle: getSecret},
		{pattern: "POST" + one + "/secret/rotate", handle: rotateSecret},
		{pattern: "GET" + one + "/headers", handle: getHeaders},
		{pattern: "PUT" + one + "/headers", handle: putHeaders},
		{pattern: "PATCH" + one + "/headers", handle: patchHeaders},
		{pattern: "GET" + one + "/stats", handle: getStats},
		{pattern: "POST" + one + "/recover", handle: recoverEndpoint},
		{pattern: "POST" + one + "/send-example", handle: sendExample},
	}
}

type secretOut struct {
	Key string `json:"key"`
}

func getSecret(a *ask) (reply, error) {
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	var is wire.RevealedSecret
	err = a.api(http.MethodPost, at("/v1/endpoints", ep.ID, "reveal-secret"), nil, nil, &is)
	return reply{http.StatusOK, secretOut{is.Secret}}, err
}

// longestGrace is the longest time for which Svix lets an earlier secret sign.
const longestGrace = 7 * 24 * 3600 // seconds

func rotateSecret(a *ask) (reply, error) {
	var in struct {
		Key   string `json:"key"`
		Grace *int   `json:"gracePeriodSeconds"`
	}
	if _, err := a.decode(&in); err != nil {
		return reply{}, err
	}
	order := map[string]any{}
	if in.Key != "" {
		order["secret"] = prefixed(in.Key)
	}
	if in.Grace != nil {
		if *in.Grace < 0 || *in.Grace > longestGrace {
			return reply{}, invalid("must be from 0 to 604800", "body", "gracePeriodSeconds")
		}
		order["overlap"] = strconv.Itoa(*in.Grace) + "s"
	}
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	var made wire.Endpoint
	err = a.api(http.MethodPost, at("/v1/endpoints", ep.ID, "rotate-secret"), nil, order, &made)
	return reply{http.StatusOK, secretOut{made.Secret}}, err
}

// sensitive are names of headers whose values are credentials. Svix shows the names alone.
func sensitive(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"authorization", "cookie", "token", "secret", "key", "password"},
		func(part string) bool { return strings.Contains(name, part) })
}

func getHeaders(a *ask) (reply, error) {
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	shown, hidden := map[string]string{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(ep.Headers)) {
		if sensitive(name) {
			hidden = append(hidden, name)
		} else {
			shown[name] = ep.Headers[name]
		}
	}
	return reply{http.StatusOK, map[string]any{"headers": shown, "sensitive": hidden}}, nil
}

type headersIn struct {
	Headers map[string]string `json:"headers"`
	Delete  []string          `json:"deleteHeaders"`
}

// putHeaders replaces all headers.
func putHeaders(a *ask) (reply, error) {
	return a.setHeaders(func(ep *wire.Endpoint, patch map[string]any) {
		for name := range ep.Headers {
			patch[name] = nil
		}
	})
}

// patchHeaders changes the headers that it names.
func patchHeaders(a *ask) (reply, error) {
	return a.setHeaders(func(*wire.Endpoint, map[string]any) {})
}

func (a *ask) setHeaders(first func(*wire.Endpoint, map[string]any)) (reply, error) {
	var in headersIn
	if _, err := a.decode(&in); err != nil {
		return reply{}, err
	}
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	patch := map[string]any{}
	first(ep, patch)
	for _, name := range in.Delete {
		patch[name] = nil
	}
	for name, value := range in.Headers {
		patch[name] = value
	}
	return reply{status: http.StatusNoContent},
		a.api(http.MethodPatch, at("/v1/endpoints", ep.ID), nil, map[string]any{"headers": patch}, nil)
}

// getStats counts deliveries: those that ended in the time asked for, and those pending now.
func getStats(a *ask) (reply, error) {
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	q := url.Values{"endpoint": {ep.ID}, "by": {"day"}}
	if err := a.span(q, "since", "until"); err != nil {
		return reply{}, err
	}
	var is wire.Stats
	if err := a.read("/v1/stats", q, &is); err != nil {
		return reply{}, err
	}
	out := map[string]int64{"success": 0, "fail": 0, "pending": 0, "sending": 0, "canceled": 0}
	if t := is.All; t != nil {
		out["success"], out["fail"], out["canceled"] = t.Delivered, t.Failed, t.Dropped+t.Discarded+t.Skipped
	}
	if is.Pending != nil {
		out["pending"] = *is.Pending
	}
	return reply{http.StatusOK, out}, nil
}

// longestRecovery is how far back a recovery may begin, as Svix has it.
const longestRecovery = 14 * 24 * time.Hour

// recoverEndpoint replays what failed, or was dropped because the endpoint was disabled.
func recoverEndpoint(a *ask) (reply, error) {
	var in struct {
		Since *time.Time `json:"since"`
		Until *time.Time `json:"until"`
	}
	if _, err := a.decode(&in); err != nil {
		return reply{}, err
	}
	if in.Since == nil {
		return reply{}, invalid("is required", "body", "since")
	}
	if time.Since(*in.Since) > longestRecovery {
		return reply{}, invalid("must be at most 14 days ago", "body", "since")
	}
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	var made wire.Replay
	err = a.api(http.MethodPost, at("/v1/endpoints", ep.ID, "replay"), nil,
		wire.NewReplay{From: in.Since, To: in.Until, Status: []grapnel.Status{grapnel.Failed, grapnel.Dropped}}, &made)
	return reply{http.StatusAccepted, viewTask(&made)}, err
}

// sendExample sends one endpoint a test with the example of a registered event type.
func sendExample(a *ask) (reply, error) {
	var in struct {
		EventType string `json:"eventType"`
		Index     *int   `json:"exampleIndex"`
	}
	if _, err := a.decode(&in); err != nil {
		return reply{}, err
	}
	if in.EventType == "" {
		return reply{}, invalid("is required", "body", "eventType")
	}
	if in.Index != nil && *in.Index != 0 {
		return reply{}, invalid("must be 0: an event type has one example", "body", "exampleIndex")
	}
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	data := json.RawMessage(`{"message":"This is an example of ` + in.EventType + `."}`)
	if t, err := a.eventType(in.EventType); err == nil && len(t.Versions) > 0 && t.Versions[len(t.Versions)-1].Example != nil {
		data = t.Versions[len(t.Versions)-1].Example
	} else if !validType(in.EventType) {
		return reply{}, invalid("must be segments of letters, digits, - and _, joined by dots", "body", "eventType")
	}
	var made wire.Delivery
	err = a.api(http.MethodPost, at("/v1/endpoints", ep.ID, "test"), nil, map[string]any{"type": in.EventType, "data": data}, &made)
	return reply{http.StatusOK, messageOut{ID: made.EventID, EventType: made.Type, Payload: data, Timestamp: made.CreatedAt}}, err
}
