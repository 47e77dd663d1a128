//go:build prove

package relay

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/inbound/relay/mariadbtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// TestMySQLRights: a user that may only publish can publish and read nothing; one that may only
// relay can relay; one that may do less is told how it gets the right, without its password.
func TestMySQLRights(t *testing.T) {
	db, url := mariaShop(t, nil)
	m, err := maria()
	if err != nil {
		t.Fatal(err)
	}
	name := Place(url)[strings.LastIndexByte(Place(url), ' ')+1:]
	user := func(does string) string { return does + name }
	for _, does := range []string{"publishes", "relays", "nothing"} {
		if err := m.Exec(t.Context(), "CREATE USER "+user(does)+" IDENTIFIED BY 'hunter2'"); err != nil {
			t.Fatal(err)
		}
	}
	before, err := Install(t.Context(), url, Rights{Publishers: []string{user("publishes")}, Relays: []string{user("relays") + "@%"}})
	if err != nil || before.Version != outbox.Version {
		t.Fatalf("%+v, %v", before, err)
	}
	if err := m.Exec(t.Context(), "GRANT SELECT ON "+name+".grapnel_outbox TO "+user("nothing")); err != nil {
		t.Fatal(err)
	}
	mortal, err := sql.Open("mysql", strings.Replace(m.Driver(name), "owner:"+mariadbtest.Password, user("publishes")+":hunter2", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mortal.Close() }()
	publishIn(t, mortal, event("k", `1`))
	if n := rowsIn(t, mortal); n != -1 {
		t.Errorf("whoever may publish reads %d rows", n)
	}
	var log bytes.Buffer
	s := newSink(t, m.URLOf(user("nothing"), "hunter2", name), m.URLOf(user("publishes"), "hunter2", name), m.URLOf("owner", "hunter2", name),
		"mysql://u:hunter2@127.0.0.1:1/none")
	r, stop := relaying(t, Options{Engine: s, Store: s.Store, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for source, want := range map[string]string{"src_1": "--relay", "src_2": "--relay", "src_3": "Access denied", "src_4": "127.0.0.1"} {
		until(t, source+" is away", func() bool {
			now, _ := r.Status(source)
			if strings.Contains(fmt.Sprintf("%+v", now), "hunter2") {
				t.Fatalf("%+v", now)
			}
			return now.State == Away && strings.Contains(now.Detail, want)
		})
	}
	stop()
	if strings.Contains(log.String(), "hunter2") {
		t.Error(log.String())
	}
	s.set(grapnel.Source{ID: "src_5", Tenant: "acme",
		Outbox: &grapnel.Outbox{DSN: grapnel.Secret{Text: m.URLOf(user("relays"), "hunter2", name)}}})
	relaying(t, Options{Engine: s, Store: s.Store})
	until(t, "all is relayed", func() bool { return rowsIn(t, db) == 0 && len(s.events()) == 1 })
	publishIn(t, db, event("k", `2`), event("k", `3`))
	until(t, "the others are relayed", func() bool { return rowsIn(t, db) == 0 && len(s.events()) == 3 })
}

// TestMySQLInstallation: an outbox is described, removed and created again; a newer one stays.
func TestMySQLInstallation(t *testing.T) {
	db, url := mariaShop(t, nil)
	publishIn(t, db, event("k", `1`), event("k", `2`))
	if is, err := Inspect(t.Context(), url); err != nil || is.Version != outbox.Version || is.Waiting != 2 || is.Oldest <= 0 ||
		time.Since(is.InstalledAt).Abs() > time.Minute {
		t.Errorf("%+v, %v", is, err)
	}
	if _, err := Uninstall(t.Context(), url, 1); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("more than expected is removed: %v", err)
	}
	if was, err := Uninstall(t.Context(), url, 2); err != nil || was.Waiting != 2 {
		t.Errorf("%+v, %v", was, err)
	}
	if is, err := Inspect(t.Context(), url); err != nil || is.Version != 0 {
		t.Errorf("%+v, %v", is, err)
	}
	var left int
	const all = `SELECT (SELECT count(*) FROM information_schema.tables WHERE table_schema = database()) +
		(SELECT count(*) FROM information_schema.routines WHERE routine_schema = database())`
	if err := db.QueryRowContext(t.Context(), all).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d are left, %v", left, err)
	}
	if _, err := Install(t.Context(), url, Rights{}); err != nil {
		t.Error(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE grapnel_outbox_installation SET version = ?", outbox.Version+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), url, Rights{}); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("a newer one is overwritten: %v", err)
	}
}

// TestMySQLWithTLS: ssl-mode says whether the connection has TLS and whose certificate is believed.
func TestMySQLWithTLS(t *testing.T) {
	dir := t.TempDir()
	certificate, key := certified(t, dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	own := mariadbtest.For(t, "--ssl-cert="+certificate, "--ssl-key="+key)
	plain, err := maria()
	if err != nil {
		t.Fatal(err)
	}
	_, url := mariaShop(t, own)
	_, bare := mariaShop(t, nil)
	for _, c := range []struct {
		dsn    string
		cipher bool
		fails  string
	}{
		{url, true, ""}, {url + "?ssl-mode=disabled", false, ""}, {url + "?ssl-mode=REQUIRED", true, ""},
		{url + "?ssl-mode=VERIFY_IDENTITY", false, "certificate"}, {url + "?ssl-mode=VERIFY_IDENTITY&ssl-ca=" + certificate, true, ""},
		{strings.Replace(url, "127.0.0.1", "localhost", 1) + "?ssl-mode=VERIFY_IDENTITY&ssl-ca=" + certificate, false, "certificate"},
		{url + "?ssl-mode=VERIFY_IDENTITY&ssl-ca=" + key, false, "no certificates"}, {bare, false, ""},
		{bare + "?ssl-mode=REQUIRED", false, "TLS"}, {bare + "?socket=" + plain.Socket(), false, ""},
	} {
		db, err := dialMySQL(c.dsn, new(net.Dialer).DialContext)
		var name, cipher string
		if err == nil {
			err = db.QueryRowContext(t.Context(), `SHOW SESSION STATUS LIKE 'Ssl_cipher'`).Scan(&name, &cipher)
			_ = db.Close()
		}
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.dsn, err)
			}
			continue
		}
		if err != nil || (cipher != "") != c.cipher {
			t.Errorf("%s: cipher %q, %v", c.dsn, cipher, err)
		}
	}
}

// TestMySQLInClearIsTold: a connection to another machine without TLS is logged, with the remedy.
func TestMySQLInClearIsTold(t *testing.T) {
	db, url := mariaShop(t, nil)
	log := &lines{}
	s := newSink(t, url)
	relaying(t, Options{Engine: s, Store: s.Store, Log: slog.New(slog.NewTextHandler(log, nil)),
		open: func(ctx context.Context, dsn string) (box, error) {
			return connectMySQL(ctx, dsn, bounds.Fill(Bounds{}), func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				return far{c}, err
			})
		}})
	publishIn(t, db, event("k", `1`))
	until(t, "all is relayed", func() bool { return rowsIn(t, db) == 0 })
	if text := log.text(); !strings.Contains(text, "without TLS") || !strings.Contains(text, "host=192.0.2.1") || !strings.Contains(text, "VERIFY_IDENTITY") {
		t.Errorf("the log: %s", text)
	}
}

// certified writes a certificate for 127.0.0.1 and its key.
func certified(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "MariaDB"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}
