package words

import (
	"net/netip"
	"net/url"
	"strings"
)

// Unreachable says why a provider cannot reach an address, and what helps; empty: nothing in the
// address speaks against it.
func Unreachable(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip, err := netip.ParseAddr(host)
	ip = ip.Unmap()
	switch {
	case err == nil && !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() && !ip.IsUnspecified():
		return ""
	case err != nil && host != "localhost" && !strings.HasSuffix(host, ".localhost") && !strings.HasSuffix(host, ".local") &&
		!strings.HasSuffix(host, ".internal"):
		return ""
	}
	return "A provider on the internet cannot reach " + host + ". Start the server with --public-url, the address by which providers " +
		"reach it. To work on this machine, give a public server the source, and forward its events with grapnel listen."
}
