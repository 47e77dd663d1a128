//go:build linux

package guides

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// hosts are the names that lead to this machine. A server of TLS stands in for those of the first
// line. It writes each request to a file and answers with the status in another one.
var (
	standIns = []string{"example.com", "hooks.slack.com"}
	hosts    = append([]string{"localhost", "hooks.example.com", "app.example.com", "db.example.com"}, standIns...)
)

const (
	received = "received" // one line per request: host, path, status, body
	answer   = "answer"   // the status of the first host; 200 if there is no such file
)

// machine makes the namespaces a machine: it has loopback, names, an empty /var/lib, and stand-ins
// for what the page speaks of.
func machine(apart, page string) error {
	if err := loopback(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	names := filepath.Join(apart, "hosts")
	if err := os.WriteFile(names, []byte("127.0.0.1 "+strings.Join(hosts, " ")+"\n"), 0o600); err != nil {
		return err
	}
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{names, "/etc/hosts", "", syscall.MS_BIND},
		{"tmpfs", "/var/lib", "tmpfs", 0},
		{"proc", "/proc", "proc", 0},
	} {
		if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.to, err)
		}
	}
	config, err := certify(apart)
	if err != nil {
		return err
	}
	for _, name := range standIns {
		if strings.Contains(page, "https://"+name) {
			go stand(config)
			break
		}
	}
	if socket := os.Getenv(postgresVariable); socket != "" {
		return relay(socket)
	}
	return nil
}

// loopback switches the network's only device on.
func loopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(fd) }()
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{name: [syscall.IFNAMSIZ]byte{'l', 'o'}, flags: syscall.IFF_UP}
	//nolint:gosec // the kernel's interface
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); code != 0 {
		return code
	}
	return nil
}

// certificate is the file with the certificate of all hosts, which the page's programs trust.
func certificate(apart string) string { return filepath.Join(apart, "fullchain.pem") }

// certify writes a certificate and its key, in privkey.pem beside it.
func certify(apart string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	is := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "guides"}, DNSNames: hosts,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour), BasicConstraintsValid: true, IsCA: true}
	raw, err := x509.CreateCertificate(rand.Reader, is, is, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for name, text := range map[string][]byte{certificate(apart): cert, filepath.Join(apart, "privkey.pem"): secret} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return nil, err
		}
	}
	pair, err := tls.X509KeyPair(cert, secret)
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, err
}

// stand is the server that stands in for hosts of the internet.
func stand(config *tls.Config) {
	var writing sync.Mutex
	server := &http.Server{Addr: ":443", TLSConfig: config, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			status := http.StatusOK
			if text, err := os.ReadFile(answer); err == nil && r.Host == standIns[0] {
				status, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			}
			writing.Lock()
			defer writing.Unlock()
			if file, err := os.OpenFile(received, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
				_, _ = fmt.Fprintln(file, r.Host, r.URL.Path, status, string(body))
				_ = file.Close()
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "ok")
		})}
	fmt.Println(server.ListenAndServeTLS("", ""))
}

// relay leads connections to PostgreSQL's port to the socket of one outside of the namespaces.
func relay(at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:5432")
	if err != nil {
		return err
	}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port")))
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
	return nil
}
