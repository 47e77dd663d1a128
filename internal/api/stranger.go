package api

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/grapnelhq/grapnel"
)

// strangers are the addresses from which requests came whose keys were refused. Their number is bounded: those that do not fit are
// counted together, under the zero address. Gate's lock guards them.
type strangers struct {
	bounds Bounds
	from   map[netip.Addr]*stranger
	swept  time.Time
}

type stranger struct {
	last   time.Time // refusal
	logged time.Time // zero: never
	since  int       // refusals since then
}

// at is what is known of an address.
func (s *strangers) at(from netip.Addr, now time.Time) *stranger {
	if is := s.from[from]; is != nil {
		return is
	}
	if len(s.from) >= s.bounds.Strangers && now.Sub(s.swept) >= s.bounds.StrangerLog {
		s.swept = now // rarely, because it looks at all of them
		for other, is := range s.from {
			if now.Sub(is.last) >= s.bounds.StrangerLog {
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

// address is where a request comes from. A network of IPv6 is one caller's, so it counts as one address.
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

// noteRefusal counts a request that was refused because of its key, and logs refusals of one address together: anybody can
// cause any number of them.
func (a *api) noteRefusal(c *call, err error) {
	code := grapnel.CodeOf(err)
	if code != codeUnauthenticated && code != codeForbidden {
		return
	}
	from, requests := address(c.Request), 0
	a.Gate.mu.Lock()
	if code == codeForbidden {
		a.Gate.stats.Forbidden++
	} else {
		a.Gate.stats.Unauthenticated++
	}
	is := a.Gate.strangers.at(from, c.now)
	is.last = c.now
	if is.since++; c.now.Sub(is.logged) >= a.Bounds.StrangerLog {
		requests, is.since, is.logged = is.since, 0, c.now
	}
	a.Gate.mu.Unlock()
	if requests > 0 {
		a.Log.LogAttrs(c.Context(), slog.LevelWarn, "API keys refused", slog.String("address", from.String()), slog.Int("requests", requests),
			slog.String("route", c.route.path), slog.String("request_id", c.id), slog.String("reason", err.Error()))
	}
}
