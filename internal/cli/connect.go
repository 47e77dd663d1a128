package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// KeyFile is where a server with the default data directory leaves its first key.
const KeyFile = "grapnel-data/admin.key"

// DevKeyFile is where grapnel dev leaves its own.
const DevKeyFile = "grapnel-data/dev/admin.key"

// Connect makes the client of a command. Without a key it uses the one that a server left in the default data directory, but
// only towards this machine: that key opens everything, and another server has no business seeing it.
func (w *World) Connect(ctx context.Context, o client.Options) (*client.Client, error) {
	// A scheme is guessed only for this machine: to others a key would travel in the clear.
	if bare := "http://" + o.Server; !strings.Contains(o.Server, "://") && local(bare) {
		o.Server = bare
	}
	o.UserAgent = "grapnel-cli/" + grapnel.Version
	if o.Key == "" && local(o.Server) {
		keys, err := keysHere()
		if err != nil {
			return nil, err
		}
		o.Key = chosen(ctx, o, keys)
	}
	c, err := client.New(o)
	if err != nil {
		return nil, Usagef("--server: %v", err)
	}
	return c, nil
}

// keysHere are the keys that servers left in the default data directories below this one.
func keysHere() (keys []string, err error) {
	for _, path := range []string{KeyFile, DevKeyFile} {
		text, err := os.ReadFile(path)
		switch {
		case err == nil:
			keys = append(keys, strings.TrimSpace(string(text)))
		case !errors.Is(err, fs.ErrNotExist):
			return nil, &Fault{Exit: ExitAuth, Code: "unauthenticated", Text: "the key of the server here cannot be read: " + err.Error(),
				Next: "Run as the user that the server runs as, or give a key with GRAPNEL_KEY."}
		}
	}
	return keys, nil
}

// chosen is the first key that the server knows. Where there is one key, the server is not asked.
func chosen(ctx context.Context, o client.Options, keys []string) string {
	o.Retries = -1
	for i, key := range keys {
		if i == len(keys)-1 {
			return key
		}
		o.Key = key
		c, err := client.New(o)
		if err == nil {
			_, err = c.Endpoints(ctx, client.EndpointFilter{Limit: 1})
		}
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
			return key
		}
	}
	return ""
}

// ListenAddress is an address to listen at; a number alone is a port of host.
func ListenAddress(host, text string) string {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return net.JoinHostPort(host, text)
	}
	return text
}

func local(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// IsKey says whether a text has the form of an API key: its prefix and 256 bits.
func IsKey(text string) bool { return strings.HasPrefix(text, "grp_") && len(text) == len("grp_")+43 }
