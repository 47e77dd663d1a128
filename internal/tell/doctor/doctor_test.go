package doctor

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
)

// world is a healthy installation, with what a fault is planted in.
type world struct {
	*Subject
	t        *testing.T
	receiver *httptest.Server // of an endpoint and of --url
	ready    int              // status of /readyz
	runs     bool             // a Grapnel answers
	date     string           // of the receiver; empty: the right one
	keys     string           // what the API lists
	certEnds string           // JSON of the end of the endpoint's client certificate; empty: it has none
	version  string
}

// certificate makes one that ends at a time, for hosts of tests.
func certificate(t *testing.T, until time.Time) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		DNSNames: []string{"hooks.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, is, is, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, parsed
}

// receive starts a receiver whose certificate ends at a time.
func (w *world) receive(until time.Time) {
	w.receiver = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if w.date != "" {
			rw.Header().Set("Date", w.date)
		}
	}))
	pair, is := certificate(w.t, until)
	w.Roots = x509.NewCertPool()
	w.Roots.AddCert(is)
	w.receiver.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	w.receiver.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.receiver.StartTLS()
	w.t.Cleanup(w.receiver.Close)
	at, err := url.Parse(strings.Replace(w.receiver.URL, "127.0.0.1", "hooks.example", 1))
	if err != nil {
		w.t.Fatal(err)
	}
	w.URLs = []*url.URL{at}
}

func healthy(t *testing.T) *world {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"admin.key", "session.key", "grapnel.db"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("grp_0123456789abcdef"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, ready: http.StatusOK, runs: true, keys: `{"data":[]}`, version: "1.0"}
	w.Subject = &Subject{Dir: dir, Database: filepath.Join(dir, "grapnel.db"), Program: "1.0", Zone: "Europe/Berlin", Now: time.Now,
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Schema: func(context.Context) error { return nil },
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host != "hooks.example" {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		System: System{User: 7, Owner: func(fs.FileInfo) (int, bool) { return 7, true }, Files: func() int { return 65536 },
			Memory: func() int64 { return 0 }, Sync: func(string) (time.Duration, error) { return time.Millisecond, nil },
			Holder: func(string) int { return 4711 },
			Disk:   func(string) (Disk, error) { return Disk{"local", 50, 100, 50, 100}, nil }}}
	w.receive(time.Now().AddDate(1, 0, 0))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		switch {
		case !w.runs:
			_, _ = io.WriteString(rw, "<html>something else</html>")
		case r.URL.Path == "/readyz":
			rw.WriteHeader(w.ready)
			fallthrough
		case r.URL.Path == "/livez":
			_, _ = fmt.Fprintf(rw, `{"status":"ok","version":%q,"title":"full","detail":"the disk is full"}`, w.version)
		case r.URL.Path == "/v1/keys":
			_, _ = io.WriteString(rw, w.keys)
		default:
			_, _ = fmt.Fprintf(rw, `{"data":[{"id":"ep_1","status":"enabled","url":%q,"client_cert_ends":%s}]}`, w.receiver.URL+"/secret/path",
				cmp.Or(w.certEnds, "null"))
		}
	}))
	t.Cleanup(server.Close)
	w.Listen = strings.TrimPrefix(server.URL, "http://")
	var err error
	if w.Client, err = client.New(client.Options{Server: server.URL, Key: "k", Retries: -1}); err != nil {
		t.Fatal(err)
	}
	w.Probe = w.Client
	return w
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// onPostgres puts the data of a world into a healthy PostgreSQL, and then plants a fault in it.
func onPostgres(plant func(*postgres.Condition)) func(*world) {
	return func(w *world) {
		w.Database = ""
		w.Postgres = func(context.Context) (postgres.Condition, error) {
			now := time.Now()
			c := postgres.Condition{Version: 150004, Asked: now, Clock: now, Told: now, MayCreate: true, Connections: 20, Most: 97,
				Settings: map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "autovacuum": "on", "server_encoding": "UTF8"}}
			plant(&c)
			return c, nil
		}
	}
}

// TestEachFaultIsFound: each planted fault has exactly its finding, and a healthy installation has
// none, on SQLite and on PostgreSQL.
func TestEachFaultIsFound(t *testing.T) {
	in := func(w *world, name string) string { return filepath.Join(w.Dir, name) }
	for _, c := range []struct {
		fault, check, level string
		plant               func(*world)
	}{
		{"none", "", "", func(*world) {}},
		{"none, on PostgreSQL", "", "", onPostgres(func(*postgres.Condition) {})},
		{"none, before the first start", "", "", func(w *world) {
			w.do(os.RemoveAll(w.Dir))
			w.runs, w.Listen = false, ""
			w.System.Holder = func(string) int { return 0 }
		}},
		{"an unknown variable", "variables", Error, func(w *world) { w.Unknown = []Fault{{"GRAPNEL_LISTN", "unknown variable"}} }},
		{"a fault in the config file", "settings", Error, func(w *world) { w.Faults = []Fault{{"g.yaml, line 2", "lease is wrong"}} }},
		{"every address allowed", "egress_rules", Error, func(w *world) { w.Allow = append(w.Allow, netip.MustParsePrefix("::/0")) }},
		{"a directory that others read", "data_directory", Error, func(w *world) { w.do(os.Chmod(w.Dir, 0o755)) }},
		{"a file instead of the directory", "data_directory", Error, func(w *world) {
			w.do(os.RemoveAll(w.Dir))
			w.do(os.WriteFile(w.Dir, nil, 0o600))
			w.Database = filepath.Join(t.TempDir(), "grapnel.db")
		}},
		{"a foreign owner", "owners", Error, func(w *world) {
			w.System.Owner = func(i fs.FileInfo) (int, bool) {
				return map[bool]int{true: 0, false: 7}[i.Name() == "grapnel.db"], true
			}
		}},
		{"a key that others read", "key_files", Error, func(w *world) { w.do(os.Chmod(in(w, "admin.key"), 0o644)) }},
		{"an empty key file", "key_files", Error, func(w *world) { w.do(os.WriteFile(in(w, "session.key"), []byte("\n"), 0o600)) }},
		{"NFS", "file_system", Error, func(w *world) {
			w.System.Disk = func(string) (Disk, error) { return Disk{Kind: "nfs", Free: 9, Total: 9}, nil }
		}},
		{"memory instead of a disk", "file_system", Error, func(w *world) {
			w.System.Disk = func(string) (Disk, error) { return Disk{Kind: "tmpfs", Free: 9, Total: 9}, nil }
		}},
		{"a disk that is nearly full", "space", Warning, func(w *world) {
			w.System.Disk = func(string) (Disk, error) { return Disk{"local", 9, 100, 50, 100}, nil }
		}},
		{"few inodes", "inodes", Warning, func(w *world) {
			w.System.Disk = func(string) (Disk, error) { return Disk{"local", 50, 100, 9, 100}, nil }
		}},
		{"a slow disk", "sync", Warning, func(w *world) {
			w.System.Sync = func(string) (time.Duration, error) { return 30 * time.Millisecond, nil }
		}},
		{"few files", "open_files", Warning, func(w *world) { w.System.Files = func() int { return 1024 } }},
		{"little memory", "memory", Warning, func(w *world) { w.System.Memory = func() int64 { return 128 << 20 } }},
		{"an unknown time zone", "time_zone", Warning, func(w *world) { w.Zone = "Nowhere/Lost" }},
		{"a clock that differs from a URL's", "clock", Error, func(w *world) {
			w.date = time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
		}},
		{"a clock behind the data's", "clock", Error, func(w *world) {
			w.do(os.Chtimes(in(w, "grapnel.db"), time.Now(), time.Now().Add(time.Hour)))
		}},
		{"another program at --listen", "listen", Error, func(w *world) {
			w.runs = false
			w.System.Holder = func(string) int { return 0 }
		}},
		{"a server that is not ready", "ready", Error, func(w *world) { w.ready = http.StatusServiceUnavailable }},
		{"an upgrade without a restart", "version", Warning, func(w *world) { w.version = "0.9" }},
		{"another server on the database", "one_server", Error, func(w *world) { w.runs, w.Listen = false, "" }},
		{"a server of another database", "one_server", Error, func(w *world) { w.System.Holder = func(string) int { return 0 } }},
		{"a database of a later version", "schema", Error, func(w *world) {
			w.runs, w.Listen, w.System.Holder = false, "", func(string) int { return 0 }
			w.Schema = func(context.Context) error { return errors.New("schema 9 is unknown") }
		}},
		{"a name without an address", "names", Error, func(w *world) { w.URLs[0].Host = "nowhere.example" }},
		{"a URL that nothing listens at", "egress", Error, func(w *world) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			w.do(err)
			w.URLs[0].Host = l.Addr().String()
			w.do(l.Close())
		}},
		{"an endpoint that is not public", "endpoints", Error, func(w *world) { w.Allow, w.URLs = nil, nil }},
		{"an endpoint that is away", "endpoints", Warning, func(w *world) { w.URLs = nil; w.receiver.Close() }},
		{"a certificate that ends", "certificates", Warning, func(w *world) { w.receive(time.Now().AddDate(0, 0, 3)); w.URLs = nil }},
		{"a certificate that nothing vouches for", "certificates", Error, func(w *world) { w.Roots, w.URLs = x509.NewCertPool(), nil }},
		{"--public-url that leads nowhere", "own_certificate", Error, func(w *world) {
			w.PublicURL = &url.URL{Scheme: "https", Host: "nowhere.example"}
		}},
		{"a file whose certificate ends", "own_certificate", Warning, func(w *world) {
			_, is := certificate(w.t, time.Now().AddDate(0, 0, 3))
			path := filepath.Join(w.t.TempDir(), "cert.pem")
			w.do(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: is.Raw}), 0o600))
			w.Certificates = []string{path}
		}},
		{"a certificate's key that others read", "key_files", Error, func(w *world) {
			path := filepath.Join(w.t.TempDir(), "key.pem")
			w.do(os.WriteFile(path, []byte("-----BEGIN PRIVATE KEY-----"), 0o644)) //nolint:gosec // it is the fault
			w.CertificateKeys = []string{path}
		}},
		{"a client certificate that ends", "certificates", Warning, func(w *world) {
			w.certEnds = `"` + time.Now().AddDate(0, 0, 13).UTC().Format(time.RFC3339) + `"`
		}},
		{"an API key that ends", "keys", Warning, func(w *world) {
			w.keys = `{"data":[{"id":"key_1","name":"shop","expires_at":"` + time.Now().AddDate(0, 0, 3).Format(time.RFC3339) + `"}]}`
		}},
		{"PostgreSQL that is away", "postgres", Error, func(w *world) {
			w.Database, w.Postgres = "", func(context.Context) (postgres.Condition, error) { return postgres.Condition{}, errors.New("refused") }
		}},
		{"an old PostgreSQL", "postgres", Error, onPostgres(func(c *postgres.Condition) { c.Version = 130009 })},
		{"another encoding", "postgres", Error, onPostgres(func(c *postgres.Condition) { c.Settings["server_encoding"] = "LATIN1" })},
		{"a standby", "postgres", Error, onPostgres(func(c *postgres.Condition) { c.Standby = true })},
		{"no fsync", "postgres_durable", Error, onPostgres(func(c *postgres.Condition) { c.Settings["fsync"] = "off" })},
		{"no right to create", "postgres_rights", Error, onPostgres(func(c *postgres.Condition) { c.MayCreate = false })},
		{"no connections", "postgres_connections", Warning, onPostgres(func(c *postgres.Condition) { c.Connections = 90 })},
		{"an unused slot", "postgres_replication", Warning, onPostgres(func(c *postgres.Condition) { c.Slots = []postgres.Slot{{Name: "old", Retained: 1 << 30}} })},
		{"a standby that lags", "postgres_replication", Warning, onPostgres(func(c *postgres.Condition) { c.Lags = []postgres.Lag{{Name: "b", Bytes: 1 << 30}} })},
		{"no autovacuum", "postgres_care", Warning, onPostgres(func(c *postgres.Condition) { c.Settings["autovacuum"] = "off" })},
		{"no TLS to the database", "postgres_care", Warning, onPostgres(func(c *postgres.Condition) { c.InClear = true })},
		{"a clock that differs from the database's", "clock", Error, onPostgres(func(c *postgres.Condition) { c.Clock = c.Clock.Add(time.Minute) })},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			w := healthy(t)
			c.plant(w)
			r := Examine(t.Context(), w.Subject)
			if c.check == "" && len(r.Findings) == 0 {
				return
			}
			if len(r.Findings) != 1 || r.Findings[0].Check != c.check || r.Findings[0].Level != c.level {
				t.Fatalf("found %+v, not one %s of %s", r.Findings, c.level, c.check)
			}
			if f := r.Findings[0]; f.What == "" || f.Why == "" || f.Do == "" || strings.Contains(f.What+f.Do, "/secret/path") {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestHere: what the system says of this machine is possible.
func TestHere(t *testing.T) {
	s := Here()
	dir := t.TempDir()
	if took, err := s.Sync(dir); err != nil || took <= 0 {
		t.Errorf("a sync took %v, %v", took, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if d, err := s.Disk(dir); err != nil || d.Free > d.Total || d.FreeInodes > d.Inodes {
		t.Errorf("%+v, %v", d, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if uid, known := s.Owner(info); known && uid != s.User {
		t.Errorf("a directory of %d belongs to %d", s.User, uid)
	}
}

// TestTheTableOfChecks: docs/doctor.md has each check with what it looks at.
func TestTheTableOfChecks(t *testing.T) {
	page, err := os.ReadFile("../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, c := range Checks {
		fmt.Fprintf(&table, "| `%s` | %s |\n", c.Name, c.About)
	}
	if !strings.Contains(string(page), "|---|---|\n"+table.String()+"\n") {
		t.Errorf("the table of docs/doctor.md is not:\n%s", table.String())
	}
}
