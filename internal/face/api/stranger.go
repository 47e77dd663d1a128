package api

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// strangers are the addresses from which requests with refused keys came. Their number is bounded:
// once the table is full, further addresses share one entry, that of the zero address. Gate's lock
// guards the table.
type strangers struct {
	bounds Bounds
	from   map[netip.Addr]*stranger
	swept  time.Time
}

type stranger struct {
	last     time.Time     // time of the last refusal
	refusals backoff.Tally // for the log

	wrong float64   // wrong keys, as of tried; falls by one per WrongDelay
	tried time.Time // time of the last wrong key
	late  int       // answers that are being delayed
}

// known returns the entry of an address, or nil.
func (s *strangers) known(from netip.Addr) *stranger {
	if is := s.from[from]; is != nil || len(s.from) < s.bounds.Strangers {
		return is
	}
	return s.from[netip.Addr{}]
}

// at returns the entry of an address, and makes one if there is none.
func (s *strangers) at(from netip.Addr, now time.Time) *stranger {
	if is := s.from[from]; is != nil {
		return is
	}
	if len(s.from) >= s.bounds.Strangers && now.Sub(s.swept) >= s.bounds.StrangerLog {
		s.swept = now // rarely, because it looks at all of them
		for other, is := range s.from {
			if now.Sub(is.last) >= s.bounds.StrangerLog && is.late == 0 {
				delete(s.from, other)
			}
		}
	}
	if len(s.from) >= s.bounds.Strangers {
		from = netip.Addr{}
		if is := s.from[from]; is != nil {
			return is
		}
	}
	is := &stranger{}
	s.from[from] = is
	return is
}

// address is the remote address of a request; of IPv6 its /64 network, which is usually one
// caller's.
func address(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, _ := netip.ParseAddr(host) // or the zero address
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		network, _ := addr.Prefix(64)
		return network.Addr()
	}
	return addr
}
