// Package inclear tells whether a connection to a PostgreSQL server crosses a network without TLS.
// Then anyone on the way can read payloads and secrets, and the password if the server asks for it
// in clear.
//
// It examines the open connection, not the URL: sslmode=prefer, the default, continues without TLS
// when the server has none. It does not see the network between this machine and the server: a
// tunnel on another machine counts as a network.
package inclear

import (
	"crypto/tls"
	"net"
	"net/netip"
)

// Remedy is the advice for such a connection.
const Remedy = "add sslmode=verify-full to the URL of the database, and sslrootcert=FILE if its certificate is of a private authority"

// Crosses says whether a connection leads to another machine without TLS.
func Crosses(conn net.Conn) bool {
	if _, encrypted := conn.(*tls.Conn); encrypted {
		return false
	}
	return elsewhere(conn.RemoteAddr())
}

// elsewhere says whether an address may be another machine's. Unix sockets are not, nor are
// addresses without an IP.
func elsewhere(addr net.Addr) bool {
	if addr == nil {
		return false
	}
	at, err := netip.ParseAddrPort(addr.String())
	return err == nil && !at.Addr().Unmap().IsLoopback()
}
