package server

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io/fs"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/seal"
)

// canaries are the secrets of every kind that the database has, by kind.
func canaries() map[string]string {
	return map[string]string{
		"endpoint's secret": "whsec_" + base64.StdEncoding.EncodeToString([]byte("canary of an endpoint's secret")),
		"endpoint's URL":    "canary-of-a-query",
		"own header":        "canary-of-a-header",
		"source's secret":   "canary-of-a-source",
		"channel's URL":     "canaryOfAChannel",
		"alarms' URL":       "canaryOfAnAlarm",
		"outbox's DSN":      "canary-of-a-password",
		"source's broker":   "canary-of-a-broker",
		"source's next":     "canary-that-follows",
		"OAuth2 secret":     "canary-of-a-client",
		"client's key":      strings.Split(clientPair().key, "\n")[1],
		"endpoint's proxy":  "canary-of-a-tunnel",
		"broker's password": "canary-of-a-broker",
		"tenant's proxy":    "canary-of-a-tenant",
	}
}

// clientPair is a client certificate and its key, in PEM.
var clientPair = sync.OnceValue(func() (pair struct{ cert, key string }) {
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	end := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, end, end, public, private)
	if err != nil {
		panic(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	pair.cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	pair.key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	return pair
})

// plant stores every canary, and has one event delivered.
func plant(t *testing.T, c *client.Client, tenant string) {
	t.Helper()
	of, delivered := canaries(), make(chan struct{}, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { delivered <- struct{}{} }))
	t.Cleanup(receiver.Close)
	_, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: tenant, URL: receiver.URL + "/?token=" + of["endpoint's URL"],
		Secret: of["endpoint's secret"], Headers: map[string]string{"Authorization": of["own header"]}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: tenant, URL: "https://127.0.0.1:1/", EventTypes: []string{"never"},
		OAuth2: &client.OAuth2{TokenURL: receiver.URL, ClientID: "me", ClientSecret: of["OAuth2 secret"]},
		TLS:    &client.TLS{ClientCert: clientPair().cert, ClientKey: clientPair().key},
		Proxy:  "http://me:" + of["endpoint's proxy"] + "@127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: tenant, EventTypes: []string{"never"},
		Target: &client.Target{Kind: "nats", Address: "nats://127.0.0.1:1", Name: "events", Password: of["broker's password"]}}); err != nil {
		t.Fatal(err)
	}
	src, err := c.CreateSource(t.Context(), client.NewSource{Tenant: tenant, Name: "hub",
		Verify: client.NewVerify{Scheme: "github", Secret: of["source's secret"]}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RotateSourceSecret(t.Context(), src.ID, of["source's next"], time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateSource(t.Context(), client.NewSource{Tenant: tenant, Name: "shop", Status: grapnel.EndpointPaused,
		Outbox: &client.NewOutbox{DSN: "postgres://shop:" + of["outbox's DSN"] + "@127.0.0.1:1/shop"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateSource(t.Context(), client.NewSource{Tenant: tenant, Name: "stream", Status: grapnel.EndpointPaused,
		Broker: &client.Target{Kind: "nats", Address: "nats://broker.example", Name: "S", Password: of["source's broker"]}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateChannel(t.Context(), client.NewChannel{Tenant: tenant,
		URL: "gotify://" + strings.TrimPrefix(receiver.URL, "http://") + "/" + of["channel's URL"] + "?disabletls=yes"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateChannel(t.Context(), client.NewChannel{Tenant: grapnel.OperatorTenant,
		URL: "gotify://" + strings.TrimPrefix(receiver.URL, "http://") + "/" + of["alarms' URL"] + "?disabletls=yes"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), client.NewEvent{Tenant: tenant, Type: "a.b", Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	<-delivered
	proxy := map[string]any{"proxy": "http://me:" + of["tenant's proxy"] + "@127.0.0.1:1"}
	if _, err := c.UpdateTenant(t.Context(), tenant, "", proxy); err != nil {
		t.Fatal(err)
	}
}

// seen returns the kinds of texts that a directory's files have in clear, and how many files there
// are.
func seen(t *testing.T, dir string, texts map[string]string) (kinds []string, files int) {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		files++
		for kind, text := range texts {
			if bytes.Contains(b, []byte(text)) {
				found[kind] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found)), files
}

// masterFile makes a file with master keys, and returns its source and its path.
func masterFile(t *testing.T, letters ...string) (seal.Source, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "master.key")
	lines(t, path, letters...)
	s, err := seal.ParseSource("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	return s, path
}

// lines writes master keys that are made of letters.
func lines(t *testing.T, path string, letters ...string) {
	t.Helper()
	text := ""
	for _, letter := range letters {
		text += strings.Repeat(letter, seal.MinLength) + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNoFileHasASecretInClear: while the server runs, after it has stopped, and in a backup.
// Without a master key the same search finds every canary. With a master key that is given later,
// the canaries stored before are gone too.
func TestNoFileHasASecretInClear(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	prompt(&o)
	all := slices.Sorted(maps.Keys(canaries()))
	look := func(when string, want ...string) {
		t.Helper()
		var got []string
		files, end := 0, time.Now().Add(time.Minute) // the file of alarms is written by rounds
		for got, files = seen(t, dir, canaries()); !slices.Equal(got, want) && time.Now().Before(end); got, files = seen(t, dir, canaries()) {
			time.Sleep(20 * time.Millisecond)
		}
		if !slices.Equal(got, want) || files < 4 {
			t.Errorf("%s: in %d files these are in clear: %q; want %q", when, files, got, want)
		}
	}
	s := start(t, o)
	plant(t, s.client(t, testKey), "acme")
	look("without a master key", all...)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	look("stopped, without a master key", all...)

	o.MasterKey, _ = masterFile(t, "a")
	s = start(t, o)
	look("sealed at the start")
	c := s.client(t, testKey)
	plant(t, c, "other") // of which nothing was in clear before
	page, err := c.Endpoints(t.Context(), client.EndpointFilter{})
	if err != nil || len(page.Data) != 6 || !strings.HasSuffix(page.Data[0].URL, canaries()["endpoint's URL"]) {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := Backup(t.Context(), o.Store, filepath.Join(dir, "backup.db")); err != nil {
		t.Fatal(err)
	}
	look("sealed")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	look("stopped, sealed")
}

// TestTheWrongMasterKeyChangesNothing: a start without the master key, or with another one, says
// so, and leaves every byte as it was.
func TestTheWrongMasterKeyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.AdminKey = testKey
	right, _ := masterFile(t, "a")
	o.MasterKey = right
	s := start(t, o)
	plant(t, s.client(t, testKey), "acme")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	bytesOf := func() map[string]string {
		all := map[string]string{}
		for _, name := range []string{"grapnel.db", "grapnel.db.data", "session.key"} {
			b, _ := os.ReadFile(filepath.Join(dir, "data", name))
			all[name] = string(b)
		}
		return all
	}
	before := bytesOf()
	wrong, _ := masterFile(t, "b")
	for from, want := range map[seal.Source]string{wrong: "this is not the master key that the database is sealed with", {}: "--master-key"} {
		o.MasterKey = from
		if _, err := Open(t.Context(), o); grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
		if !maps.Equal(before, bytesOf()) {
			t.Error("the start that was refused changed a file")
		}
	}
	o.MasterKey = right
	start(t, o)
}

// TestASealedBackupNeedsItsMasterKey: a restore with another master key, or without one, is refused
// with a sentence that says so, and leaves no database. With the right one it is made.
func TestASealedBackupNeedsItsMasterKey(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.AdminKey = testKey
	right, _ := masterFile(t, "a")
	o.MasterKey = right
	s := start(t, o)
	plant(t, s.client(t, testKey), "acme")
	backup := filepath.Join(dir, "backup.db")
	if whole, err := Backup(t.Context(), o.Store, backup); err != nil || !whole {
		t.Fatal(whole, err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	restore := func(from seal.Source, to string, hold bool) error {
		f, err := os.Open(backup)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o.MasterKey = from
		_, err = Restore(t.Context(), f, -1, to, hold, &o)
		return err
	}
	wrong, _ := masterFile(t, "b")
	to := filepath.Join(dir, "restored")
	for from, want := range map[seal.Source]string{wrong: "this is not the master key that the database is sealed with", {}: "--master-key"} {
		for _, hold := range []bool{false, true} {
			if err := restore(from, to, hold); grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), want) {
				t.Errorf("hold %v: %v", hold, err)
			}
			if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
				t.Errorf("hold %v: the refused restore left %v, %v", hold, left, err)
			}
		}
	}
	if err := restore(right, to, true); err != nil {
		t.Error(err)
	}
}

// TestTheMasterKeyIsRotatedUnderLoad: no publish fails and none is lost meanwhile, and afterwards
// the new key alone opens the database.
func TestTheMasterKeyIsRotatedUnderLoad(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	var path string
	o.MasterKey, path = masterFile(t, "a")
	s := start(t, o)
	c := s.client(t, testKey)
	const tenants = 20
	arrived := make(chan string, 4096)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("Webhook-Id") }))
	defer receiver.Close()
	for i := range tenants {
		if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: "t" + string(rune('a'+i)), URL: receiver.URL}); err != nil {
			t.Fatal(err)
		}
	}
	sent, end, done := map[string]bool{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			p, err := c.Publish(t.Context(), client.NewEvent{Tenant: "t" + string(rune('a'+i%tenants)), Type: "a.b", Data: []byte(`{}`)})
			if err != nil {
				t.Error(err)
				return
			}
			sent[p.ID] = true
		}
	}()
	for i, letters := range [][]string{{"b", "a"}, {"c", "b"}, {"c", "b"}} {
		lines(t, path, letters...)
		k, err := c.RotateMasterKey(t.Context())
		if err != nil || k.DataKeys < tenants || (k.Wrapped == 0) != (i == 2) {
			t.Errorf("rotation %d: %+v, %v", i, k, err)
		}
	}
	close(end)
	<-done
	for len(sent) > 0 {
		delete(sent, <-arrived)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	lines(t, path, "c")
	s = start(t, o)
	if page, err := s.client(t, testKey).Endpoints(t.Context(), client.EndpointFilter{}); err != nil || len(page.Data) != tenants {
		t.Errorf("%+v, %v", page, err)
	}
}
