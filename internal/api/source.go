package api

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
)

const sourceTag = "Sources"

func sourceRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/sources", scope: grapnel.ScopeManage, handle: createSource,
			name: "create-source", tag: sourceTag, summary: "Create a source",
			about: "The provider sends its webhooks to ingest_url; with an outbox nobody sends, the server reads. Secrets are in no answer.",
			body:  &intake{types: []string{grapnel.JSONType}}, takes: newSource{}, gives: map[int]any{201: sourceView{}}},
		{method: "GET", path: "/v1/sources", scope: grapnel.ScopeRead, handle: listSources,
			name: "list-sources", tag: sourceTag, summary: "List sources", query: pageOf(tenantParam), gives: map[int]any{200: list[sourceView]{}}},
		{method: "GET", path: "/v1/sources/{id}", scope: grapnel.ScopeRead, handle: getSource,
			name: "get-source", tag: sourceTag, summary: "Get a source", gives: map[int]any{200: sourceView{}}},
		{method: "PATCH", path: "/v1/sources/{id}", scope: grapnel.ScopeManage, handle: patchSource,
			name: "update-source", tag: sourceTag, summary: "Change a source",
			about: "A JSON merge patch: null sets a field back to its default. Secrets stay unless some are given; a patch that names another scheme " +
				"replaces verify as a whole.",
			query: []param{reasonParam},
			body:  &intake{types: []string{openapi.TypeMergePatch, grapnel.JSONType}}, takes: SourceSettings{}, gives: map[int]any{200: sourceView{}}},
		{method: "DELETE", path: "/v1/sources/{id}", scope: grapnel.ScopeManage, handle: deleteSource,
			name: "delete-source", tag: sourceTag, summary: "Delete a source",
			about: "What it took in stays. 409 while an endpoint or queue takes only what comes in through it.",
			query: []param{reasonParam}, gives: map[int]any{204: nil}},
	}
}

// SourceSettings are what can be set on a source, and changed later.
type SourceSettings struct {
	Name         string          `json:"name" required:"true" minLength:"1" maxLength:"100" form:"name" doc:"for people; one of its tenant's sources has it"`
	Description  string          `json:"description,omitempty" maxLength:"1000"`
	Verify       *verifySettings `json:"verify,omitempty" doc:"how the provider's requests are told from others; required, unless there is an outbox"`
	Outbox       *outboxSettings `json:"outbox,omitempty" doc:"instead: events are read from a producer's outbox; then nothing else but description and status means anything"`
	Dedupe       *dedupeSettings `json:"dedupe,omitempty" doc:"how a request is known that was there before"`
	OnUnverified string          `json:"on_unverified,omitempty" enum:"reject,quarantine" doc:"reject: 401, and nothing is kept; quarantine: 202, kept for people to see and never handed out; reject if not given"`
	Type         string          `json:"type,omitempty" maxLength:"4096" doc:"a CEL expression that gives the event's type; none: the provider's own field"`
	Key          string          `json:"key,omitempty" maxLength:"4096" doc:"a CEL expression that gives the ordering key; none: the provider's own field, if it has one"`
	PublicURL    string          `json:"public_url,omitempty" minLength:"1" maxLength:"2048" form:"url" doc:"where the provider reaches it, for signatures that cover the URL; none: below the server's --public-url, or the URL of the request"`
	RateLimit    *rateLimit      `json:"rate_limit,omitempty" doc:"requests beyond it get 429; none: no limit"`
	MaxBody      int             `json:"max_body,omitempty" minimum:"1" maximum:"9007199254740991" doc:"bytes of a request's body; the server's limit if not given"`
	Status       string          `json:"status,omitempty" enum:"enabled,paused" doc:"paused: requests get 503, so that the provider keeps and repeats them; enabled if not given"`
}

// newSource is how a source is created.
type newSource struct {
	SourceSettings
	Tenant string `json:"tenant,omitempty" form:"tenant" doc:"the key's tenant, else default"`
}

// TransformSchema says that verify is required unless there is an outbox.
func (newSource) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	given := func(name string) map[string]any {
		return map[string]any{"required": []string{name}, "properties": map[string]any{name: map[string]any{"type": "object"}}}
	}
	s.Extensions = map[string]any{"if": given("outbox"), "else": given("verify")}
	return s
}

// sourceView is a source as it is shown: without its secrets.
type sourceView struct {
	ID           string         `json:"id"`
	Tenant       string         `json:"tenant"`
	Name         string         `json:"name"`
	Description  string         `json:"description"`
	IngestURL    *string        `json:"ingest_url" doc:"where the provider sends its requests: below the address of this server, or with it if that is set (--public-url); null with an outbox"`
	Verify       *verifyView    `json:"verify,omitempty" doc:"not with an outbox"`
	Outbox       *outboxView    `json:"outbox,omitempty" doc:"only if it has one"`
	Dedupe       *dedupeView    `json:"dedupe,omitempty" doc:"not with an outbox"`
	OnUnverified string         `json:"on_unverified" enum:"reject,quarantine"`
	Type         *string        `json:"type"`
	Key          *string        `json:"key"`
	PublicURL    *string        `json:"public_url"`
	RateLimit    *rateLimitView `json:"rate_limit" nullable:"true"`
	MaxBody      *int64         `json:"max_body" doc:"null: the server's limit"`
	Status       string         `json:"status" enum:"enabled,paused"`
	Provider     *providerView  `json:"provider,omitempty" doc:"not with an outbox"`
	Refusals     *refusalsView  `json:"refusals,omitempty" doc:"requests that were not taken, at the node that answers and since it was started; absent: none"`
	CreatedAt    stamp          `json:"created_at"`
	UpdatedAt    stamp          `json:"updated_at"`
	Revision     int64          `json:"revision" doc:"grows with every change"`
}

type refusalsView struct {
	LastAt     stamp  `json:"last_at"`
	LastStatus int    `json:"last_status" doc:"of the answer, as in 401"`
	LastReason string `json:"last_reason"`
	LastHour   int    `json:"last_hour" doc:"how many there were in the last hour"`
}

func createSource(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newSource](c.body, &f)
	s := grapnel.Source{
		ID: a.newID(grapnel.SourcePrefix, c.now), CreatedAt: c.now, UpdatedAt: c.now,
		Tenant: c.tenant(optional{in.Tenant, in.Tenant != ""}, "/tenant", &f),
	}
	c.mayReach(in.Outbox, &f)
	if f.Err() == nil {
		setSource(&s, in.SourceSettings, c.now, &f)
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	reply := func(done store.Put) answer {
		s := s
		s.Revision = done.Revision
		return jsonAnswer(http.StatusCreated, a.viewSource(&s, c))
	}
	done, err := a.Engine.PutSource(c.Context(), c.scope, s, store.With{Once: withEffect(c, reply), Audit: c.ofSource(grapnel.VerbCreate, &s, "")})
	return answered(done, done.Answer, err, reply)
}

// ofSource tells the audit what the caller does to a source.
func (c *call) ofSource(verb grapnel.Verb, s *grapnel.Source, reason string) *grapnel.AuditEntry {
	return &grapnel.AuditEntry{At: c.now, Tenant: s.Tenant, Actor: c.key.ID, Verb: verb, Endpoint: s.ID, Reason: reason}
}

func listSources(a *api, c *call) (answer, error) {
	limit, after, tenant := c.query.limit(), c.position(), c.query.text("tenant")
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	found := slices.DeleteFunc(slices.Clone(a.Engine.Sources(c.scope)), func(s grapnel.Source) bool {
		return s.ID <= after || tenant != "" && s.Tenant != tenant
	})
	part := page(c, found, limit, func(s *grapnel.Source) string { return s.ID })
	out := list[sourceView]{Data: make([]sourceView, len(part.Data)), Next: part.Next}
	for i := range part.Data {
		out.Data[i] = a.viewSource(&part.Data[i], c)
	}
	return jsonAnswer(http.StatusOK, out), nil
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
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, a.viewSource(&s, c)), nil
}

// changeSource applies edit to the source as it is now, and again if somebody else changed it meanwhile.
func (a *api) changeSource(c *call, verb grapnel.Verb, reason string, edit func(*grapnel.Source) error) (grapnel.Source, error) {
	for tries := 1; ; tries++ {
		s, err := a.source(c)
		if err != nil {
			return s, err
		}
		paused := s.Paused
		if err := edit(&s); err != nil {
			return s, err
		}
		s.UpdatedAt = c.now
		asked, called := s.Revision, verb
		switch {
		case s.Paused && !paused:
			called = grapnel.VerbPause
		case paused && !s.Paused:
			called = grapnel.VerbResume
		}
		reply := func(done store.Put) answer {
			s := s
			s.Revision = done.Revision
			return jsonAnswer(http.StatusOK, a.viewSource(&s, c))
		}
		with := store.With{Audit: c.ofSource(called, &s, reason)}
		if c.Method == http.MethodPost {
			with.Once = withEffect(c, reply)
		}
		done, err := a.Engine.PutSource(c.Context(), c.scope, s, with)
		if now, there := a.Engine.Source(c.scope, s.ID); grapnel.CodeOf(err) == grapnel.CodeConflict && there && now.Revision != asked && tries < 5 {
			continue // not the name that is taken
		}
		if err == nil {
			err = first(done.Answer)
		}
		s.Revision = done.Revision
		return s, err
	}
}

func patchSource(a *api, c *call) (answer, error) {
	patch := gjson.ParseBytes(c.body)
	reason := c.reason()
	edit := func(s *grapnel.Source) error {
		var f strict.Faults
		checkPatch[SourceSettings](patch, &f)
		now := sourceSettings(s)
		if scheme := patch.Get("verify.scheme"); scheme.Exists() && scheme.Str != s.Verify.Scheme {
			now.Verify, s.Verify = nil, grapnel.Verify{}
		}
		merged := strict.Merge(gjson.ParseBytes(encode(now)), patch, "/", &f)
		if err := f.Err(); err != nil {
			return err
		}
		in := decode[SourceSettings](merged, &f)
		c.mayReach(in.Outbox, &f)
		if err := f.Err(); err != nil {
			return err
		}
		setSource(s, in, c.now, &f)
		return f.Err()
	}
	s, err := a.changeSource(c, grapnel.VerbChange, reason, edit)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, a.viewSource(&s, c)), nil
}

func deleteSource(a *api, c *call) (answer, error) {
	reason := c.reason()
	s, err := a.source(c)
	if err != nil {
		return answer{}, err
	}
	with := store.With{Audit: c.ofSource(grapnel.VerbDelete, &s, reason)}
	if _, err := a.Engine.DeleteSource(c.Context(), c.scope, s.ID, with); err != nil {
		return answer{}, err
	}
	return nothing(), nil
}

func (a *api) viewSource(s *grapnel.Source, c *call) sourceView {
	if s.Outbox != nil {
		return sourceView{ID: s.ID, Tenant: s.Tenant, Name: s.Name, Description: s.Description, Outbox: viewOutbox(a, s),
			OnUnverified: string(grapnel.RejectUnverified), Status: sourceStatus(s), CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt), Revision: s.Revision}
	}
	scheme, _ := schemeOf(s.Verify.Scheme)
	v := sourceView{
		ID: s.ID, Tenant: s.Tenant, Name: s.Name, Description: s.Description, IngestURL: orNull(a.links.root(c.Request) + "/in/" + s.ID),
		Verify: &verifyView{
			Scheme: s.Verify.Scheme, Secrets: []sourceSecretView{}, Header: orNull(s.Verify.Header), Algorithm: orNull(s.Verify.Algorithm),
			Encoding: orNull(s.Verify.Encoding), Prefix: orNull(s.Verify.Prefix), Signed: orNull(s.Verify.Signed),
			TimestampHeader: orNull(s.Verify.TimestampHeader), IDHeader: orNull(s.Verify.IDHeader), TypeHeader: orNull(s.Verify.TypeHeader),
			Username: orNull(s.Verify.Username),
		},
		Dedupe:       &dedupeView{By: []string{}, Window: span(s.Dedupe.Window), Ignore: append([]string{}, s.Dedupe.Ignore...)},
		OnUnverified: string(s.OnUnverified), Type: orNull(s.Type), Key: orNull(s.Key), PublicURL: orNull(s.PublicURL),
		RateLimit: (*rateLimitView)(s.RateLimit), MaxBody: numberOrNull(s.MaxBody), Status: sourceStatus(s),
		Provider: &providerView{Title: scheme.Title, Signature: scheme.Signature, IDsSigned: !scheme.Unsigned, Retries: scheme.Retries,
			Checked: orNull(scheme.Checked), Docs: orNull(scheme.Docs)},
		CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt), Revision: s.Revision,
	}
	for _, secret := range s.Verify.Secrets {
		if secret.Live(c.now) {
			v.Verify.Secrets = append(v.Verify.Secrets, sourceSecretView{stamp(secret.CreatedAt), stampOf(secret.ExpiresAt)})
		}
	}
	for _, by := range s.Dedupe.By {
		v.Dedupe.By = append(v.Dedupe.By, string(by))
	}
	if scheme.Tolerance || s.Verify.TimestampHeader != "" {
		tolerance := span(cmp.Or(s.Verify.Tolerance, grapnel.DefaultTolerance))
		v.Verify.Tolerance = &tolerance
	}
	if a.Ingest != nil {
		if r := a.Ingest.Refusals(s.ID); !r.LastAt.IsZero() {
			v.Refusals = &refusalsView{stamp(r.LastAt), r.LastStatus, r.LastReason, r.LastHour}
		}
	}
	if scheme.RetriesFor > 0 {
		retries := span(scheme.RetriesFor)
		v.Provider.RetriesFor = &retries
	}
	return v
}

func sourceStatus(s *grapnel.Source) string {
	if s.Paused {
		return string(grapnel.EndpointPaused)
	}
	return string(grapnel.EndpointEnabled)
}

// onlyOutbox refuses settings about requests next to an outbox.
func onlyOutbox(in *SourceSettings, f *strict.Faults) {
	for name, given := range map[string]bool{
		"verify": in.Verify != nil, "dedupe": in.Dedupe != nil, "on_unverified": in.OnUnverified == string(grapnel.Quarantine), "type": in.Type != "",
		"key": in.Key != "", "public_url": in.PublicURL != "", "rate_limit": in.RateLimit != nil, "max_body": in.MaxBody != 0,
	} {
		if given {
			f.Add("/"+name, "must not be given with outbox: it is about requests")
		}
	}
}

// sourceSettings are a source's settings as they would be given to make one like it, but for its secrets.
func sourceSettings(s *grapnel.Source) SourceSettings {
	if s.Outbox != nil {
		return SourceSettings{Name: s.Name, Description: s.Description, Outbox: &outboxSettings{}, Status: sourceStatus(s)}
	}
	v := &s.Verify
	in := SourceSettings{
		Name: s.Name, Description: s.Description, OnUnverified: string(s.OnUnverified), Type: s.Type, Key: s.Key, PublicURL: s.PublicURL,
		MaxBody: int(s.MaxBody), Status: sourceStatus(s),
		Verify: &verifySettings{Scheme: v.Scheme, Header: v.Header, Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix, Signed: v.Signed,
			TimestampHeader: v.TimestampHeader, IDHeader: v.IDHeader, TypeHeader: v.TypeHeader, Username: v.Username},
		Dedupe: &dedupeSettings{By: []string{}, Window: s.Dedupe.Window.String(), Ignore: s.Dedupe.Ignore},
	}
	if v.Tolerance > 0 {
		in.Verify.Tolerance = v.Tolerance.String()
	}
	for _, by := range s.Dedupe.By {
		in.Dedupe.By = append(in.Dedupe.By, string(by))
	}
	if s.RateLimit != nil {
		in.RateLimit = &rateLimit{s.RateLimit.PerSecond, s.RateLimit.Burst}
	}
	return in
}

// setSource puts settings on a source, or says what is wrong with them. What is left out is the default, but for secrets: a source keeps those that
// it has while none are given.
func setSource(s *grapnel.Source, in SourceSettings, now time.Time, f *strict.Faults) {
	s.Name, s.Description, s.Type, s.Key, s.PublicURL = in.Name, in.Description, in.Type, in.Key, in.PublicURL
	s.OnUnverified = grapnel.Unverified(cmp.Or(in.OnUnverified, string(grapnel.RejectUnverified)))
	s.MaxBody, s.Paused = int64(in.MaxBody), in.Status == string(grapnel.EndpointPaused)
	s.RateLimit = nil
	if r := in.RateLimit; r != nil {
		s.RateLimit = &grapnel.RateLimit{PerSecond: r.PerSecond, Burst: cmp.Or(r.Burst, int(math.Ceil(r.PerSecond)))}
	}
	if in.Outbox != nil {
		s.Verify, s.Dedupe = grapnel.Verify{}, grapnel.Dedupe{}
		setOutbox(s, in.Outbox.DSN, now, f)
		onlyOutbox(&in, f)
		return
	}
	s.Outbox = nil
	if in.Verify == nil {
		f.Add("/verify", "is required")
		return
	}
	v := in.Verify
	s.Verify = grapnel.Verify{
		Scheme: v.Scheme, Secrets: s.Verify.Secrets, Header: v.Header, Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix, Signed: v.Signed,
		TimestampHeader: v.TimestampHeader, IDHeader: v.IDHeader, TypeHeader: v.TypeHeader, Username: v.Username,
		Tolerance: duration(v.Tolerance),
	}
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
	s.Dedupe = grapnel.Dedupe{By: []grapnel.DedupeBy{grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent}, Window: grapnel.DefaultDedupeWindow}
	if d := in.Dedupe; d != nil {
		if d.By != nil {
			s.Dedupe.By = nil
			for _, by := range d.By {
				s.Dedupe.By = append(s.Dedupe.By, grapnel.DedupeBy(by))
			}
		}
		s.Dedupe.Window = cmp.Or(duration(d.Window), grapnel.DefaultDedupeWindow)
		s.Dedupe.Ignore = d.Ignore
	}
	// What could not be read is not judged as well.
	if len(f.Fields) > 0 {
		return
	}
	for _, wrong := range ingress.CheckSource(s) {
		f.Add("/"+wrong.Field, "%s", wrong.Detail)
	}
	checkSecret(v.Scheme, v.Secret, "/verify/secret", f)
	for i, text := range v.Secrets {
		checkSecret(v.Scheme, text, "/verify/secrets/"+strconv.Itoa(i), f)
	}
}
