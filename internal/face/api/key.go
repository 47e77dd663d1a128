package api

import (
	"crypto/sha256"
	"io"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func keyRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/keys", scope: grapnel.ScopeAdmin, handle: createKey,
			name: "create-key", tag: "Keys", summary: "Create an API key",
			about: "The answer shows the key; the server stores only its hash. A key bound to a tenant creates keys of that tenant only.",
			body:  jsonBody, takes: wire.NewKey{}, gives: map[int]any{201: wire.Key{}}},
		{method: "GET", path: "/v1/keys", scope: grapnel.ScopeAdmin, handle: listKeys,
			name: "list-keys", tag: "Keys", summary: "List API keys",
			query: pageOf(tenantParam, searchParam), gives: map[int]any{200: list[wire.Key]{}}},
		{method: "GET", path: "/v1/keys/{id}", scope: grapnel.ScopeAdmin, handle: getKey,
			name: "get-key", tag: "Keys", summary: "Get an API key", gives: map[int]any{200: wire.Key{}}},
		{method: "PATCH", path: "/v1/keys/{id}", scope: grapnel.ScopeAdmin, handle: patchKey,
			name: "update-key", tag: "Keys", summary: "Change an API key's name or scopes",
			body: patchBody, takes: wire.NewKey{}, gives: map[int]any{200: wire.Key{}}},
		{method: "DELETE", path: "/v1/keys/{id}", scope: grapnel.ScopeAdmin, handle: deleteKey,
			name: "delete-key", tag: "Keys", summary: "Revoke an API key",
			about: "Requests with it are refused from now on. A key cannot revoke itself.", gives: map[int]any{204: nil}},
		{method: "GET", path: "/v1/whoami", scope: anyScope, portal: anyScope, handle: whoAmI,
			name: "whoami", tag: "Keys", summary: "Get the API key of this request",
			about: "Any valid key may ask: its name, its scopes and its tenant. " +
				"A person who has signed in has a role instead of a key.", gives: map[int]any{200: wire.Key{}}},
	}
}

var keyFields = pairOf[grapnel.Key, wire.NewKey]("Tenant", "ExpiresAt")

func viewKey(k *grapnel.Key) wire.Key {
	return wire.Key{ID: k.ID, Name: k.Name, Scopes: k.Scopes, Tenant: k.Tenant, CreatedAt: k.CreatedAt, ExpiresAt: timeOf(k.ExpiresAt),
		From: k.From}
}

// viewUsed shows a key with its last use.
func (a *api) viewUsed(k *grapnel.Key) wire.Key {
	v := viewKey(k)
	if a.Used != nil {
		v.LastUsed = timeOf(a.Used.Last(k.ID))
	}
	return v
}

// setEnd sets the end of a key, which must be ahead.
func setEnd(k *grapnel.Key, text string, now time.Time, f *strict.Faults) {
	at, err := endOf(text, now)
	if err != nil {
		return // the form has named the fault
	}
	if !at.IsZero() && !at.After(now) && !at.Equal(k.ExpiresAt) {
		f.Add("/expires_at", "must be in the future")
	}
	k.ExpiresAt = at
}

// createKey makes a key of 256 random bits, which is shown in this answer only.
func createKey(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewKey](c.body, &f)
	k := grapnel.Key{ID: a.newID(grapnel.KeyPrefix, c.now), CreatedAt: c.now}
	keyFields.set(&in, &k)
	setEnd(&k, in.ExpiresAt, c.now, &f)
	if in.Tenant != "" || c.key.Tenant != "" {
		k.Tenant = c.tenant(optional{in.Tenant, in.Tenant != ""}, "/tenant", &f)
		if k.Tenant == grapnel.OperatorTenant {
			f.Add("/tenant", "is the operator's own, which keys without a tenant see")
		}
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	if k.Tenant != "" {
		if err := roomFor(k.Tenant, "keys", a.Bounds.Keys, a.Engine.Keys(store.Of(k.Tenant))); err != nil {
			return answer{}, err
		}
	}
	var secret [32]byte
	if _, err := io.ReadFull(a.Random, secret[:]); err != nil {
		return answer{}, err
	}
	text := grapnel.KeyText(a.Name, secret)
	k.Hash = sha256.Sum256([]byte(text))
	return put(c, a.Engine.PutKey, k, c.keyEntry(grapnel.VerbCreate, &k), func(store.Put) answer {
		v := viewKey(&k)
		v.Secret = text
		return jsonAnswer(http.StatusCreated, v)
	})
}

// readUses learns what other nodes know of the use of keys. If that fails, the answer shows what
// this node knows.
func (a *api) readUses(c *call) {
	if a.Used != nil {
		_ = a.Used.Read(c.Context())
	}
}

func listKeys(a *api, c *call) (answer, error) {
	a.readUses(c)
	of := func(k *grapnel.Key) entry { return entry{id: k.ID, tenant: k.Tenant, name: k.Name} }
	return listed(c, a.Engine.Keys(c.scope), of, each(a.viewUsed))
}

// namedKey is the one that the path names.
func namedKey(a *api, c *call) (grapnel.Key, error) {
	for _, k := range a.Engine.Keys(c.scope) {
		if k.ID == c.PathValue("id") {
			return k, nil
		}
	}
	return grapnel.Key{}, store.ErrNotFound("key")
}

func getKey(a *api, c *call) (answer, error) {
	a.readUses(c)
	k, err := namedKey(a, c)
	return shown(k, err, a.viewUsed)
}

// whoAmI shows the key of the request to its holder.
func whoAmI(_ *api, c *call) (answer, error) {
	v := viewKey(&c.key)
	v.Payloads = new(c.mayReadPayloads())
	if c.pass != nil {
		v.Role = c.pass.Role
		v.CreatedAt, v.ExpiresAt, v.Endpoints = c.pass.Begins, &c.pass.Ends, c.pass.Endpoints
	}
	return jsonAnswer(http.StatusOK, v), nil
}

// patchKey merges a patch into the key's settings as they are when it is stored.
func patchKey(a *api, c *call) (answer, error) {
	k, err := a.Engine.ChangeKey(c.Context(), c.scope, c.PathValue("id"), func(k *grapnel.Key) (*grapnel.AuditEntry, error) {
		var f strict.Faults
		var settings wire.NewKey
		keyFields.show(k, &settings)
		if settings.ExpiresAt = neverEnds; !k.ExpiresAt.IsZero() {
			settings.ExpiresAt = k.ExpiresAt.Format(time.RFC3339Nano)
		}
		settings = patched(c, settings, &f)
		keyFields.set(&settings, k)
		setEnd(k, settings.ExpiresAt, c.now, &f)
		if err := f.Err(); err != nil {
			return nil, err
		}
		if k.ID == c.key.ID && !k.May(grapnel.ScopeAdmin) {
			return nil, grapnel.Errorf(grapnel.CodeConflict, "A key cannot take the scope admin from itself.")
		}
		return c.keyEntry(grapnel.VerbChange, k), nil
	})
	return shown(k, err, viewKey)
}

// deleteKey revokes a key. Not the one that asks: the last way in must not be lost by a slip.
func deleteKey(a *api, c *call) (answer, error) {
	if c.PathValue("id") == c.key.ID {
		return answer{}, grapnel.Errorf(grapnel.CodeConflict, "A key cannot revoke itself. Create another admin key and use that.")
	}
	k, err := namedKey(a, c)
	if err == nil {
		err = a.Engine.DeleteKey(c.Context(), c.scope, k.ID, store.With{Audit: c.keyEntry(grapnel.VerbDelete, &k)})
	}
	return nothing(), err
}
