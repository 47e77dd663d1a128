package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The admin key has a fixed id, so a new admin key replaces the old one instead of adding a second
// key with all rights.
const (
	adminKeyName   = "admin"
	adminKeyFile   = "admin.key"
	MinAdminKeyLen = 16 // characters of an admin key that an operator chooses
)

// ensureAdminKey makes sure that there is an admin key: the given one, else that of the file, else
// the one in the store, else a new one, which carries the installation's name.
func (l *life) ensureAdminKey(ctx context.Context, given, name string) (KeyNotice, error) {
	path := filepath.Join(l.place.dir(), adminKeyFile)
	text, err := os.ReadFile(path)
	key := strings.TrimSpace(string(text))
	if given != "" {
		if len(given) < MinAdminKeyLen {
			return KeyNotice{}, grapnel.Errorf(grapnel.CodeInvalid, "the admin key given has fewer than %d characters", MinAdminKeyLen)
		}
		var notice KeyNotice
		if err == nil && key != given {
			notice.Other = path
		}
		return notice, l.setAdminKey(ctx, given)
	}
	switch {
	case err == nil:
		if len(key) < MinAdminKeyLen {
			remedy := "delete the file, and the next start creates a new one"
			if l.adminKey() != nil { // without the file it stays
				remedy = "write the key into it, or set another one with GRAPNEL_ADMIN_KEY; without the file the key stays as it is"
			}
			return KeyNotice{}, fmt.Errorf("%s contains no key: %s", path, remedy)
		}
		return KeyNotice{Path: path}, l.setAdminKey(ctx, key)
	case !errors.Is(err, fs.ErrNotExist):
		return KeyNotice{}, fmt.Errorf("the admin key cannot be read: %w", err)
	case l.adminKey() != nil:
		return KeyNotice{}, nil // an operator keeps it elsewhere
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it never fails
	key = grapnel.KeyText(name, secret)
	// The file comes first: after a crash in between, the next start takes the key from it.
	if err := writeKey(path, key); err != nil {
		return KeyNotice{}, fmt.Errorf("writing the admin key failed: %w", err)
	}
	return KeyNotice{Path: path, Made: true}, l.setAdminKey(ctx, key)
}

// adminKey is the admin key in the store.
func (l *life) adminKey() *grapnel.Key {
	keys := l.engine.Keys(store.Everyone())
	if i := slices.IndexFunc(keys, func(k grapnel.Key) bool { return k.ID == grapnel.AdminKeyID }); i >= 0 {
		return &keys[i]
	}
	return nil
}

func (l *life) setAdminKey(ctx context.Context, text string) error {
	hash := sha256.Sum256([]byte(text))
	if known := l.adminKey(); known != nil && known.Hash == hash {
		return nil
	}
	now := time.Now().UTC()
	_, err := l.engine.PutKey(ctx, store.Everyone(), grapnel.Key{
		ID: grapnel.AdminKeyID, Name: adminKeyName, Scopes: []grapnel.Scope{grapnel.ScopeAdmin}, Hash: hash, CreatedAt: now,
	}, store.With{Audit: &grapnel.AuditEntry{At: now, Actor: grapnel.ActorItself, Verb: grapnel.VerbCreate, Endpoint: grapnel.AdminKeyID,
		Reason: "the admin key that the server was started with"}})
	if err != nil {
		return fmt.Errorf("the admin key cannot be set: %w", err)
	}
	return nil
}

// writeKey writes a key to a file that only its owner can read, durably and without overwriting
// another one.
func writeKey(path, key string) error {
	// with a database elsewhere the directory holds only this file
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(key + "\n")
	return errors.Join(err, file.Sync(), file.Close())
}
