package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// KeyFile is the file of the admin key of a server with the default data directory.
const KeyFile = "grapnel-data/admin.key"

// DevKeyFile is the file of the admin key of grapnel dev.
const DevKeyFile = "grapnel-data/dev/admin.key"

// DevURL is the file beside DevKeyFile that has the URL of grapnel dev while it runs.
const DevURL = "url"

// Connect makes the client of a command. Without a key it uses the admin key in the default data
// directory, but only for a server on this machine: no other server may see that key.
func (w *World) Connect(o client.Options) (*client.Client, error) {
	// A scheme is assumed only for this machine: to others the key would travel in the clear.
	if bare := "http://" + o.Server; !strings.Contains(o.Server, "://") && local(bare) {
		o.Server = bare
	}
	o.UserAgent = "grapnel-cli/" + grapnel.Version
	if o.Key == "" && local(o.Server) {
		var err error
		if _, o.Key, err = KeyHere(o.Server); err != nil {
			return nil, err
		}
	}
	c, err := client.New(o)
	if err != nil {
		return nil, Usagef("--server: %v", err)
	}
	return c, nil
}

// Trusting makes an HTTP client that verifies servers by the authorities in a file alone. Without a
// file it is nil, which stands for a client that takes those of the machine.
func Trusting(file string) (*http.Client, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, Usagef("--ca: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, Usagef("--ca %s: it contains no certificate in PEM", file)
	}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}, nil
}

// KeyHere is the admin key in the default data directory below this one, with its file; empty:
// there is none, or the server is on another machine. If both serve and dev have one, it is dev's
// if dev runs at the server's port: it writes its URL beside its key while it runs.
func KeyHere(server string) (path, key string, err error) {
	if path = KeyFile; !local(server) {
		return "", "", nil
	}
	if _, err := os.Stat(KeyFile); errors.Is(err, fs.ErrNotExist) || isDev(server) {
		path = DevKeyFile
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return path, "", &Fault{Exit: ExitAuth, Code: "unauthenticated", Text: "cannot read the key of the server here: " + err.Error(),
			Next: "Run as the user that the server runs as, or give a key with GRAPNEL_KEY."}
	}
	return path, strings.TrimSpace(string(text)), nil
}

// isDev says whether a server on this machine is the one that grapnel dev runs with its default
// data.
func isDev(server string) bool {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(DevKeyFile), DevURL))
	if err != nil {
		return false
	}
	dev, bad := url.Parse(strings.TrimSpace(string(text)))
	u, err := url.Parse(server)
	return bad == nil && err == nil && dev.Port() == u.Port()
}

// ListenAddress is an address to listen at; a number alone is a port at host.
func ListenAddress(host, text string) string {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return net.JoinHostPort(host, text)
	}
	return text
}

func local(server string) bool {
	u, err := url.Parse(server)
	return err == nil && Loopback(u.Hostname())
}

// Loopback says whether a host, without a port, is this machine.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// IsKey says whether a text has the form of an API key: its prefix, maybe the name of an
// installation, and 256 bits.
func IsKey(text string) bool {
	rest, is := strings.CutPrefix(text, "grp_")
	if name, secret, named := strings.Cut(rest, "_"); named && len(rest) > 43 && grapnel.ValidName(name) {
		rest = secret
	}
	return is && len(rest) == 43
}
