package cli

import (
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// KeyFile is where a server with the default data directory leaves its first key.
const KeyFile = "grapnel-data/admin.key"

// Connect makes the client of a command. Without a key it uses the one that a server left in the default data directory, but
// only towards this machine: that key opens everything, and another server has no business seeing it.
func (w *World) Connect(o client.Options) (*client.Client, error) {
	if o.Key == "" && local(o.Server) {
		text, err := os.ReadFile(KeyFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, &Fault{Exit: ExitAuth, Code: "unauthenticated", Text: "the key of the server here cannot be read: " + err.Error(),
				Next: "Run as the user that the server runs as, or give a key with GRAPNEL_KEY."}
		}
		o.Key = strings.TrimSpace(string(text))
	}
	o.UserAgent = "grapnel-cli/" + grapnel.Version
	c, err := client.New(o)
	if err != nil {
		return nil, Usagef("--server: %v", err)
	}
	return c, nil
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
