package api

import (
	"net/http"
	"slices"
	"strings"

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
		{method: "POST", path: "/v1/sources/{id}/rotate-secret", scope: grapnel.ScopeManage, handle: rotateSourceSecret,
			name: "rotate-source-secret", tag: sourceTag, summary: "Give a source a new secret",
			about: "Requests are verified with the new secret and, until overlap has passed, with those before. At most 5 count at once.",
			body:  &intake{types: []string{grapnel.JSONType}}, takes: newSourceRotation{}, gives: map[int]any{200: sourceView{}}},
		{method: "POST", path: "/in/{source}", open: anybody, bare: ingest,
			name: "ingest", tag: sourceTag, summary: "Send a webhook to a source",
			about: "For providers. Answers 202 once the request is durable as an event with all its deliveries, 200 for one that was there before: id is that " +
				"of the first, and conflict says that it differs from it. One that cannot be verified gets 401 or, where the source says quarantine, 202.",
			body: &intake{verbatim: true}, takes: rawBody{}, gives: map[int]any{202: received{}, 200: received{}}},
	}
}

// received is the answer to a provider. It is the document's picture of what the room of ingress writes.
type received struct {
	ID        string `json:"id" doc:"of the event; of the request, if it is quarantined"`
	Duplicate bool   `json:"duplicate"`
	Conflict  bool   `json:"conflict,omitempty" doc:"with duplicate: it was there before with another body"`
}

// Ingest takes one request for a source and answers it.
type Ingest interface {
	Take(w http.ResponseWriter, r *http.Request, source string)
	// Refusals says what a source refused at this node.
	Refusals(source string) ingress.Refusals
}

// ingest hands a request on as it came: nothing has been read of it.
func ingest(a *api, w http.ResponseWriter, c *call) {
	if a.Ingest == nil {
		ans := a.refuse(c, store.ErrNotFound("source"))
		ans.write(w, c.Request)
		return
	}
	if err := a.Engine.Current(); err != nil { // the source may have been deleted, or have other secrets
		ans := a.refuse(c, err)
		ans.write(w, c.Request)
		return
	}
	a.Ingest.Take(w, c.Request, c.PathValue("source"))
}

// Refuse answers a request that ingress does not take, as a problem like any other. The cause of a failure is logged by ingress.
func Refuse(w http.ResponseWriter, _ *http.Request, refused ingress.Refusal) {
	err := &grapnel.Error{Code: refused.Code, Detail: refused.Detail, RetryAfter: refused.RetryAfter}
	p := problem(err, w.Header().Get("X-Request-Id"))
	p.Status = refused.Status
	ans := answer{status: refused.Status, body: encode(p)}
	if refused.RetryAfter > 0 {
		ans.retryAfter = secondsUntilRetry(err)
	}
	ans.write(w, nil)
}

func createSource(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newSource](c.body, &f)
	s := grapnel.Source{
		ID: a.newID(grapnel.SourcePrefix, c.now), CreatedAt: c.now, UpdatedAt: c.now,
		Tenant: c.tenant(optional{in.Tenant, in.Tenant != ""}, "/tenant", &f),
	}
	c.mayReach(&in.SourceSettings, &f)
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
		c.mayReach(&in, &f)
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

// newSourceRotation is how a source's secret is rotated. The provider has made the new one, so it has to be given.
type newSourceRotation struct {
	Secret  string  `json:"secret" required:"true" minLength:"1" doc:"the new one, 8 bytes or more"`
	Overlap *string `json:"overlap,omitempty" form:"overlap" doc:"how long those before count as well: 0s to 720h; 24h if not given"`
	Reason  string  `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

func rotateSourceSecret(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newSourceRotation](c.body, &f)
	overlap := overlapOf(in.Overlap)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	edit := func(s *grapnel.Source) error {
		var err error
		if s.Verify.Secrets, err = rotated(s.Verify.Secrets, in.Secret, c.now, overlap); err != nil {
			return err
		}
		var f strict.Faults
		checkSecret(s.Verify.Scheme, in.Secret, "/secret", &f)
		for _, wrong := range ingress.CheckVerify(&s.Verify) {
			pointer := "/secret"
			if !strings.HasPrefix(wrong.Field, "secret") {
				pointer = ""
			}
			f.Add(pointer, "%s", wrong.Detail)
		}
		return f.Err()
	}
	s, err := a.changeSource(c, grapnel.VerbRotate, in.Reason, edit)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, a.viewSource(&s, c)), nil
}
