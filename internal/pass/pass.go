// Package pass makes credentials that are not API keys: short-lived passes, which the server seals
// for a person that it has authenticated in another way, such as a portal link or a sign-in.
//
// A pass is text that only the server can make or read: who (for the audit), the tenant, the
// scopes, and until when, encrypted and authenticated with a secret that all nodes on one store
// derive. So a pass is valid on every node and after a restart, and the server stores none of them.
//
// What holds here:
//
//   - A pass has a prefix of its own, so that scanners for leaked secrets find it.
//   - A text that was sealed for one use opens for no other: the use is bound into the seal.
//   - A pass of a tenant has the series of the tenant's passes. Its reader compares it with the
//     tenant's series of now, so one change of that revokes all passes of the tenant.
//   - A pass has a subject, maybe a link, and the time at which it began. Its reader knows which
//     subjects and links have ended, and when (grapnel.EndedSessions): passes that began later are
//     valid.
//
// What it does not promise: that signing out ends a pass. Passes end soon.
package pass

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
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
	Begins    time.Time `json:"b"`
	Ends      time.Time `json:"e"`
	Opens     *Opening  `json:"o,omitempty"` // the pass is the code of a portal link: what that opens
	Look      Look      `json:"l,omitzero"`  // of the pages that are shown to its holder
}

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
}

// NewSealer takes the function that derives secrets by their use, such as grapnel.IDs.Subkey.
func NewSealer(secret func(use string) [32]byte, random io.Reader) *Sealer {
	return WithKey(secret("passes"), random)
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
	var err error
	if p.ID, err = s.NewID(); err != nil {
		return "", err
	}
	text, err := s.SealFor(use, p)
	return Prefix + text, err
}

// Is says whether a credential claims to be a pass.
func Is(text string) bool { return strings.HasPrefix(text, Prefix) }

// Open reads a pass; false: it was not sealed here, or has ended.
func (s *Sealer) Open(text string, now time.Time) (*Pass, bool) {
	sealed, is := strings.CutPrefix(text, Prefix)
	p := new(Pass)
	if !is || s.OpenFor(use, sealed, p) != nil || !now.Before(p.Ends) {
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
