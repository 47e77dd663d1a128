package api

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store"
)

// admit authenticates a request when it begins. After Wrong wrong keys from one address each
// further refusal is delayed. While WrongLate refusals are being delayed, a key that was not valid
// from this address before is refused without looking it up. So an address can try few keys per
// second, and a valid key is slowed only if it is new at an address that tries wrong ones over many
// connections.
func (a *api) admit(c *call) error {
	if c.route.open != nil && c.route.open(c.Request) {
		return nil
	}
	token, _ := Bearer(c.Header)
	c.hash = sha256.Sum256([]byte(token))
	is := sighting{c.hash, address(c.Request)}
	if a.Gate.crowded(is) {
		err := &grapnel.Error{Code: grapnel.CodeRateLimited, RetryAfter: a.Bounds.WrongDelay,
			Detail: "Too many wrong API keys come from this address."}
		a.noteRefusal(c, is.from, err)
		return err
	}
	err := a.authenticate(c)
	if err == nil {
		a.Gate.saw(is)
		return nil
	}
	a.noteRefusal(c, is.from, err)
	if token == "" || grapnel.CodeOf(err) != codeUnauthenticated {
		return err
	}
	if from := a.Gate.tooMany(is.from, c.now); from != nil {
		<-time.After(a.Bounds.WrongDelay) // even if the caller hangs up: it could try another key at once
		a.Gate.answers(from)
	}
	return err
}

// noteRefusal counts and logs a request that was refused because of its key.
func (a *api) noteRefusal(c *call, from netip.Addr, err error) {
	requests := a.Gate.refused(grapnel.CodeOf(err), from, c.now)
	if requests > 0 {
		a.Log.LogAttrs(c.Context(), slog.LevelWarn, "API keys refused", slog.String("address", from.String()), slog.Int("requests", requests),
			slog.String("route", c.route.path), slog.String("request_id", c.id), slog.String("reason", err.Error()))
	}
}

// authenticate finds whose request it is and whether its key may do what the route is for. admit has
// seen the request before. Keys are found by their hash, so how long the search takes tells nothing
// about a key.
func (a *api) authenticate(c *call) error {
	if c.route.open != nil && c.route.open(c.Request) {
		return nil
	}
	token, ok := Bearer(c.Header)
	if !ok {
		return grapnel.Errorf(codeUnauthenticated, "The request has no API key. Send it as Authorization: Bearer grp_…")
	}
	if pass.Is(token) {
		return a.authenticatePass(c, token)
	}
	key, ok, err := a.Engine.Caller(c.hash)
	if err != nil {
		return err
	}
	if !ok {
		return grapnel.Errorf(codeUnauthenticated, "Unknown API key.")
	}
	return a.authenticated(c, key)
}

// authenticated makes a key the caller's, if it may do what the route is for.
func (a *api) authenticated(c *call, key grapnel.Key) error {
	if err := a.usable(c, &key); err != nil {
		return err
	}
	if err := a.lives(key.Tenant); err != nil {
		return err
	}
	if !c.route.allows(&key) {
		return grapnel.Errorf(codeForbidden, "The API key lacks the scope %q.", string(c.route.scope))
	}
	c.key, c.scope, c.until, c.bound = key, scopeOf(key.Tenant), key.ExpiresAt, key.Tenant
	return c.narrow()
}

// tenantHeader is the header by which a caller that is bound to no tenant has one request answered
// as if it were bound to the tenant.
const tenantHeader = "Grapnel-Tenant"

// narrow does that. A caller that is bound to another tenant is refused: an answer about its own
// would be taken for one about the other.
func (c *call) narrow() error {
	values := c.Header[tenantHeader]
	if len(values) == 0 || len(values) == 1 && values[0] == c.bound && c.bound != "" {
		return nil
	}
	if c.bound != "" {
		return grapnel.Errorf(codeForbidden, "The header %s names another tenant than the one that the caller is bound to.", tenantHeader)
	}
	if len(values) > 1 || !grapnel.BindsTenant(values[0]) {
		return grapnel.Invalid(tenantHeader, "must be the name of one tenant")
	}
	c.key.Tenant, c.scope = values[0], store.Of(values[0])
	return nil
}

// lives refuses a caller whose tenant is being deleted.
func (a *api) lives(tenant string) error {
	if a.Engine.Accepts(tenant) == nil {
		return nil
	}
	return grapnel.Errorf(codeForbidden, "Tenant %s is being deleted; its keys and passes are not valid any more.", tenant)
}

// usable refuses a key that has ended, or that may not be used from the caller's address. Only its
// holder has the key, so only its holder reads why. A use is noted.
func (a *api) usable(c *call, key *grapnel.Key) error {
	now := a.Clock()
	if key.Ended(now) {
		return grapnel.Errorf(codeUnauthenticated, "The API key %s ended at %s.", key.ID, key.ExpiresAt.UTC().Format(time.RFC3339))
	}
	if len(key.From) > 0 { // for other keys the caller's address is not found out: each request would pay for it, twice
		if from := c.links.client(c.Request); !key.Takes(from) {
			return &grapnel.Error{Code: codeForbidden, Detail: "The API key may not be used from this address.",
				Fields: []grapnel.Field{{Pointer: "/from", Detail: "does not contain " + from.String()}}}
		}
	}
	if a.Used != nil {
		a.Used.Saw(key.ID, now)
	}
	return nil
}

// scopeOf is the scope of a caller that is bound to a tenant, or to none.
func scopeOf(tenant string) store.Scope {
	if tenant == "" {
		return store.Everyone()
	}
	return store.Of(tenant)
}

var errPassEnded = grapnel.Errorf(codeUnauthenticated, "The pass has ended or was revoked.")

// authenticatePass does the same for a pass, which says all of that itself. The session of a key
// is as good as the key.
func (a *api) authenticatePass(c *call, token string) error {
	if err := a.Engine.Current(); err != nil {
		return err // this node does not know which passes are revoked
	}
	p, valid := a.Passes.Open(token, a.Clock())
	if !valid || !a.Engine.Holds(p) {
		return errPassEnded
	}
	c.session = p
	if p.OfKey() {
		key, known := a.Engine.MakerKey(p)
		if !known {
			return errPassEnded
		}
		return a.authenticated(c, key)
	}
	if m := p.Maker; m != nil && m.Key != "" { // it ends with the key that made its link
		maker, known := a.Engine.MakerKey(p)
		if !known || maker.Ended(a.Clock()) {
			return errPassEnded
		}
		c.until = maker.ExpiresAt
	}
	if err := a.lives(p.Tenant); err != nil {
		return err
	}
	key := p.Key()
	if !c.route.admits(p, &key) {
		return grapnel.Errorf(codeForbidden, "%s", c.route.closed(p))
	}
	c.pass, c.key, c.scope, c.bound = p, key, scopeOf(p.Tenant), p.Tenant
	if p.Portal {
		c.scope = c.scope.WithoutAlerts()
	}
	if p.Endpoints != nil {
		c.scope = c.scope.Only(p.Endpoints)
	}
	return c.narrow()
}

// admits says whether a pass may use the route.
func (rt *route) admits(p *pass.Pass, k *grapnel.Key) bool {
	if !p.Portal {
		return rt.allows(k) || rt.lever && k.May(grapnel.ScopeOperate) || rt.portal == grapnel.ScopeEndpointsWrite && k.May(rt.portal)
	}
	return rt.portal == anyScope || rt.portal != "" && k.May(rt.portal) && !(rt.whole && p.Endpoints != nil)
}

// closed says why a pass may not use the route.
func (rt *route) closed(p *pass.Pass) string {
	switch {
	case !p.Portal:
		return `The pass lacks the scope "` + string(rt.scope) + `".`
	case rt.portal == "":
		return "A portal cannot do this."
	case rt.whole && p.Endpoints != nil:
		return "This portal is limited to some endpoints and cannot do this."
	}
	return `The portal lacks the scope "` + string(rt.portal) + `".`
}

// mayReveal says whether the caller may see a secret that the request has made.
func (c *call) mayReveal() bool { return c.pass == nil || c.key.May(grapnel.ScopeSecretsReveal) }

// mayReadPayloads says whether the caller may see data of events, and bodies and header values of
// requests.
func (c *call) mayReadPayloads() bool { return c.pass == nil || c.key.May(grapnel.ScopePayloadRead) }

// errHidden refuses a route that makes no sense without payloads, or a search that tells of them.
var errHidden = grapnel.Errorf(codeForbidden, "The pass lacks the scope %q.", string(grapnel.ScopePayloadRead))

// caller names who asks, apart from all others: repetitions of a request are known by it.
func (c *call) caller() string {
	if c.pass != nil {
		return store.PassKeys(c.pass.Tenant) + "/" + c.pass.ID
	}
	return c.key.ID
}

// whileAllowed ends a call that reads when its key is revoked, or loses the scope or the tenant
// that the call needs. A call that changes something is not ended half-way: its answer would not
// say whether the change was made.
func (a *api) whileAllowed(c *call) (release func()) {
	release = func() {}
	if c.key.ID == "" || c.Method != http.MethodGet {
		return release
	}
	within := func(ctx context.Context, end context.CancelFunc) {
		before := release
		c.Request, release = c.WithContext(ctx), func() { end(); before() }
	}
	if !c.until.IsZero() {
		within(context.WithTimeout(c.Context(), c.until.Sub(a.Clock())))
	}
	if c.session != nil {
		within(a.Engine.WhilePass(c.Context(), c.session))
		within(context.WithTimeout(c.Context(), c.session.Ends.Sub(a.Clock())))
	}
	if c.pass == nil {
		tenant, route := c.bound, c.route
		within(a.Engine.WhileKey(c.Context(), c.key.Hash, func(k *grapnel.Key) bool { return k.Tenant == tenant && route.allows(k) }))
	}
	return release
}

// Bearer is the token of the one Authorization header. Two of them are none: a proxy and the server
// could each believe another.
func Bearer(h http.Header) (string, bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	return token, ok && token != "" && strings.EqualFold(scheme, "Bearer")
}

// anyScope is the scope of routes that every valid key may use.
const anyScope grapnel.Scope = "any"

// allows says whether a key has the route's scope.
func (rt *route) allows(k *grapnel.Key) bool { return rt.scope == anyScope || k.May(rt.scope) }

// anybody opens a route to requests without a key.
func anybody(*http.Request) bool { return true }
