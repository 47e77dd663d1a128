package grapnel

import (
	"encoding/base64"
	"net/netip"
	"slices"
	"time"
)

// Key is an API key as the server keeps it: the hash of its secret, never the secret.
type Key struct {
	ID        string
	Name      string
	Tenant    string // empty: every tenant
	Scopes    []Scope
	Hash      [32]byte // SHA-256 of the whole key text, which carries 256 random bits
	CreatedAt time.Time
	ExpiresAt time.Time `json:",omitzero"`  // zero: never
	From      []string  `json:",omitempty"` // ranges of the addresses that may use it; empty: all
}

// Ended says whether the key is no longer valid at a time.
func (k *Key) Ended(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// Takes says whether the key may be used from an address.
func (k *Key) Takes(from netip.Addr) bool {
	return len(k.From) == 0 || slices.ContainsFunc(k.From, func(text string) bool {
		p, err := Range(text)
		return err == nil && p.Contains(from.Unmap().WithZone(""))
	})
}

// Range reads a range of addresses: 10.0.0.0/8, or one address.
func Range(text string) (netip.Prefix, error) {
	if at, err := netip.ParseAddr(text); err == nil {
		return at.Unmap().Prefix(at.Unmap().BitLen())
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// AdminKeyID is the id of the admin key of a server's first start, and of those that replace it.
const AdminKeyID = "key_admin"

// Scope is a right of a key.
type Scope string

// The scopes. Admin may do everything.
const (
	ScopePublish Scope = "publish"
	ScopeRead    Scope = "read"
	ScopeManage  Scope = "manage"
	ScopeReplay  Scope = "replay"
	ScopeConsume Scope = "consume"
	ScopeAdmin   Scope = "admin"
)

// The scopes that only passes have. They are parts of the others.
const (
	ScopeEndpointsWrite Scope = "endpoints:write" // of manage: endpoints and nothing else
	ScopeSecretsReveal  Scope = "secrets:reveal"  // the secrets that creating an endpoint or a rotation makes
	ScopeOperate        Scope = "operate"         // of manage: pause, resume, probe and test
	ScopePayloadRead    Scope = "payload:read"    // data of events, and bodies and headers of requests
	ScopeAlertsRead     Scope = "alerts:read"     // in a portal: alerts about the endpoints that it shows
)

// Gives says whether an API key with some scopes may give a right to a portal link.
func Gives(have []Scope, s Scope) bool {
	switch s {
	case ScopeEndpointsWrite, ScopeSecretsReveal:
		return May(have, ScopeManage)
	case ScopePayloadRead, ScopeAlertsRead:
		return May(have, ScopeRead)
	}
	return May(have, s)
}

// ScopePortalOpen is the one scope of the code of a portal link.
const ScopePortalOpen Scope = "portal:open"

// Scopes lists the scopes that API keys can have.
func Scopes() []Scope {
	return []Scope{ScopePublish, ScopeRead, ScopeManage, ScopeReplay, ScopeConsume, ScopeAdmin}
}

// May says whether the key has a scope.
func (k *Key) May(s Scope) bool { return May(k.Scopes, s) }

// May says whether a caller with some scopes has one: itself, or one that includes it.
func May(have []Scope, s Scope) bool {
	return slices.Contains(have, s) || slices.Contains(have, ScopeAdmin) || s == ScopeOperate && slices.Contains(have, ScopeManage)
}

// MaxNameLength is the length of the longest name of an installation.
const MaxNameLength = 16

// ValidName says whether a text can name an installation: 1 to MaxNameLength of a-z and 0-9.
func ValidName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= MaxNameLength
}

// Named is a prefix of keys and ids with the name of the installation that makes them, so that a
// proxy in front of several finds theirs; without a name the prefix alone.
func Named(prefix, name string) string {
	if name == "" {
		return prefix
	}
	return prefix + "_" + name
}

// KeyText is the text of an API key of an installation.
func KeyText(name string, secret [32]byte) string {
	return Named("grp", name) + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
}
