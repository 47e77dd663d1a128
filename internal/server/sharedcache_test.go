package server

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"golang.org/x/crypto/acme/autocert"

	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestNodesShareCertificates: what one node has put, another one with its session key gets; it is
// sealed in the database, and absent for a node with another key and under another name.
func TestNodesShareCertificates(t *testing.T) {
	db := memory.New()
	of := func(key byte) *sharedCache {
		return &sharedCache{func() store.Documents { return db }, func() *pass.Sealer { return pass.WithKey([32]byte{key}, rand.Reader) }}
	}
	one, other, stranger := of(1), of(1), of(2)
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
