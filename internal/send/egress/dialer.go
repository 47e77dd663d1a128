package egress

import (
	"errors"
	"net"
	"net/netip"
)

// Dialer connects only to addresses that attempts may reach, for checks that are no attempts.
func Dialer(allow []netip.Prefix) *net.Dialer {
	return &net.Dialer{ControlContext: newGuard(allow).control}
}

// Blocked says whether a Dialer refused the address.
func Blocked(err error) bool { return errors.Is(err, errBlocked) }
