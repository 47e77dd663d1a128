package server

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// idSecret reads what a thief of a database or of a backup has: the secret of its ids.
func idSecret(t *testing.T, path string) []byte {
	t.Helper()
	conn, err := sqlite3.Open(path, sqlite3.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	q := conn.Query("SELECT secret FROM id_key")
	if row, err := q.Next(); err != nil || !row {
		t.Fatal("no secret", err)
	}
	defer q.Reset()
	return bytes.Clone(q.Bytes(0))
}

// statusOf is the status of a refusal.
func statusOf(err error) int {
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		return refusal.Status
	}
	return 0
}

// TestABackupGivesNoAccess: neither a pass nor a cookie that is sealed with anything that the
// database has; the session key is in a file that only its owner can read, and not in the database.
func TestABackupGivesNoAccess(t *testing.T) {
	o := still(t)
	s := start(t, o)
	dir := filepath.Dir(strings.TrimPrefix(o.Store, "sqlite:"))
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := Backup(t.Context(), o.Store, backup); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, sessionKeyFile)
	key, err := os.ReadFile(file)
	if is, _ := os.Stat(file); err != nil || is.Mode().Perm() != 0o600 || len(bytes.TrimSpace(key)) < MinSessionKeyLen {
		t.Fatalf("the session key is %d bytes long, %v", len(key), err)
	}
	now := time.Now()
	forged := pass.Pass{Subject: "key_of_nobody", Role: grapnel.RoleAdmin, Scopes: []grapnel.Scope{grapnel.ScopeAdmin}, Begins: now,
		Ends: now.Add(time.Hour)}
	ask := func(text string) int {
		c, err := client.New(client.Options{Server: s.URL(), Key: text})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.WhoAmI(t.Context())
		if err == nil {
			return http.StatusOK
		}
		return statusOf(err)
	}
	for _, of := range []string{backup, strings.TrimPrefix(o.Store, "sqlite:")} {
		secret := idSecret(t, of)
		sub := func(use string) (sum [32]byte) {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(use))
			return [32]byte(mac.Sum(nil))
		}
		text, err := pass.NewSealer(sub, nil, rand.Reader).Seal(forged)
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(text); got != http.StatusUnauthorized {
			t.Errorf("%s: a forged pass is answered %d", of, got)
		}
		cookie, err := pass.WithKey(sub("cookies of the dashboard"), rand.Reader).SealFor("grapnel_session",
			map[string]any{"i": "x", "k": text, "n": "key_of_nobody", "s": []string{"admin"}, "e": now.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		b := newBrowser(t, s.URL())
		at, _ := url.Parse(s.URL())
		b.http.Jar.SetCookies(at, []*http.Cookie{{Name: "grapnel_session", Value: cookie}})
		if status, header, _ := b.ask("GET", "/keys", nil); status != http.StatusSeeOther ||
			!strings.HasPrefix(header.Get("Location"), "/login") {
			t.Errorf("%s: a forged cookie is answered %d", of, status)
		}
	}
	// With the session key the same pass is good: the test forges as the server would.
	is := sessionKey(sha256.Sum256(bytes.TrimSpace(key)))
	text, err := pass.NewSealer(is.secret, nil, rand.Reader).Seal(forged)
	if got := ask(text); err != nil || got != http.StatusOK {
		t.Errorf("a pass by the session key is answered %d, %v", got, err)
	}
	// Once the sessions are rotated, the thief needs both: the file, and the database of now.
	if err := s.client(t, testKey).RotateSessions(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := ask(text); got != http.StatusUnauthorized {
		t.Errorf("after the rotation it is answered %d", got)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "grapnel.db*"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range append(files, backup) {
		if raw, err := os.ReadFile(name); err != nil || bytes.Contains(raw, bytes.TrimSpace(key)) || bytes.Contains(raw, is[:]) {
			t.Errorf("the session key is in %s, %v", name, err)
		}
	}
}

// TestSigningOutEndsTheSession: also for a copy of the cookie; and no cookie has the API key.
func TestSigningOutEndsTheSession(t *testing.T) {
	o := still(t)
	s := start(t, o)
	is, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(o.Store, "sqlite:")), sessionKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	b, thief, other := newBrowser(t, s.URL()), newBrowser(t, s.URL()), newBrowser(t, s.URL())
	b.signIn(testKey)
	other.signIn(testKey)
	at, _ := url.Parse(s.URL())
	stolen := b.http.Jar.Cookies(at)
	thief.http.Jar.SetCookies(at, stolen)
	var inside map[string]any
	key := sessionKey(sha256.Sum256(bytes.TrimSpace(is)))
	for _, c := range stolen {
		_ = pass.WithKey(key.secret("cookies of the dashboard"), rand.Reader).OpenFor(c.Name, c.Value, &inside)
	}
	if k, _ := inside["k"].(string); !strings.HasPrefix(k, pass.Prefix) {
		t.Errorf("the cookie has %v", inside)
	}
	for _, who := range []*browser{b, thief, other} {
		if status, _, _ := who.ask("GET", "/keys", nil); status != http.StatusOK {
			t.Fatalf("before: answered %d", status)
		}
	}
	if status, _, body := b.ask("POST", "/logout", url.Values{"token": {b.token("/keys")}}); status != http.StatusSeeOther {
		t.Fatalf("signing out: answered %d %s", status, body)
	}
	for i, who := range []*browser{b, thief} {
		if status, header, _ := who.ask("GET", "/keys", nil); status != http.StatusSeeOther ||
			!strings.HasPrefix(header.Get("Location"), "/login") {
			t.Errorf("browser %d after signing out: answered %d", i, status)
		}
	}
	if status, _, _ := other.ask("GET", "/keys", nil); status != http.StatusOK {
		t.Errorf("another session of the key is answered %d", status)
	}
}

// TestAShortSessionKeyIsRefused, given or in its file.
func TestAShortSessionKeyIsRefused(t *testing.T) {
	o := options(t.TempDir())
	o.SessionKey = "too-short"
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "fewer than 32") {
		t.Errorf("given: %v", err)
	}
	o.SessionKey = ""
	path := filepath.Join(filepath.Dir(strings.TrimPrefix(o.Store, "sqlite:")), sessionKeyFile)
	if err := os.WriteFile(path, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "contains no key: delete the file") {
		t.Errorf("in its file: %v", err)
	}
}
