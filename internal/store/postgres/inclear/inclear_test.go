package inclear

import (
	"crypto/tls"
	"net"
	"testing"
)

// at is a connection to a given address.
type at struct {
	net.Conn
	addr net.Addr
}

func (c at) RemoteAddr() net.Addr { return c.addr }

func TestCrosses(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 5432} }
	for _, c := range []struct {
		name string
		addr net.Addr
		want bool
	}{
		{"loopback", tcp("127.0.0.1"), false},
		{"another of its addresses", tcp("127.8.9.10"), false},
		{"loopback of IPv6", tcp("::1"), false},
		{"mapped loopback", &net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1").To16(), Port: 5432}, false},
		{"unix socket", &net.UnixAddr{Name: "/run/postgresql/.s.PGSQL.5432", Net: "unix"}, false},
		{"unix socket without a name", &net.UnixAddr{Net: "unix"}, false},
		{"none", nil, false},
		{"private network", tcp("10.0.0.7"), true},
		{"another private network", tcp("192.168.1.2"), true},
		{"public", tcp("203.0.113.9"), true},
		{"IPv6", tcp("2001:db8::5"), true},
		{"link-local with its zone", &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 5432, Zone: "eth0"}, true},
		{"unique local", tcp("fd00::5"), true},
	} {
		if got := Crosses(at{addr: c.addr}); got != c.want {
			t.Errorf("%s (%v): %t", c.name, c.addr, got)
		}
		if Crosses(tls.Client(at{addr: c.addr}, &tls.Config{ServerName: "db"})) {
			t.Errorf("%s with TLS counts as clear", c.name)
		}
	}
}
