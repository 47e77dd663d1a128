package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The session key seals passes, cookies and acknowledge links. It is never in the database, so
// that neither the database nor a backup of it suffices to make a pass. It is beside admin.key, or
// given as an option, which several nodes need to take each other's sessions.
const (
	sessionKeyFile   = "session.key"
	MinSessionKeyLen = 32 // characters
)

func (k sessionKey) secret(use string) (secret [32]byte) {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(use))
	return [32]byte(mac.Sum(nil))
}

// readSessionKey returns the given key, else that of the file, else a new one.
func (s *Server) readSessionKey(place Place) error {
	text := s.options.SessionKey
	path := filepath.Join(place.dir(), sessionKeyFile)
	if text == "" {
		raw, err := os.ReadFile(path)
		text = strings.TrimSpace(string(raw))
		switch {
		case err == nil && len(text) < MinSessionKeyLen:
			return fmt.Errorf("%s contains no key: delete the file, and the next start creates a new one; all sessions end", path)
		case errors.Is(err, fs.ErrNotExist):
			var b [32]byte
			_, _ = rand.Read(b[:]) // it never fails
			text = base64.RawURLEncoding.EncodeToString(b[:])
			if err := writeKey(path, text); err != nil {
				s.log.Warn("session.key not written; sessions and portal links end with this process", "file", path, "err", err,
					"remedy", "set GRAPNEL_SESSION_KEY")
			}
		case err != nil:
			return fmt.Errorf("the session key cannot be read: %w", err)
		}
	}
	if len(text) < MinSessionKeyLen {
		return grapnel.Errorf(grapnel.CodeInvalid, "the session key given has fewer than %d characters", MinSessionKeyLen)
	}
	key := sessionKey(sha256.Sum256([]byte(text)))
	s.session = &key
	return nil
}

// compareSessionKey warns if the node that started last on a shared database had another key. What
// is stored is a hash of a subkey, which says nothing about a key of 32 random bytes. A database
// that is slow just then costs the next node its warning, and not this one its start.
func (s *Server) compareSessionKey(ctx context.Context) {
	if s.life.peers == nil {
		return
	}
	hash := s.session.secret("comparison of session keys")
	mine, theirs := base64.RawURLEncoding.EncodeToString(hash[:9]), s.life.engine.Access(grapnel.SessionKeyID).Series
	if theirs == mine {
		return
	}
	if theirs != "" {
		s.log.Warn("session key differs from that of another node; sessions and portal links of one are refused by the other",
			"remedy", "give all nodes the same GRAPNEL_SESSION_KEY")
	}
	is := grapnel.AccessRecord{ID: grapnel.SessionKeyID, Series: mine}
	if _, err := s.life.engine.PutAccess(ctx, store.Everyone(), is, store.With{}); err != nil {
		s.log.Warn("session key not stored; nodes that start later cannot compare theirs with it", "err", err)
	}
}
