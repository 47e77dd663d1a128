package api

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func portalRoutes() []route {
	const tag = portalTag
	return []route{
		{method: "POST", path: "/v1/tenants/{tenant}/portal-links", scope: grapnel.ScopeManage, handle: createLink,
			name: "create-portal-link", tag: tag, summary: "Create a link that opens a tenant's portal once",
			about: "Give the link to one person at the moment of need: its first user has the portal for the session's time. " +
				"A key that is bound to a tenant makes links for its own tenant. A link has at most the rights of its maker: a key with manage gives " +
				"endpoints:write and secrets:reveal, with read also read, payload:read and alerts:read, with replay also replay. Link and session " +
				"end when the key is revoked or loses these rights, or when the sessions of the person who made the link are ended.",
			body: optionalBody, takes: wire.NewPortalLink{}, gives: map[int]any{201: wire.PortalLink{}}},
		{method: "DELETE", path: "/v1/tenants/{tenant}/portal-links", scope: grapnel.ScopeManage, handle: revokeLinks,
			name: "revoke-portal-links", tag: tag, summary: "End all portal links and sessions of a tenant, or those of one subject or link",
			about: "Links that were not opened do not open any more, and sessions that they opened end with their next request. Links that are " +
				"created afterwards are not affected. API keys stay.",
			query: []param{{name: "subject", doc: "only links and sessions of this person, as the links named it"},
				{name: "link", form: "id", doc: "only this link, and the session that it opened"}, reasonParam}, gives: map[int]any{204: nil}},
		{method: "POST", path: "/v1/portal-sessions", scope: grapnel.ScopePortalOpen, portal: grapnel.ScopePortalOpen, handle: openPortal,
			name: "open-portal", tag: tag, summary: "Open a portal with the code of a link",
			about: "The portal's own page does this. A page of your own sends the part of the link after the # as Authorization: Bearer, and " +
				"calls the API with the pass of the answer. A code works once: 401 for one that was used, has expired or was revoked.",
			gives: map[int]any{201: wire.PortalSession{}}},
		{method: "GET", path: "/v1/tenants/{tenant}/portal", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: getPortal,
			name: "get-portal", tag: tag, summary: "Get how a tenant's portal looks", gives: map[int]any{200: wire.Portal{}}},
		{method: "PATCH", path: "/v1/tenants/{tenant}/portal", scope: grapnel.ScopeManage, handle: patchPortal,
			name: "update-portal", tag: tag, summary: "Change how a tenant's portal looks, and where it may be framed",
			about: "A JSON merge patch: null sets a field back.",
			body:  patchBody, takes: wire.PortalSettings{}, gives: map[int]any{200: wire.Portal{}}},
	}
}

// portalTag is the heading of the portal's routes in the reference.
const portalTag = "Portal"

const mostLogo = 12 << 10 // bytes

// theirTenant is the tenant in the path, if the caller has it. To the keys of others it looks like
// a tenant that does not exist.
func theirTenant(a *api, c *call) (string, error) {
	name := c.PathValue("tenant")
	if !grapnel.BindsTenant(name) || !c.scope.Whole().Allows(name) {
		return "", store.ErrNotFound("tenant")
	}
	return name, nil
}

// createLink seals a link. Its code is a pass whose one right is to open the portal.
func createLink(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewPortalLink](c.body, &f)
	tenant, err := theirTenant(a, c)
	if err != nil {
		return answer{}, err
	}
	if err := a.Engine.Accepts(tenant); err != nil {
		return answer{}, err
	}
	for i, id := range in.Endpoints {
		if ep, ok := a.Engine.Endpoint(store.Of(tenant), id); !ok || !ep.Receives() {
			f.Add("/endpoints/"+strconv.Itoa(i), "endpoint not found")
		}
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	if !c.links.known(c.Request) {
		return answer{}, grapnel.Errorf(grapnel.CodeConflict, "The server does not know its public address, and a link to the address that a request "+
			"names could lead anywhere. Start it with --public-url, or with --trusted-proxies behind a proxy.")
	}
	if !a.linked.Use(tenant, c.now, c.now, a.Bounds.LinkPause) {
		return answer{}, &grapnel.Error{Code: grapnel.CodeRateLimited, RetryAfter: a.Bounds.LinkPause,
			Detail: "Too many portal links are created for this tenant. A link is for one person at the moment of need."}
	}
	if len(in.Scopes) == 0 {
		in.Scopes = []grapnel.Scope{grapnel.ScopeRead}
	}
	if lacks := c.cannotGive(in.Scopes); len(lacks) > 0 {
		return answer{}, grapnel.Errorf(codeForbidden, "A link has at most the rights of its maker, and the maker cannot give %s. "+
			"Name other scopes, or use a key that has them: manage gives endpoints:write and secrets:reveal; read gives read, payload:read "+
			"and alerts:read; replay gives replay.", strings.Join(lacks, ", "))
	}
	subject := "portal"
	if in.Subject != "" {
		subject += "/" + in.Subject
	}
	ends := c.now.Add(duration(in.ExpiresIn))
	frames := a.portal(tenant).FrameAncestors
	link := pass.Pass{Subject: subject, Tenant: tenant, Portal: true, Scopes: []grapnel.Scope{grapnel.ScopePortalOpen},
		Link: a.newID(grapnel.Named(linkPrefix, a.Name), c.now), Series: a.Engine.Access(grapnel.SeriesID(tenant)).Series, Maker: c.maker(), Begins: c.now, Ends: ends,
		Opens: &pass.Opening{For: duration(in.Session), Scopes: in.Scopes, Endpoints: in.Endpoints,
			Look: pass.Look{Theme: in.Theme, Locale: in.Locale, Return: in.ReturnURL}}}
	code, err := a.Passes.Seal(link)
	if err != nil {
		return answer{}, err
	}
	url := c.links.origin(c.Request) + "/portal"
	if len(frames) > 0 {
		of, err := a.Passes.SealFor(pass.UseFrames, pass.Frames{Origins: frames, Ends: ends})
		if err != nil {
			return answer{}, err
		}
		url += "?of=" + of
	}
	entry := c.entryOf(grapnel.VerbCreate, tenant, "portal", "link "+link.Link+" for "+subject)
	if err := a.History.Note(c.Context(), *entry); err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusCreated, wire.PortalLink{ID: link.Link, URL: url + "#" + code, ExpiresAt: ends}), nil
}

// cannotGive are the scopes that the caller may not give to a link.
func (c *call) cannotGive(scopes []grapnel.Scope) (lacks []string) {
	for _, s := range scopes {
		gives := grapnel.Gives(c.key.Scopes, s)
		if c.pass != nil && (s == grapnel.ScopePayloadRead || s == grapnel.ScopeSecretsReveal) {
			gives = c.key.May(s) // people have these scopes by themselves, and keys as a part of others
		}
		if !gives {
			lacks = append(lacks, string(s))
		}
	}
	return lacks
}

// maker is the caller as the passes that it makes name it.
func (c *call) maker() *pass.Maker {
	if c.pass != nil {
		return &pass.Maker{ID: c.key.ID, Tenant: c.bound, Begins: c.pass.Begins}
	}
	return &pass.Maker{ID: c.key.ID, Tenant: c.bound, Key: pass.Mark(c.key.Hash)}
}

// openPortal exchanges the code of a link for a session. The store remembers the code with random
// bytes in the place of a request's fingerprint: the first request to store it is answered, on any
// node, and each later one has other bytes.
func openPortal(a *api, c *call) (answer, error) {
	if c.pass == nil || c.pass.Opens == nil {
		return answer{}, grapnel.Errorf(codeForbidden, "Only the code of a portal link opens a portal.")
	}
	once := store.Once{Key: c.caller(), Now: c.now, Expires: c.pass.Ends.Add(time.Hour)}
	if _, err := io.ReadFull(a.Random, once.Fingerprint[:]); err != nil {
		return answer{}, err
	}
	once.Answer = func(any) store.Answer { return store.Answer{Fingerprint: once.Fingerprint, Status: http.StatusCreated} }
	if _, err := a.Idempotency.Remember(c.Context(), &once); grapnel.CodeOf(err) == grapnel.CodeMismatch {
		return answer{}, grapnel.Errorf(codeUnauthenticated, "The link was opened before. Ask for a new one.")
	} else if err != nil {
		return answer{}, err
	}
	opens := c.pass.Opens
	session := pass.Pass{Subject: c.pass.Subject, Tenant: c.pass.Tenant, Portal: true, Scopes: opens.Scopes, Endpoints: opens.Endpoints,
		Link: c.pass.Link, Series: c.pass.Series, Maker: c.pass.Maker, Begins: c.now, Ends: c.now.Add(opens.For), Look: opens.Look}
	text, err := a.Passes.Seal(session)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusCreated, wire.PortalSession{Pass: text, ExpiresAt: session.Ends}), nil
}

// revokeLinks gives the tenant's passes another series, or ends those of one subject or link.
func revokeLinks(a *api, c *call) (answer, error) {
	subject, link := c.query.text("subject"), c.query.text("link")
	if subject != "" && link != "" {
		c.query.faults.Add("?link", "cannot be given together with subject")
	}
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	tenant, err := theirTenant(a, c)
	if err != nil {
		return answer{}, err
	}
	if link != "" || subject != "" {
		whose := link
		if subject != "" {
			whose = "portal/" + strings.TrimPrefix(subject, "portal/")
		}
		return a.endSessions(c, tenant, whose)
	}
	series, err := a.newSeries()
	if err != nil {
		return answer{}, err
	}
	with := store.With{Audit: c.entryOf(grapnel.VerbRevoke, tenant, "portal", c.reason())}
	_, err = a.Engine.PutAccess(c.Context(), c.scope, grapnel.SeriesRecord(tenant, series), with)
	return nothing(), err
}

// portal is how the portal of a tenant looks.
func (a *api) portal(tenant string) grapnel.Portal {
	return a.Engine.Access(grapnel.PortalID(tenant)).Looks()
}

func viewPortal(tenant string, p *grapnel.Portal) wire.Portal {
	return wire.Portal{Tenant: tenant, Name: p.Name, Logo: p.Logo, Accent: p.Accent, FrameAncestors: p.FrameAncestors, UpdatedAt: p.UpdatedAt}
}

func getPortal(a *api, c *call) (answer, error) {
	tenant, err := theirTenant(a, c)
	if err != nil {
		return answer{}, err
	}
	p := a.portal(tenant)
	return jsonAnswer(http.StatusOK, viewPortal(tenant, &p)), nil
}

// patchPortal merges a patch into the settings as they are when they are stored.
func patchPortal(a *api, c *call) (answer, error) {
	tenant, err := theirTenant(a, c)
	if err != nil {
		return answer{}, err
	}
	p, err := a.Engine.ChangePortal(c.Context(), c.scope, tenant, func(p *grapnel.Portal) (*grapnel.AuditEntry, error) {
		var f strict.Faults
		settings := wire.PortalSettings{Name: p.Name, Logo: p.Logo, Accent: p.Accent, FrameAncestors: p.FrameAncestors}
		in := patched(c, settings, &f)
		checkLogo(in.Logo, &f)
		*p = grapnel.Portal{Name: in.Name, Logo: in.Logo, Accent: strings.ToLower(in.Accent), FrameAncestors: in.FrameAncestors, UpdatedAt: c.now}
		return c.entryOf(grapnel.VerbChange, tenant, "portal", ""), f.Err()
	})
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, viewPortal(tenant, &p)), nil
}

// magic are the first bytes of the pictures that a logo can be.
var magic = map[string]string{"png": "\x89PNG\r\n\x1a\n", "jpeg": "\xff\xd8\xff", "webp": "RIFF"}

// checkLogo refuses data that are no picture of the type that they claim: browsers would show
// nothing.
func checkLogo(logo string, f *strict.Faults) {
	if logo == "" {
		return
	}
	head, data, _ := strings.Cut(logo, ";base64,")
	raw, err := base64.StdEncoding.DecodeString(data)
	switch kind := magic[strings.TrimPrefix(head, "data:image/")]; {
	case kind == "": // the form has refused it
	case err != nil || !bytes.HasPrefix(raw, []byte(kind)):
		f.Add("/logo", "must be the picture that its type says, in base64")
	case len(raw) > mostLogo:
		f.Add("/logo", "must have at most 12 KiB")
	}
}
