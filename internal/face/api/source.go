package api

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

const sourceTag = "Sources"

func sourceRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/sources", scope: grapnel.ScopeManage, handle: createSource,
			name: "create-source", tag: sourceTag, summary: "Create a source",
			about: "The provider sends its webhooks to ingest_url; with an outbox or a broker the server reads instead. Secrets are in no answer.",
			body:  jsonBody, takes: newSource{}, gives: map[int]any{201: wire.Source{}}},
		{method: "GET", path: "/v1/sources", scope: grapnel.ScopeRead, handle: listSources,
			name: "list-sources", tag: sourceTag, summary: "List sources",
			query: pageOf(tenantParam, searchParam), gives: map[int]any{200: list[wire.Source]{}}},
		{method: "GET", path: "/v1/sources/{id}", scope: grapnel.ScopeRead, handle: getSource,
			name: "get-source", tag: sourceTag, summary: "Get a source", gives: map[int]any{200: wire.Source{}}},
		{method: "PATCH", path: "/v1/sources/{id}", scope: grapnel.ScopeManage, handle: patchSource,
			name: "update-source", tag: sourceTag, summary: "Change a source",
			about: "A JSON merge patch: null resets a field to its default. Secrets stay unless new ones are given; a patch " +
				"with another scheme replaces verify as a whole.",
			query: []param{reasonParam}, body: patchBody, takes: wire.NewSource{}, gives: map[int]any{200: wire.Source{}}},
		{method: "DELETE", path: "/v1/sources/{id}", scope: grapnel.ScopeManage, handle: deleteSource,
			name: "delete-source", tag: sourceTag, summary: "Delete a source",
			about: "Its events stay. 409 while an endpoint or queue takes only its events.",
			query: []param{reasonParam}, gives: map[int]any{204: nil}},
	}
}

// The fields of sources that answers and requests copy.
var (
	sourceFields = pairOf[grapnel.Source, wire.Source]("Waits", "Released", "Unreachable", "IngestURL", "Verify", "Outbox", "Broker", "TLS",
		"Consumer", "Dedupe", "Status", "Provider", "Refusals")
	intakeFields = pairOf[grapnel.Source, wire.NewSource]("Tenant", "Verify", "Outbox", "Broker", "TLS", "Dedupe", "Status")
	verifyFields = pairOf[grapnel.Verify, wire.VerifySettings]("Secret", "Secrets")
	shownVerify  = pairOf[grapnel.Verify, wire.Verify]("Secrets", "Tolerance")
	dedupeFields = pairOf[grapnel.Dedupe, wire.DedupeSettings]()
	shownDedupe  = pairOf[grapnel.Dedupe, wire.Dedupe]()
)

// newSource is how a source is created.
type newSource struct{ wire.NewSource }

// TransformSchema says that verify is required unless there is an outbox or a broker.
func (newSource) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	null := map[string]any{"type": "null"} // or not given: properties says nothing about members that are absent
	s.Extensions = map[string]any{"not": map[string]any{"properties": map[string]any{"verify": null, "outbox": null, "broker": null}}}
	return s
}

func createSource(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewSource](c.body, &f)
	s := grapnel.Source{
		ID: a.newID(grapnel.SourcePrefix, c.now), CreatedAt: c.now, UpdatedAt: c.now,
		Tenant: c.tenant(optional{in.Tenant, in.Tenant != ""}, "/tenant", &f),
	}
	c.mayReach(in.Outbox, &f)
	a.setSource(c, &s, &in, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	if err := roomFor(s.Tenant, "sources", a.Bounds.Sources, a.Engine.Sources(store.Of(s.Tenant))); err != nil {
		return answer{}, err
	}
	return put(c, a.Engine.PutSource, s, c.entryOf(grapnel.VerbCreate, s.Tenant, s.ID, ""), a.putSource(c, s, http.StatusCreated))
}

// putSource answers with a source that was put.
func (a *api) putSource(c *call, s grapnel.Source, status int) func(store.Put) answer {
	return func(done store.Put) answer {
		s.Revision = done.Revision
		return jsonAnswer(status, a.viewSource(&s, c))
	}
}

func listSources(a *api, c *call) (answer, error) {
	of := func(s *grapnel.Source) entry { return entry{id: s.ID, tenant: s.Tenant, name: s.Name} }
	return listed(c, a.Engine.Sources(c.scope), of, each(a.sourceView(c)))
}

// source is the one that the path names.
func (a *api) source(c *call) (grapnel.Source, error) {
	s, ok := a.Engine.Source(c.scope, c.PathValue("id"))
	if !ok {
		return s, store.ErrNotFound("source")
	}
	return s, nil
}

func getSource(a *api, c *call) (answer, error) {
	s, err := a.source(c)
	return shown(s, err, a.sourceView(c))
}

// changeSource applies edit to the source as it is now, and again if another request changed it
// meanwhile. freed: the change gave it the secret it waited for.
func (a *api) changeSource(c *call, verb grapnel.Verb, reason string, edit func(*grapnel.Source) error,
) (s grapnel.Source, freed bool, err error) {
	for tries := 1; ; tries++ {
		if s, err = a.source(c); err != nil {
			return s, false, err
		}
		paused, waited := s.Paused, ingress.Waits(&s)
		if err := edit(&s); err != nil {
			return s, false, err
		}
		s.UpdatedAt = c.now
		if freed = waited && !ingress.Waits(&s); freed {
			s.SecretAt = c.now
		}
		asked, called := s.Revision, verb
		switch {
		case s.Paused && !paused:
			called = grapnel.VerbPause
		case paused && !s.Paused:
			called = grapnel.VerbResume
		}
		with := store.With{Audit: c.entryOf(called, s.Tenant, s.ID, reason)}
		if c.Method == http.MethodPost {
			with.Once = withEffect(c, a.putSource(c, s, http.StatusOK))
		}
		done, err := a.Engine.PutSource(c.Context(), c.scope, s, with)
		now, there := a.Engine.Source(c.scope, s.ID)
		if grapnel.CodeOf(err) == grapnel.CodeConflict && there && now.Revision != asked && tries < 5 {
			continue // not the name that is taken
		}
		if err == nil {
			err = first(done.Answer)
		}
		s.Revision = done.Revision
		return s, freed, err
	}
}

func patchSource(a *api, c *call) (answer, error) {
	patch := gjson.ParseBytes(c.body)
	reason := c.reason()
	edit := func(s *grapnel.Source) error {
		var f strict.Faults
		now, waited := sourceSettings(s), ingress.Waits(s)
		if named := patch.Get("verify.scheme"); named.Exists() && named.Str != s.Verify.Scheme {
			now.Verify, s.Verify = wire.VerifySettings{}, grapnel.Verify{}
		}
		in := patched(c, now, &f)
		c.mayReach(in.Outbox, &f)
		a.setSource(c, s, &in, &f)
		if !waited && ingress.Waits(s) { // a source that verifies would stop
			f.Add("/verify/secret", "is needed with another scheme")
		}
		return f.Err()
	}
	s, freed, err := a.changeSource(c, grapnel.VerbChange, reason, edit)
	return shown(s, err, a.released(c, freed))
}

// released shows a source that was changed. If that freed the requests that waited for its secret,
// they are released first. Those that the time does not suffice for, or that a failure of the store
// delays, are released by Receiver.Run.
func (a *api) released(c *call, freed bool) func(*grapnel.Source) wire.Source {
	return func(s *grapnel.Source) wire.Source {
		v := a.viewSource(s, c)
		if a.Ingest == nil || !freed {
			return v
		}
		ctx, end := context.WithTimeout(c.Context(), a.Bounds.Release)
		defer end()
		done, _ := a.Ingest.Release(ctx, s.ID)
		v.Released = &wire.Released{Events: done.Events, Duplicates: done.Duplicates, Conflicts: done.Conflicts, Quarantined: done.Left}
		return v
	}
}

func deleteSource(a *api, c *call) (answer, error) {
	reason := c.reason()
	s, err := a.source(c)
	if err != nil {
		return answer{}, err
	}
	reason = named(s.Name, reason)
	_, err = a.Engine.DeleteSource(c.Context(), c.scope, s.ID, store.With{Audit: c.entryOf(grapnel.VerbDelete, s.Tenant, s.ID, reason)})
	return nothing(), err
}

// sourceView shows sources to a caller.
func (a *api) sourceView(c *call) func(*grapnel.Source) wire.Source {
	return func(s *grapnel.Source) wire.Source { return a.viewSource(s, c) }
}

func (a *api) viewSource(s *grapnel.Source, c *call) wire.Source {
	v := wire.Source{Outbox: viewOutbox(a, s), Broker: viewTarget(s.Broker), TLS: viewTLS(s.TLS), Consumer: viewConsumer(a, s),
		Status: sourceStatus(s)}
	sourceFields.show(s, &v)
	strict.Defaults(&v)
	if s.Outbox != nil || s.Broker != nil {
		return v
	}
	named, _ := scheme.Of(s.Verify.Scheme)
	v.Waits = ingress.Waits(s)
	v.IngestURL = a.links.root(c.Request) + "/in/" + s.ID
	if a.links.public == "" && s.PublicURL == "" {
		v.Unreachable = words.Unreachable(a.links.origin(c.Request))
	}
	v.Provider = wire.Provider{Title: named.Title, Signature: named.Signature, IDsSigned: ingress.IDsSigned(s), Retries: named.Retries,
		RetriesFor: spanOf(named.RetriesFor), Checked: named.Checked, Docs: named.Docs}
	shownVerify.show(&s.Verify, &v.Verify)
	shownDedupe.show(&s.Dedupe, &v.Dedupe)
	for _, secret := range s.Verify.Secrets {
		if secret.Live(c.now) {
			v.Verify.Secrets = append(v.Verify.Secrets, wire.SourceSecret{CreatedAt: secret.CreatedAt, ExpiresAt: timeOf(secret.ExpiresAt)})
		}
	}
	if named.Tolerance || s.Verify.TimestampHeader != "" {
		v.Verify.Tolerance = spanOf(cmp.Or(s.Verify.Tolerance, grapnel.DefaultTolerance))
	}
	if a.Ingest != nil {
		if r := a.Ingest.Refusals(s.ID); !r.LastAt.IsZero() {
			v.Refusals = &wire.Refusals{LastAt: r.LastAt, LastStatus: r.LastStatus, LastReason: r.LastReason, LastHour: r.LastHour}
		}
	}
	return v
}

func sourceStatus(s *grapnel.Source) grapnel.EndpointStatus {
	if s.Paused {
		return grapnel.EndpointPaused
	}
	return grapnel.EndpointEnabled
}

// onlyRead refuses settings about requests next to an outbox or a broker.
func onlyRead(in *wire.NewSource, f *strict.Faults) {
	by, given := "broker", map[string]bool{
		"verify": in.Verify.Scheme != "", "dedupe": in.Dedupe != nil, "on_unverified": in.OnUnverified == grapnel.Quarantine,
		"outbox":     in.Outbox != nil,
		"public_url": in.PublicURL != "", "rate_limit": in.RateLimit != nil, "max_body": in.MaxBody != 0,
	}
	if in.Broker == nil {
		by, given["outbox"] = "outbox", false
		given["type"], given["key"], given["event_id"] = in.Type != "", in.Key != "", in.EventID != ""
		given["tls"] = in.TLS != nil && *in.TLS != (wire.TLS{})
	}
	for name, is := range given {
		if is {
			f.Add("/"+name, "must not be given with %s: it applies to requests", by)
		}
	}
}

// sourceSettings are a source's settings as they would be given to make one like it, but for its
// secrets.
func sourceSettings(s *grapnel.Source) wire.NewSource {
	if s.Outbox != nil {
		return wire.NewSource{Name: s.Name, Description: s.Description, Outbox: &wire.OutboxSettings{}, Status: sourceStatus(s)}
	}
	if s.Broker != nil {
		return wire.NewSource{Name: s.Name, Description: s.Description, Broker: viewTarget(s.Broker), TLS: viewTLS(s.TLS), Type: s.Type,
			Key: s.Key, EventID: s.EventID, Status: sourceStatus(s)}
	}
	in := wire.NewSource{Dedupe: &wire.DedupeSettings{}, Status: sourceStatus(s)}
	intakeFields.show(s, &in)
	verifyFields.show(&s.Verify, &in.Verify)
	dedupeFields.show(&s.Dedupe, in.Dedupe)
	return in
}

// setSource puts settings on a source, or adds their faults. Fields that are left out get the
// default, except secrets: a source keeps its secrets while none are given.
func (a *api) setSource(c *call, s *grapnel.Source, in *wire.NewSource, f *strict.Faults) {
	limitRate(in.RateLimit)
	was, now := *s, c.now
	intakeFields.set(in, s)
	s.Paused = in.Status == grapnel.EndpointPaused
	if in.Outbox != nil || in.Broker != nil {
		s.Verify, s.Dedupe = grapnel.Verify{}, grapnel.Dedupe{}
		onlyRead(in, f)
		if in.Broker != nil {
			s.Outbox = nil
			a.setBroker(c, s, in, f)
		} else {
			s.Broker, s.TLS = nil, nil
			setOutbox(s, in.Outbox.DSN, now, f)
		}
		return
	}
	s.Outbox, s.Broker, s.TLS = nil, nil, nil
	if in.TLS != nil && *in.TLS != (wire.TLS{}) {
		f.Add("/tls", "must not be given without broker")
	}
	v := &in.Verify
	if v.Scheme == "" && f.Free("/verify") {
		f.Add("/verify", "is required")
	}
	if v.Scheme == "" || !f.Free("/verify/scheme") { // which says what the other settings mean
		return
	}
	verifyFields.set(v, &s.Verify)
	switch {
	case v.Secret != "" && v.Secrets != nil:
		f.Add("/verify/secrets", "must not be given together with secret")
	case v.Secret != "":
		s.Verify.Secrets = []grapnel.Secret{{Text: v.Secret, CreatedAt: now}}
	case v.Secrets != nil:
		s.Verify.Secrets = nil
		for _, text := range v.Secrets {
			s.Verify.Secrets = append(s.Verify.Secrets, grapnel.Secret{Text: text, CreatedAt: now})
		}
	}
	s.Dedupe = grapnel.Dedupe{}
	if in.Dedupe != nil {
		dedupeFields.set(in.Dedupe, &s.Dedupe)
	}
	if s.Dedupe.By == nil {
		s.Dedupe.By = []grapnel.DedupeBy{grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent}
	}
	s.Dedupe.Window = cmp.Or(s.Dedupe.Window, grapnel.DefaultDedupeWindow)
	for _, wrong := range ingress.CheckSource(s) {
		// An expression that was saved before works on, with its former limit.
		if (wrong.Field != "type" || s.Type != was.Type) && (wrong.Field != "key" || s.Key != was.Key) &&
			(wrong.Field != "event_id" || s.EventID != was.EventID) && f.Free("/"+wrong.Field) {
			f.Add("/"+wrong.Field, "%s", wrong.Detail)
		}
	}
	checkSecret(v.Scheme, v.Secret, "/verify/secret", f)
	for i, text := range v.Secrets {
		checkSecret(v.Scheme, text, "/verify/secrets/"+strconv.Itoa(i), f)
	}
}

// checkSecret looks at a secret that is given now.
func checkSecret(named, text, pointer string, f *strict.Faults) {
	if wrong := scheme.CheckSecret(named, text); wrong != "" {
		f.Add(pointer, "%s", wrong)
	}
}
