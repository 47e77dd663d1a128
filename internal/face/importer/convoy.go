package importer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/sign"
)

// The shapes of Convoy's API, from its OpenAPI document of version 26.3.5. Only these members are
// read. Earlier versions say title and target_url, and write durations as text.
type (
	convoyEndpoint struct {
		UID, Name, Title, Description, Status string
		URL                                   string
		TargetURL                             string          `json:"target_url"`
		OwnerID                               string          `json:"owner_id"`
		RateLimit                             *float64        `json:"rate_limit"`
		RatePeriod                            json.RawMessage `json:"rate_limit_duration"`
		Secrets                               []convoySecret
		Authentication                        *convoyLogin
		ClientCert                            json.RawMessage `json:"mtls_client_cert"`
	}
	convoySecret struct {
		Value     string
		ExpiresAt *string `json:"expires_at"`
		DeletedAt *string `json:"deleted_at"`
	}
	convoyLogin struct {
		Type   string
		APIKey *struct {
			Name  string `json:"header_name"`
			Value string `json:"header_value"`
		} `json:"api_key"`
		Basic *struct{ Username, Password string } `json:"basic_auth"`
	}
	convoySubscription struct {
		UID, Type, Function string
		Endpoint            *struct{ UID string } `json:"endpoint_metadata"`
		Source              *struct{ UID string } `json:"source_metadata"`
		Config              *struct {
			EventTypes []string `json:"event_types"`
			Filter     struct{ Body, Headers map[string]any }
		} `json:"filter_config"`
	}
	convoyFilter struct{ Body, Headers map[string]any }
	convoyType   struct {
		Name, Description, Category string
		DeprecatedAt                *string         `json:"deprecated_at"`
		Schema                      json.RawMessage `json:"json_schema"`
	}
)

// convoySigning is said about all endpoints of Convoy.
const convoySigning = "Convoy's signature headers are not sent: receivers verify webhook-signature, with the same secret written as " +
	"whsec_ and the base64 of its bytes"

// Convoy reads a project of Convoy: endpoints, their subscriptions, and event types.
func Convoy(ctx context.Context, from Remote, project string) (*Found, error) {
	r, ctx, cancel, err := from.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	at := "/api/v1/projects/" + url.PathEscape(project)
	found := &Found{System: "convoy", Notes: []string{convoySigning}}
	if err := found.convoyTypes(ctx, r, at); err != nil {
		return nil, err
	}
	subscriptions := map[string][]*convoySubscription{}
	if err := convoyPages(ctx, r, at+"/subscriptions", func(s *convoySubscription) error {
		if s.Endpoint != nil && s.Type != "cli" {
			subscriptions[s.Endpoint.UID] = append(subscriptions[s.Endpoint.UID], s)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	err = convoyPages(ctx, r, at+"/endpoints", func(e *convoyEndpoint) error {
		w := e.want()
		types, err := w.subscribed(ctx, r, at, subscriptions[e.UID])
		w.Fields["event_types"] = types
		w.settle(false)
		found.Wants = append(found.Wants, w)
		return err
	})
	return found, err
}

// convoyPages reads all pages of a list.
func convoyPages[T any](ctx context.Context, r *reading, path string, take func(*T) error) error {
	q := url.Values{"perPage": {strconv.Itoa(r.Bounds.Page)}, "direction": {"next"}}
	for before := ""; ; {
		var page struct {
			Data struct {
				Content    []T
				Pagination struct {
					More bool   `json:"has_next_page"`
					Next string `json:"next_page_cursor"`
				}
			}
		}
		if err := r.get(ctx, path, q, &page); err != nil {
			return err
		}
		for i := range page.Data.Content {
			if err := r.counted(); err != nil {
				return err
			}
			if err := take(&page.Data.Content[i]); err != nil {
				return err
			}
		}
		next := page.Data.Pagination.Next
		if !page.Data.Pagination.More || next == "" {
			return nil
		}
		if next == before {
			return grapnel.Errorf(grapnel.CodeMalformed, "the other system's list at %s does not end: it repeats a cursor", path)
		}
		before = next
		q.Set("next_page_cursor", next)
	}
}

// convoyTypes reads event types. Earlier versions of Convoy answer them as event_types.
func (f *Found) convoyTypes(ctx context.Context, r *reading, at string) error {
	var answer struct{ Data json.RawMessage }
	if err := r.get(ctx, at+"/event-types", nil, &answer); err != nil {
		if missing(err) {
			return nil // a version without event types
		}
		return err
	}
	var all []convoyType
	if json.Unmarshal(answer.Data, &all) != nil {
		var earlier struct {
			All []convoyType `json:"event_types"`
		}
		if err := json.Unmarshal(answer.Data, &earlier); err != nil {
			return grapnel.Errorf(grapnel.CodeMalformed, "the other system's answer to GET %s/event-types is not of the form that its API has", at)
		}
		all = earlier.All
	}
	for _, t := range all {
		if err := r.counted(); err != nil {
			return err
		}
		if t.Name == "*" { // every event, and no type of its own
			continue
		}
		w := Want{Kind: EventType, ID: t.Name, Tenant: grapnel.DefaultTenant, Title: t.Name}
		if !grapnel.ValidType(t.Name) {
			w.block("name: it must be segments of [A-Za-z0-9_-], joined by dots")
		}
		marks := map[string]string{}
		if t.Category != "" {
			marks["category"] = t.Category
		}
		if given(t.DeprecatedAt) {
			marks["deprecated"] = "true"
		}
		w.describe(t.Description, w.labelled(marks, nil, 1, ""))
		if text := bytesOf(t.Schema); len(text) > 0 {
			w.schema(1, 1, text)
		}
		f.Wants = append(f.Wants, w)
	}
	return nil
}

// bytesOf is a schema that Convoy shows as an object, as base64, or as a list of bytes; nil: none.
func bytesOf(text json.RawMessage) json.RawMessage {
	var raw []byte
	var list []int
	switch {
	case len(text) == 0, string(text) == "null", string(text) == "[]", string(text) == `""`:
		return nil
	case json.Unmarshal(text, &raw) == nil:
		return raw
	case json.Unmarshal(text, &list) == nil:
		for _, b := range list {
			raw = append(raw, byte(b))
		}
		return raw
	}
	return text
}

// given says whether a time is set.
func given(text *string) bool {
	return text != nil && *text != "" && !strings.HasPrefix(*text, "0001-")
}

func (e *convoyEndpoint) want() Want {
	address, name := e.URL, e.Name
	if address == "" {
		address = e.TargetURL
	}
	if name == "" {
		name = e.Title
	}
	w := Want{Kind: Endpoint, ID: e.UID, Tenant: e.OwnerID, Title: shown(address)}
	if w.Tenant == "" {
		w.Tenant = grapnel.DefaultTenant
	}
	w.Fields = map[string]any{"url": address, "description": strings.TrimSpace(name + "\n" + e.Description), "headers": map[string]string{},
		"filter": nil, "format": string(grapnel.FormatRaw), "rate_limit": nil, "labels": map[string]any{}, "status": "enabled"}
	switch e.Status {
	case "paused":
		w.Fields["status"] = string(grapnel.EndpointPaused)
	case "inactive", "pending":
		w.Fields["status"] = string(grapnel.EndpointDisabled)
	}
	if len(e.ClientCert) > 0 && string(e.ClientCert) != "null" && string(e.ClientCert) != "{}" {
		w.lose("client certificate: set it with grapnel endpoints update --client-cert --client-key")
	}
	w.login(e.Authentication)
	if seconds := secondsOf(e.RatePeriod); seconds > 0 {
		w.Fields["rate_limit"] = w.rate(e.RateLimit, seconds)
	}
	for _, s := range e.Secrets {
		if given(s.ExpiresAt) || given(s.DeletedAt) || s.Value == "" || w.Secret != "" {
			continue
		}
		w.Secret = sign.SymmetricPrefix + base64.StdEncoding.EncodeToString([]byte(s.Value))
	}
	if fault := secretFault(w.Secret); fault != "" || w.Secret == "" {
		w.Secret = ""
		w.lose("secret: Grapnel's have 24 to 64 bytes; a new one is made, and grapnel endpoints rotate-secret shows one")
	}
	return w
}

// login carries over an endpoint's credentials.
func (w *Want) login(l *convoyLogin) {
	headers, _ := w.Fields["headers"].(map[string]string)
	switch {
	case l == nil || l.Type == "":
	case l.Type == "api_key" && l.APIKey != nil && l.APIKey.Name != "":
		headers[l.APIKey.Name] = literal(l.APIKey.Value)
	case l.Type == "basic_auth" && l.Basic != nil:
		headers["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Basic.Username+":"+l.Basic.Password))
	case l.Type == "api_key", l.Type == "basic_auth":
	default:
		w.lose("authentication %s: set it with grapnel endpoints update --oauth2-token-url", l.Type)
	}
}

// secondsOf is a duration that is a number of seconds, or a text such as 1m.
func secondsOf(text json.RawMessage) float64 {
	var n float64
	var s string
	if json.Unmarshal(text, &n) == nil {
		return n
	}
	if json.Unmarshal(text, &s) == nil {
		d, _ := time.ParseDuration(s)
		return d.Seconds()
	}
	return 0
}

// subscribed are the event types that an endpoint's subscriptions name; nil: all. An endpoint
// without a subscription gets nothing there, and one with a condition gets less than its event
// types: neither is created.
func (w *Want) subscribed(ctx context.Context, r *reading, at string, all []*convoySubscription) (types []string, err error) {
	every := false
	for _, s := range all {
		var own struct{ Data []convoyFilter }
		if err := r.get(ctx, at+"/subscriptions/"+url.PathEscape(s.UID)+"/filters", nil, &own); err != nil && !missing(err) {
			return nil, err
		}
		named := []string{"*"}
		if s.Config != nil {
			named = s.Config.EventTypes
			own.Data = append(own.Data, s.Config.Filter)
		}
		for _, f := range own.Data {
			if len(f.Body) > 0 || len(f.Headers) > 0 {
				w.block("filter: Convoy's has another language; create the endpoint with its id as label convoy.id and a CEL expression (--filter)")
			}
		}
		if s.Function != "" {
			w.block("function: it is JavaScript; create the endpoint with its id as label convoy.id and a jq expression (--transform)")
		}
		if s.Source != nil && s.Source.UID != "" {
			w.block("source: the subscription is for events of a source; create a source and give the endpoint --source")
		}
		for _, one := range named {
			if every = every || one == "*"; one != "*" && !slices.Contains(types, one) {
				types = append(types, one)
			}
		}
	}
	switch {
	case every:
		return nil, nil
	case len(types) == 0:
		w.block("subscriptions: it has none, so it gets no events")
	}
	slices.Sort(types)
	return types, nil
}
