package pass

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

func secret(of string) func(string) [32]byte {
	return func(use string) [32]byte { return sha256.Sum256([]byte(of + use)) }
}

func TestAPassSaysWhatWasSealed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := NewSealer(secret("one store"), rand.Reader)
	want := Pass{Subject: "portal/jane", Tenant: "acme", Scopes: []grapnel.Scope{grapnel.ScopeRead}, Portal: true,
		Endpoints: []string{"ep_1"}, Series: "a", Begins: now, Ends: now.Add(time.Hour)}
	text, err := s.Seal(want)
	if err != nil || !Is(text) {
		t.Fatal(text, err)
	}
	other := NewSealer(secret("one store"), rand.Reader) // another node
	got, ok := other.Open(text, now)
	if !ok || got.ID == "" {
		t.Fatalf("not opened: %+v", got)
	}
	want.ID = got.ID
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(text, "acme") {
		t.Error("the text shows what it says")
	}
	if _, ok := NewSealer(secret("another store"), rand.Reader).Open(text, now); ok {
		t.Error("another store's secret opens it")
	}
	if _, ok := s.Open(text, want.Ends); ok {
		t.Error("it opens at its end")
	}
	if again, _ := s.Seal(want); again == text {
		t.Error("two passes have one text")
	}
}

// Every single change of the text, and every use but its own, makes it worthless.
func TestATamperedPassIsNone(t *testing.T) {
	now := time.Unix(1, 0)
	s := NewSealer(secret(""), rand.Reader)
	text, err := s.Seal(Pass{Subject: "x", Ends: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		for _, c := range []byte{'A', 'b', '_', '='} {
			if c != text[i] {
				if _, ok := s.Open(text[:i]+string(c)+text[i+1:], now); ok {
					t.Fatalf("opens with %q at %d", c, i)
				}
			}
		}
		if _, ok := s.Open(text[:i], now); ok {
			t.Fatalf("opens when it is cut at %d", i)
		}
	}
	sealed, err := s.SealFor("link", Pass{Subject: "x", Ends: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Open(Prefix+sealed, now); ok {
		t.Error("a text sealed for another use opens as a pass")
	}
	if err := s.OpenFor("pass", sealed, new(Pass)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestOnlyAPortalOfATenantIsLimited(t *testing.T) {
	s := NewSealer(secret(""), rand.Reader)
	for _, p := range []Pass{{Endpoints: []string{"ep_1"}, Tenant: "acme"}, {Endpoints: []string{"ep_1"}, Portal: true}} {
		if _, err := s.Seal(p); err == nil {
			t.Errorf("%+v is sealed", p)
		}
	}
}
