package pass

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"
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
	s := NewSealer(secret("one store"), nil, rand.Reader)
	want := Pass{Subject: "portal/jane", Tenant: "acme", Scopes: []grapnel.Scope{grapnel.ScopeRead}, Portal: true,
		Endpoints: []string{"ep_1"}, Series: "a", Begins: now, Ends: now.Add(time.Hour)}
	text, err := s.Seal(want)
	if err != nil || !Is(text) {
		t.Fatal(text, err)
	}
	other := NewSealer(secret("one store"), nil, rand.Reader) // another node
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
	if _, ok := NewSealer(secret("another store"), nil, rand.Reader).Open(text, now); ok {
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
	s := NewSealer(secret(""), nil, rand.Reader)
	text, err := s.Seal(Pass{Subject: "x", Role: grapnel.RoleViewer, Begins: now, Ends: now.Add(time.Hour)})
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
	sealed, err := s.SealFor("link", Pass{Subject: "x", Role: grapnel.RoleViewer, Begins: now, Ends: now.Add(time.Hour)})
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

// TestForgedPassesAreNone: a thief of the session key can make no pass that the server would not:
// one that begins later than its revocation, lives longer than sessions do, or has scopes that its
// role, key or portal does not have.
func TestForgedPassesAreNone(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := NewSealer(secret(""), nil, rand.Reader)
	hour := func(p Pass) Pass {
		p.Subject = "key_of_nobody"
		if p.Begins.IsZero() {
			p.Begins = now
		}
		if p.Ends.IsZero() {
			p.Ends = p.Begins.Add(time.Hour)
		}
		return p
	}
	admin := []grapnel.Scope{grapnel.ScopeAdmin}
	of := func(scopes ...grapnel.Scope) []grapnel.Scope { return scopes }
	for name, test := range map[string]struct {
		p    Pass
		good bool
	}{
		"admin without a role":    {Pass{Scopes: admin}, false},
		"an unknown role":         {Pass{Role: "root", Scopes: admin}, false},
		"admin of a viewer":       {Pass{Role: grapnel.RoleViewer, Scopes: admin}, false},
		"manage of an operator":   {Pass{Role: grapnel.RoleOperator, Scopes: of(grapnel.ScopeManage)}, false},
		"begins in the future":    {Pass{Role: grapnel.RoleAdmin, Scopes: admin, Begins: now.Add(Skew + 1)}, false},
		"lives too long":          {Pass{Role: grapnel.RoleAdmin, Scopes: admin, Ends: now.Add(grapnel.LongestSession + 1)}, false},
		"began too long ago":      {Pass{Role: grapnel.RoleAdmin, Scopes: admin, Begins: now.AddDate(-1, 0, 0), Ends: now.Add(1)}, false},
		"a portal with admin":     {Pass{Portal: true, Tenant: "acme", Scopes: admin}, false},
		"a portal with publish":   {Pass{Portal: true, Tenant: "acme", Scopes: of(grapnel.ScopePublish)}, false},
		"a portal of all":         {Pass{Portal: true, Scopes: of(grapnel.ScopeRead)}, false},
		"a link with other scope": {Pass{Portal: true, Tenant: "acme", Scopes: of(grapnel.ScopeRead), Opens: &Opening{}}, false},
		"a link that opens admin": {Pass{Portal: true, Tenant: "acme", Scopes: of(grapnel.ScopePortalOpen),
			Opens: &Opening{Scopes: admin}}, false},
		"a key with own scopes":   {Pass{Scopes: admin, Maker: &Maker{ID: "key_of_nobody", Key: "k"}}, false},
		"a key that is another":   {Pass{Maker: &Maker{ID: "key_admin", Key: "k"}}, false},
		"a key of another tenant": {Pass{Tenant: "acme", Maker: &Maker{ID: "key_of_nobody", Key: "k"}}, false},
		"a key without its mark":  {Pass{Maker: &Maker{ID: "key_of_nobody"}}, false},

		"an admin":               {Pass{Role: grapnel.RoleAdmin, Scopes: admin}, true},
		"by a clock ahead":       {Pass{Role: grapnel.RoleAdmin, Scopes: admin, Begins: now.Add(Skew)}, true},
		"the longest session":    {Pass{Role: grapnel.RoleAdmin, Scopes: admin, Ends: now.Add(grapnel.LongestSession)}, true},
		"a viewer with payloads": {Pass{Role: grapnel.RoleViewer, Scopes: of(grapnel.ScopeRead, grapnel.ScopePayloadRead)}, true},
		"a key":                  {Pass{Maker: &Maker{ID: "key_of_nobody", Key: "k"}}, true},
		"a portal":               {Pass{Portal: true, Tenant: "acme", Scopes: of(grapnel.ScopeRead, grapnel.ScopeReplay)}, true},
		"a link": {Pass{Portal: true, Tenant: "acme", Scopes: of(grapnel.ScopePortalOpen), Opens: &Opening{For: time.Hour,
			Scopes: of(grapnel.ScopeRead)}}, true},
	} {
		sealed, err := s.SealFor(use, hour(test.p))
		if err != nil {
			t.Fatal(err)
		}
		if _, opens := s.Open(Prefix+sealed, now); opens != test.good {
			t.Errorf("%s: opens is %v", name, opens)
		}
		if _, err := s.Seal(hour(test.p)); (err == nil) != test.good && !strings.Contains(name, "future") {
			t.Errorf("%s: sealing it: %v", name, err)
		}
	}
}

// TestAPassEndsWithItsMaker: with the era; with the key, or its rights, that made it, even if
// another key has its id; with the sessions of the person who made it; and with its own sign-out.
func TestAPassEndsWithItsMaker(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := grapnel.Key{ID: "key_1", Tenant: "acme", Scopes: []grapnel.Scope{grapnel.ScopeManage, grapnel.ScopeRead}, Hash: [32]byte{1}}
	byKey := &Maker{ID: key.ID, Tenant: "acme", Key: Mark(key.Hash)}
	of := func(p Pass) Pass { p.Tenant, p.Begins = "acme", now; return p }
	session := of(Pass{ID: "s", Subject: key.ID, Maker: byKey})
	portal := of(Pass{ID: "p", Subject: "portal/x", Portal: true, Maker: byKey, Scopes: []grapnel.Scope{grapnel.ScopePayloadRead}})
	link := of(Pass{ID: "l", Subject: "portal/x", Portal: true, Maker: byKey, Scopes: []grapnel.Scope{grapnel.ScopePortalOpen},
		Opens: &Opening{Scopes: []grapnel.Scope{grapnel.ScopeEndpointsWrite}}})
	person := of(Pass{ID: "d", Subject: "portal/y", Portal: true, Maker: &Maker{ID: "person/jane", Tenant: "acme", Begins: now}})
	changed := func(change func(*grapnel.Key)) grapnel.Key { k := key; change(&k); return k }
	ended := func(tenant, whose string, before time.Time) grapnel.AccessRecord {
		return grapnel.EndedRecord(tenant, whose, grapnel.EndedSessions{Before: before})
	}
	keys := func(k ...grapnel.Key) []grapnel.Key { return k }
	for name, test := range map[string]struct {
		records records
		want    string // which of the passes hold
	}{
		"nothing happened":         {records{keys: keys(key)}, "spld"},
		"another era":              {records{keys(key), grapnel.SeriesRecord("", "2")}, ""},
		"the key is revoked":       {records{}, "d"},
		"another key has its id":   {records{keys: keys(changed(func(k *grapnel.Key) { k.Hash[0]++ }))}, "d"},
		"it has another tenant":    {records{keys: keys(changed(func(k *grapnel.Key) { k.Tenant = "" }))}, "d"},
		"it cannot read any more":  {records{keys: keys(changed(func(k *grapnel.Key) { k.Scopes = k.Scopes[:1] }))}, "sld"},
		"it cannot manage":         {records{keys: keys(changed(func(k *grapnel.Key) { k.Scopes = k.Scopes[1:] }))}, "sd"},
		"one session signs out":    {records{keys(key), ended("acme", "s", now)}, "pld"},
		"the person is locked out": {records{keys(key), ended("acme", "person/jane", now)}, "spl"},
		"by an admin of all":       {records{keys(key), ended("", "person/jane", now)}, "spl"},
		"and signs in again":       {records{keys(key), ended("acme", "person/jane", now.Add(-1))}, "spld"},
		"the key's sessions end":   {records{keys(key), ended("acme", "key_1", now)}, "pld"},
		"the tenant was deleted":   {records{keys(key), ended("", grapnel.PassesOfTenant("acme"), now)}, ""},
		"another tenant was":       {records{keys(key), ended("", grapnel.PassesOfTenant("globex"), now)}, "spld"},
	} {
		got := ""
		for _, p := range []Pass{session, portal, link, person} {
			if p.Holds(&test.records) {
				got += p.ID
			}
		}
		if got != test.want {
			t.Errorf("%s: %q hold, want %q", name, got, test.want)
		}
	}
}

// records are some keys and one access record.
type records struct {
	keys   []grapnel.Key
	access grapnel.AccessRecord
}

func (r *records) Key(id string) *grapnel.Key {
	if i := slices.IndexFunc(r.keys, func(k grapnel.Key) bool { return k.ID == id }); i >= 0 {
		return &r.keys[i]
	}
	return nil
}

func (r *records) Access(id string) *grapnel.AccessRecord {
	if r.access.ID == id {
		return &r.access
	}
	return &grapnel.AccessRecord{}
}

func TestOnlyAPortalOfATenantIsLimited(t *testing.T) {
	s := NewSealer(secret(""), nil, rand.Reader)
	for _, p := range []Pass{{Endpoints: []string{"ep_1"}, Tenant: "acme"}, {Endpoints: []string{"ep_1"}, Portal: true}} {
		if _, err := s.Seal(p); err == nil {
			t.Errorf("%+v is sealed", p)
		}
	}
}
