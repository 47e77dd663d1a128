package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

const acmeDomain = "hooks.example.test"

func cacheOf(db store.Documents, key byte) *sharedCache {
	return &sharedCache{func() store.Documents { return db }, func() *pass.Sealer { return pass.WithKey([32]byte{key}, rand.Reader) }}
}

// issuedOn is what a node on a database of several has.
func issuedOn(t *testing.T, db store.Documents, directory string, leads func() bool) *issued {
	t.Helper()
	c := cacheOf(db, 1)
	i := newIssued(TLS{Domains: []string{acmeDomain}, Directory: directory}, Place{url: "postgres://"}, c.docs, c.sealer, leads,
		bounds.Fill(CertificateBounds{}), slog.New(slog.DiscardHandler))
	t.Cleanup(i.end)
	return i
}

// TestNodesShareCertificates: what one node has put, another one with its session key gets; it is
// sealed in the database, and absent for a node with another key and under another name.
func TestNodesShareCertificates(t *testing.T) {
	db := memory.New()
	one, other, stranger := cacheOf(db, 1), cacheOf(db, 1), cacheOf(db, 2)
	for _, text := range []string{"the key of before", "the key of now"} {
		if err := one.Put(t.Context(), "a.example.com+rsa", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := other.Get(t.Context(), "a.example.com+rsa"); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	doc, err := db.Document(t.Context(), store.Everyone(), "", cacheKind, "a.example.com+rsa")
	if err != nil || bytes.Contains(doc.Body, []byte("key of")) {
		t.Errorf("in the database: %q, %v", doc.Body, err)
	}
	if _, err := stranger.Get(t.Context(), "a.example.com+rsa"); !errors.Is(err, autocert.ErrCacheMiss) {
		t.Error(err)
	}
	doc.ID, doc.Revision = "b.example.com", 0
	if _, err := db.PutDocuments(t.Context(), store.Everyone(), []store.DocumentWrite{{Document: doc}}, store.With{}); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Get(t.Context(), "b.example.com"); !errors.Is(err, autocert.ErrCacheMiss) {
		t.Errorf("under another name: %v", err)
	}
	if err := errors.Join(one.Delete(t.Context(), "a.example.com+rsa"), one.Delete(t.Context(), "none")); err != nil {
		t.Error(err)
	}
	if _, err := other.Get(t.Context(), "a.example.com+rsa"); !errors.Is(err, autocert.ErrCacheMiss) {
		t.Errorf("after its deletion: %v", err)
	}
}

// TestOneCallerClaimsAnOrder: of callers at once one has the claim, until it releases it or the
// claim runs out. A holder whose claim has run out does not release that of the next one. A server
// that ends releases its own.
func TestOneCallerClaimsAnOrder(t *testing.T) {
	db := memory.New()
	claim := func(life time.Duration) (func(), error) { return cacheOf(db, 1).claim(t.Context(), acmeDomain, life) }
	var have atomic.Pointer[func()]
	var holders atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			release, err := claim(time.Hour)
			if err == nil {
				holders.Add(1)
				have.Store(&release)
			} else if !errors.Is(err, errAnotherAsks) {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if holders.Load() != 1 {
		t.Fatalf("%d of 8 callers have the claim", holders.Load())
	}
	(*have.Load())()
	first, err := claim(time.Hour)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	second, err := claim(0)
	if err != nil {
		t.Fatalf("after its time: %v", err)
	}
	first()
	if _, err := claim(time.Hour); !errors.Is(err, errAnotherAsks) {
		t.Errorf("after a late release: %v", err)
	}
	second()
	ending, end := context.WithCancel(t.Context())
	third, err := cacheOf(db, 1).claim(ending, acmeDomain, time.Hour)
	end()
	third()
	if fourth, again := claim(time.Hour); err != nil || again != nil {
		t.Errorf("after the end of a server: %v, %v", err, again)
	} else {
		fourth()
	}

	// a node that does not lead orders nothing, however the name is written
	follower := issuedOn(t, db, "https://127.0.0.1:1/none", func() bool { return false })
	for _, name := range []string{acmeDomain, strings.ToUpper(acmeDomain), ""} {
		if _, err := follower.get(&tls.ClientHelloInfo{ServerName: name}); !errors.Is(err, errAnotherAsks) {
			t.Errorf("a follower asked for %q: %v", name, err)
		}
	}

	// an order that fails releases the claim
	i := issuedOn(t, db, "https://127.0.0.1:1/none", func() bool { return true })
	for range 2 {
		if _, err := i.get(&tls.ClientHelloInfo{ServerName: acmeDomain}); err == nil || errors.Is(err, errAnotherAsks) {
			t.Errorf("an order without an authority: %v", err)
		}
	}
}
