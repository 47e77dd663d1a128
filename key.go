package grapnel

import (
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
}

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

// Scopes lists all scopes.
func Scopes() []Scope {
	return []Scope{ScopePublish, ScopeRead, ScopeManage, ScopeReplay, ScopeConsume, ScopeAdmin}
}

// May says whether the key has a scope.
func (k *Key) May(s Scope) bool {
	return slices.Contains(k.Scopes, s) || slices.Contains(k.Scopes, ScopeAdmin)
}
