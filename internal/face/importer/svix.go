package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/svix"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
)

// The shapes of Svix's API, of which only these members are read.
type (
	svixApp struct {
		ID, UID, Name string
		Metadata      map[string]string
		ThrottleRate  *float64
		RateLimit     *float64
	}
	svixEndpoint struct {
		ID, UID, URL, Description string
		Disabled                  bool
		EventTypes, FilterTypes   []string
		Channels                  []string
		Metadata                  map[string]string
		ThrottleRate              *float64
		RateLimit                 *float64
	}
	svixType struct {
		Name, Description    string
		Archived, Deprecated bool
		GroupName            string
		FeatureFlag          string
		FeatureFlags         []string
		Schemas              map[string]json.RawMessage
	}
)

// Svix reads the API of Svix: applications with their endpoints, and event types.
func Svix(ctx context.Context, from Remote) (*Found, error) {
	r, ctx, cancel, err := from.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	found := &Found{System: "svix"}
	apps := map[string]*svixApp{}
	var order []string
	err = svixPages(ctx, r, "/api/v1/app", url.Values{}, func(app *svixApp) {
		if apps[app.ID] == nil {
			order = append(order, app.ID)
		}
		apps[app.ID] = app
	})
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		found.Wants = append(found.Wants, apps[id].want())
	}
	err = svixPages(ctx, r, "/api/v1/event-type", url.Values{"include_archived": {"true"}, "with_content": {"true"}}, func(t *svixType) {
		found.Wants = append(found.Wants, t.want())
	})
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		var all []*svixEndpoint
		at := "/api/v1/app/" + url.PathEscape(id) + "/endpoint"
		if err := svixPages(ctx, r, at, url.Values{}, func(e *svixEndpoint) { all = append(all, e) }); err != nil {
			return nil, err
		}
		for _, e := range all {
			w, err := e.want(ctx, r, apps[id], at+"/"+url.PathEscape(e.ID))
			if err != nil {
				return nil, err
			}
			found.Wants = append(found.Wants, w)
		}
	}
	return found, nil
}

// svixPages reads all pages of a list.
func svixPages[T any](ctx context.Context, r *reading, path string, q url.Values, take func(*T)) error {
	q.Set("limit", strconv.Itoa(r.Bounds.Page))
	for before := ""; ; {
		var page struct {
			Data     []T
			Iterator *string
			Done     bool
		}
		if err := r.get(ctx, path, q, &page); err != nil {
			return err
		}
		for i := range page.Data {
			if err := r.counted(); err != nil {
				return err
			}
			take(&page.Data[i])
		}
		if page.Done || page.Iterator == nil || *page.Iterator == "" {
			return nil
		}
		if *page.Iterator == before {
			return grapnel.Errorf(grapnel.CodeMalformed, "the other system's list at %s does not end: it repeats an iterator", path)
		}
		before = *page.Iterator
		q.Set("iterator", before)
	}
}

// tenant is the tenant that an application becomes.
func (a *svixApp) tenant() string { return svix.TenantOf(a.ID, a.UID) }

func (a *svixApp) want() Want {
	w := Want{Kind: Tenant, ID: a.ID, Tenant: a.tenant(), Title: a.Name}
	if w.Tenant == "" {
		w.Tenant = a.ID
		w.block("neither its uid nor its id can be a tenant's name: 1 to 64 characters of [A-Za-z0-9_-]")
	} else if a.UID != "" && w.Tenant != a.UID {
		w.lose("uid %s: a tenant's name has 1 to 64 characters of [A-Za-z0-9_-]; the application is found by its id", a.UID)
	}
	if cmp.Or(a.ThrottleRate, a.RateLimit) != nil {
		w.lose("throttleRate: rates are settings of endpoints")
	}
	name := strings.TrimSpace(a.Name)
	if name == "" || len(name) > mostName || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		w.lose("name: it must be 1 to %d characters without control characters", mostName)
		name = w.Tenant
	}
	w.Fields = map[string]any{"name": name}
	w.Fields["labels"] = w.labelled(a.Metadata, nil, 1, svix.Reserved)
	return w
}

func (t *svixType) want() Want {
	w := Want{Kind: EventType, ID: t.Name, Tenant: grapnel.DefaultTenant, Title: t.Name}
	if !grapnel.ValidType(t.Name) {
		w.block("name: it must be segments of [A-Za-z0-9_-], joined by dots")
	}
	if t.FeatureFlag != "" || len(t.FeatureFlags) > 0 {
		w.lose("feature flags: event types have none here")
	}
	labels := map[string]string{}
	marks := map[string]string{svix.ArchivedLabel: truth(t.Archived), svix.DeprecatedLabel: truth(t.Deprecated), svix.GroupLabel: t.GroupName}
	for name, value := range marks {
		if fault := labelFault(name, value); fault != "" {
			w.lose("%s: %s", name, fault)
		} else if value != "" {
			labels[name] = value
		}
	}
	w.describe(t.Description, w.labelled(nil, labels, 1, ""))
	var numbers []int
	for name := range t.Schemas {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		} else {
			w.lose("schema %s: versions are numbers", name)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		w.schema(n, i+1, t.Schemas[strconv.Itoa(n)])
	}
	return w
}

// describe sets the fields of an event type.
func (w *Want) describe(text string, labels map[string]any) {
	if fault := descriptionFault(text); fault != "" {
		w.lose("description: %s", fault)
		text = ""
	}
	w.Fields = map[string]any{"description": text, "labels": labels}
}

// schema adds a version of an event type's schema. Versions are in order here, so those behind one
// that is not taken are lost as well.
func (w *Want) schema(theirs, ours int, text json.RawMessage) {
	if len(w.Schemas) != ours-1 {
		w.lose("schema %d: an earlier version is missing", theirs)
		return
	}
	if _, faults := catalogue.Compile(text); len(faults) > 0 {
		w.lose("schema %d: %s %s", theirs, faults[0].Pointer, faults[0].Detail)
		return
	}
	if theirs != ours {
		w.lose("schema %d: it becomes version %d", theirs, ours)
	}
	w.Schemas = append(w.Schemas, text)
}

func truth(is bool) string {
	if is {
		return "true"
	}
	return ""
}

// want reads the parts of an endpoint that its list leaves out.
func (e *svixEndpoint) want(ctx context.Context, r *reading, app *svixApp, at string) (Want, error) {
	w := Want{Kind: Endpoint, ID: e.ID, Tenant: app.tenant(), Title: shown(e.URL)}
	var secret struct{ Key string }
	if err := r.get(ctx, at+"/secret", nil, &secret); err != nil {
		return w, err
	}
	if w.Secret = secret.Key; w.Secret == "" {
		w.block("secret: Svix does not show it")
	} else if !strings.Contains(w.Secret, "_") {
		w.Secret = "whsec_" + w.Secret
	}
	var sent struct {
		Headers   map[string]string
		Sensitive []string
	}
	if err := r.get(ctx, at+"/headers", nil, &sent); err != nil && !missing(err) {
		return w, err
	}
	var transformation struct {
		Enabled bool
		Code    string
	}
	if err := r.get(ctx, at+"/transformation", nil, &transformation); err != nil && !missing(err) {
		return w, err
	}
	if transformation.Enabled && transformation.Code != "" {
		w.block("transformation: it is JavaScript; create the endpoint with its id as label svix.id and a jq expression (--transform)")
	}
	if w.Unseen = sent.Sensitive; len(w.Unseen) > 0 {
		w.lose("header %s: Svix does not show its value; set it with grapnel endpoints update --header", strings.Join(w.Unseen, ", "))
	}
	headers := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(sent.Headers)) {
		headers[name] = literal(sent.Headers[name])
	}
	own := map[string]string{}
	if e.UID != "" {
		if fault := labelFault(svix.UIDLabel, e.UID); fault != "" {
			w.lose("uid: %s", fault)
		} else {
			own[svix.UIDLabel], w.sameName = e.UID, svix.UIDLabel
		}
	}
	if e.EventTypes == nil {
		e.EventTypes = e.FilterTypes
	}
	w.Fields = map[string]any{"url": e.URL, "description": e.Description, "event_types": e.EventTypes, "filter": svix.Filter(e.Channels),
		"rate_limit": w.rate(cmp.Or(e.ThrottleRate, e.RateLimit), 1), "headers": headers, "format": string(grapnel.FormatRaw),
		"signature_headers": string(grapnel.SigningSvix), "status": statusOf(e.Disabled),
		"labels": w.labelled(e.Metadata, own, 2, svix.Reserved)}
	w.settle(true)
	return w, nil
}

func statusOf(disabled bool) string {
	if disabled {
		return string(grapnel.EndpointDisabled)
	}
	return string(grapnel.EndpointEnabled)
}

// rate is a limit of so many requests in some seconds.
func (w *Want) rate(requests *float64, seconds float64) any {
	if requests == nil || *requests == 0 {
		return nil
	}
	each := *requests / seconds
	if each < grapnel.MinPerSecond || each > grapnel.MaxPerSecond {
		w.lose("rate limit: it must be from %v to %v a second", grapnel.MinPerSecond, grapnel.MaxPerSecond)
		return nil
	}
	return map[string]any{"per_second": each, "burst": max(1, int(each))}
}
