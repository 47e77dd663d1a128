// Package pass makes credentials that are not API keys: short-lived passes, which the server seals
// for a person that it has authenticated in another way, such as a portal link or a sign-in.
//
// A pass is text that only the server can make or read: who (for the audit), the tenant, the
// scopes, and until when, encrypted and authenticated with the session key, which is outside of
// the database. So a pass is valid after a restart and on every node with that key, the server
// stores none of them, and the database or a backup does not suffice to make one.
//
// What holds here:
//
//   - A pass has a prefix of its own, so that scanners for leaked secrets find it.
//   - A text that was sealed for one use opens for no other: the use is bound into the seal.
//   - A pass of a tenant has the series of the tenant's passes. Its reader compares it with the
//     tenant's series of now, so one change of that revokes all passes of the tenant.
//   - A pass has an era. Its reader compares it with the era of now, so one change of that ends all
//     passes of all tenants.
//   - A pass may have a maker: the key or person that it got its rights from. Its reader refuses it
//     once the maker has lost them.
//   - No pass begins in the future or lives longer than grapnel.LongestSession, and its scopes are
//     those of its role, of its key, or of portals.
//   - A pass has a subject, maybe a link, and the time at which it began. Its reader knows which
//     subjects and links have ended, and when (grapnel.EndedSessions): passes that began later are
//     valid.
//
// What it does not promise: that a pass of which nothing is recorded ends before its time.
package pass

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Prefix begins the text of every pass. No API key that the server makes has it.
const Prefix = "grpass_"

// Pass says who may do what until when.
type Pass struct {
	ID      string          `json:"i"`           // random; Seal makes it
	Subject string          `json:"u"`           // who, as the audit has it
	Name    string          `json:"m,omitempty"` // of the person, for pages
	Tenant  string          `json:"t,omitempty"` // empty: all tenants
	Role    grapnel.Role    `json:"r,omitempty"` // from which the scopes are; of a person
	Scopes  []grapnel.Scope `json:"s"`           // with grapnel.ScopePayloadRead, payloads may be seen
	Portal  bool            `json:"p,omitempty"` // only what a portal may do: the routes that are marked for it
	// Endpoints limits the pass to these; nil: all of the tenant. Only with Portal and a tenant.
	Endpoints []string  `json:"n,omitempty"`
	Link      string    `json:"k,omitempty"` // id of the portal link that it is the code of, or that opened it
	Series    string    `json:"v,omitempty"` // of the tenant's passes when this one was made
	Era       string    `json:"a,omitempty"` // of all passes when this one was made; Seal sets it
	Maker     *Maker    `json:"y,omitempty"` // with it the pass ends; nil: a role gives the scopes
	Begins    time.Time `json:"b"`
	Ends      time.Time `json:"e"`
	Opens     *Opening  `json:"o,omitempty"` // the pass is the code of a portal link: what that opens
	Look      Look      `json:"l,omitzero"`  // of the pages that are shown to its holder
}

// Maker is the key or person that a pass has its rights from.
type Maker struct {
	ID     string    `json:"i"`           // of a key, or the subject of a person
	Tenant string    `json:"t,omitempty"` // to which the key or person is bound; empty: all
	Key    string    `json:"k,omitempty"` // Mark of the key's hash; empty: a person
	Begins time.Time `json:"b,omitzero"`  // of the person's session
}

// Mark tells keys apart that had one id after each other.
func Mark(hash [32]byte) string { return base64.RawURLEncoding.EncodeToString(hash[:9]) }

// OfKey says whether the pass is the session of an API key: it does what the key may do now.
func (p *Pass) OfKey() bool { return !p.Portal && p.Maker != nil }

// Opening is the session that the code of a portal link opens.
type Opening struct {
	For       time.Duration   `json:"f"`
	Scopes    []grapnel.Scope `json:"s"`
	Endpoints []string        `json:"n,omitempty"`
	Look      Look            `json:"l,omitzero"`
}

// Look is how pages look, and where they lead back to.
type Look struct {
	Theme  string `json:"t,omitempty"` // auto, light or dark; empty: auto
	Locale string `json:"c,omitempty"` // of dates and times, as BCP 47 writes it; empty: the pages' own
	Return string `json:"r,omitempty"` // an http or https URL
	Start  string `json:"g,omitempty"` // the first page of the portal, below its home; empty: the endpoints
}

// UseFrames is the use of the seal of Frames.
const UseFrames = "frames of a portal"

// Frames are the origins of the pages that may frame the page that opens a portal. That page is
// asked for before anybody is known, so the link says it, and is no right to anything.
type Frames struct {
	Origins []string  `json:"o"`
	Ends    time.Time `json:"e"`
}

// Key is the pass as the API looks at callers.
func (p *Pass) Key() grapnel.Key {
	return grapnel.Key{ID: p.Subject, Name: p.Name, Tenant: p.Tenant, Scopes: p.Scopes}
}

// ErrInvalid is the error for text that was not sealed here, or for another use.
var ErrInvalid = errors.New("pass: not sealed here")

// Sealer makes and reads passes.
type Sealer struct {
	aead   cipher.AEAD
	random io.Reader
	era    func() string // nil: there is one era
}

// NewSealer takes the function that derives secrets from the session key by their use, and one that
// returns the era of now; nil: there is one era.
func NewSealer(secret func(use string) [32]byte, era func() string, random io.Reader) *Sealer {
	s := WithKey(secret("passes"), random)
	s.era = era
	return s
}

// WithKey makes a Sealer for other things than passes, with a key of their own.
func WithKey(key [32]byte, random io.Reader) *Sealer {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("pass: no cipher: " + err.Error()) // the key has one of the lengths that AES takes
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("pass: no cipher: " + err.Error()) // AES has the block size of GCM
	}
	return &Sealer{aead: aead, random: random}
}

// use of the seals of passes themselves.
const use = "pass"

// Seal makes the text of a pass.
func (s *Sealer) Seal(p Pass) (string, error) {
	if len(p.Endpoints) > 0 && (!p.Portal || p.Tenant == "") {
		return "", errors.New("pass: only a pass for the portal of one tenant can be limited to endpoints")
	}
	if !p.proper() {
		return "", errors.New("pass: life too long, or scopes without their role, key or portal")
	}
	if s.era != nil {
		p.Era = s.era()
	}
	var err error
	if p.ID, err = s.NewID(); err != nil {
		return "", err
	}
	text, err := s.SealFor(use, p)
	return Prefix + text, err
}

// Is says whether a credential claims to be a pass.
func Is(text string) bool { return strings.HasPrefix(text, Prefix) }

// Skew is how much the clock of the node that made a pass may be ahead.
const Skew = time.Minute

// portalScopes are the scopes of sessions of portals.
var portalScopes = []grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeReplay, grapnel.ScopeEndpointsWrite, grapnel.ScopeSecretsReveal,
	grapnel.ScopePayloadRead, grapnel.ScopeAlertsRead}

// proper says whether the server makes passes like this one. What it does not make it does not
// take, even from a caller who has the session key.
func (p *Pass) proper() bool {
	within := func(all []grapnel.Scope, s []grapnel.Scope) bool {
		return !slices.ContainsFunc(s, func(s grapnel.Scope) bool { return !slices.Contains(all, s) })
	}
	if life := p.Ends.Sub(p.Begins); life <= 0 || life > grapnel.LongestSession {
		return false
	}
	switch {
	case p.Opens != nil:
		return p.Portal && p.Tenant != "" && p.Role == "" && slices.Equal(p.Scopes, []grapnel.Scope{grapnel.ScopePortalOpen}) &&
			within(portalScopes, p.Opens.Scopes) && p.Opens.For <= grapnel.LongestSession
	case p.Portal:
		return p.Tenant != "" && p.Role == "" && within(portalScopes, p.Scopes)
	case p.OfKey():
		return p.Role == "" && p.Maker.ID == p.Subject && p.Maker.Key != "" && p.Maker.Tenant == p.Tenant && len(p.Scopes) == 0
	}
	rights, known := grapnel.RightsOf(p.Role)
	return known && within(append(rights.Scopes, grapnel.ScopePayloadRead), p.Scopes)
}

// Open reads a pass; false: it was not sealed here, is none that the server makes, has ended or
// begins later.
func (s *Sealer) Open(text string, now time.Time) (*Pass, bool) {
	sealed, is := strings.CutPrefix(text, Prefix)
	p := new(Pass)
	if !is || s.OpenFor(use, sealed, p) != nil || !now.Before(p.Ends) || p.Begins.After(now.Add(Skew)) || !p.proper() {
		return nil, false
	}
	return p, true
}

// NewID makes a random id of 22 characters.
func (s *Sealer) NewID() (string, error) {
	var b [16]byte
	_, err := io.ReadFull(s.random, b[:])
	return base64.RawURLEncoding.EncodeToString(b[:]), err
}

// SealFor seals anything for a use; only OpenFor with the same use opens it.
func (s *Sealer) SealFor(use string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return s.SealBytes(use, plain)
}

// SealBytes is SealFor of bytes as they are.
func (s *Sealer) SealBytes(use string, plain []byte) (string, error) {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	if _, err := io.ReadFull(s.random, nonce); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, []byte(use))), nil
}

// OpenFor reads what SealFor has sealed for the use; else ErrInvalid.
func (s *Sealer) OpenFor(use, text string, v any) error {
	plain, err := s.OpenBytes(use, text)
	if err != nil || json.Unmarshal(plain, v) != nil {
		return ErrInvalid
	}
	return nil
}

// OpenBytes returns what SealBytes has sealed for the use; else ErrInvalid.
func (s *Sealer) OpenBytes(use, text string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	n := s.aead.NonceSize()
	if err != nil || len(raw) < n {
		return nil, ErrInvalid
	}
	plain, err := s.aead.Open(nil, raw[:n], raw[n:], []byte(use))
	if err != nil {
		return nil, ErrInvalid
	}
	return plain, nil
}
