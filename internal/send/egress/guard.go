package egress

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

// guard checks addresses by a list of public ranges, not of private ones: an address is allowed if
// the IANA registries call it global unicast. So a range that is missing in the list is refused.
type guard struct {
	allow  []netip.Prefix
	mail   bool // it is for mail servers
	public *ssrf.Guardian
}

var errBlocked = errors.New("deliveries may not go to this address")

// nat64 is the well-known prefix under which an IPv6-only network reaches IPv4. Networks that
// resolve with DNS64 need it. Its last four bytes are the IPv4 address that it reaches, so those
// are checked.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func newGuard(allow []netip.Prefix) *guard {
	return &guard{allow: allow, public: ssrf.New(
		ssrf.WithAnyPort(),
		// The one public address that is not: Azure answers its virtual machines there.
		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")),
	)}
}

// check returns errBlocked for an address that must not be dialled at this port.
func (g *guard) check(a netip.AddrPort) error {
	addr := a.Addr()
	if !addr.IsValid() || addr.Zone() != "" {
		return errBlocked
	}
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !g.port(a.Port()) || g.public.SafeAddr(addr) != nil {
		return errBlocked
	}
	return nil
}

// control runs on the socket itself, just before it connects. It decides last: no other address is
// connected to, whatever name or list it came from.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return errBlocked
	}
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return errBlocked
	}
	return g.check(a)
}

// webPort keeps deliveries away from the well-known ports of other protocols (mail, DNS, …), whose
// servers may read the lines of a request as commands.
func webPort(port uint16) bool { return port >= 1024 || port == 80 || port == 443 }

// port says whether a port may be dialled. Mail is submitted to a server that its sender has an
// account at; port 25, where servers hand mail to strangers, is only for addresses of the
// operator's.
func (g *guard) port(port uint16) bool {
	if g.mail {
		return port >= 1024 || port == 465 || port == 587
	}
	return webPort(port)
}

// forMail is the guard of connections to mail servers.
func (g *guard) forMail() *guard { return &guard{allow: g.allow, mail: true, public: g.public} }
