package api

import (
	"crypto/sha256"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/ingress"
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
	last   time.Time // time of the last refusal
	logged time.Time // time of the last log line; zero: none yet
	since  int       // refusals since that line

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

// sighting is a valid key, by its hash, that was used from an address.
type sighting struct {
	hash [32]byte
	from netip.Addr
}

// admit authenticates a request when it begins. After Wrong wrong keys from one address each
// further refusal is delayed. While WrongLate refusals are being delayed, a key that was not valid
// from this address before is refused without looking it up. So an address can try few keys per
// second, and a valid key is slowed only if it is new at an address that tries wrong ones over many
// connections.
func (a *api) admit(c *call) error {
	if c.route.open != nil && c.route.open(c.Request) {
		return nil
	}
	token, _ := Bearer(c.Header)
	is := sighting{sha256.Sum256([]byte(token)), address(c.Request)}
	if a.Gate.crowded(is) {
		err := &grapnel.Error{Code: ingress.CodeRateLimited, Detail: "Too many wrong API keys come from this address.", RetryAfter: a.Bounds.WrongDelay}
		a.noteRefusal(c, is.from, err)
		return err
	}
	err := a.authenticate(c)
	if err == nil {
		a.Gate.saw(is)
		return nil
	}
	a.noteRefusal(c, is.from, err)
	if token != "" && grapnel.CodeOf(err) == codeUnauthenticated && a.Gate.tooMany(is.from, c.now) {
		late := time.NewTimer(a.Bounds.WrongDelay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-c.Context().Done():
		}
		a.Gate.answers(is.from)
	}
	return err
}

// crowded says whether a key is to be refused without looking it up.
func (g *Gate) crowded(is sighting) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.strangers.from) == 0 {
		return false
	}
	from := g.strangers.known(is.from)
	_, seen := g.seen[is]
	return from != nil && from.late >= g.bounds.WrongLate && !seen
}

// saw remembers that a key is valid from an address.
func (g *Gate) saw(is sighting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, seen := g.seen[is]; seen {
		return
	}
	if len(g.seen) >= g.bounds.Seen {
		clear(g.seen) // they are seen again
	}
	g.seen[is] = struct{}{}
}

// tooMany counts a wrong key and says whether its refusal has to be delayed; if so, answers
// follows.
func (g *Gate) tooMany(from netip.Addr, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	is := g.strangers.at(from, now)
	is.wrong = max(0, is.wrong-now.Sub(is.tried).Seconds()/g.bounds.WrongDelay.Seconds()) + 1
	is.tried = now
	if is.wrong <= float64(g.bounds.Wrong) {
		return false
	}
	is.late++
	return true
}

// answers ends the delay of a refusal.
func (g *Gate) answers(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if is := g.strangers.known(from); is != nil && is.late > 0 {
		is.late--
	}
}

// noteRefusal counts a request that was refused because of its key. Refusals of one address share a
// log line per StrangerLog, because anybody can cause any number of them.
func (a *api) noteRefusal(c *call, from netip.Addr, err error) {
	code, requests := grapnel.CodeOf(err), 0
	a.Gate.mu.Lock()
	switch code {
	case codeForbidden:
		a.Gate.stats.Forbidden++
	case codeUnauthenticated:
		a.Gate.stats.Unauthenticated++
	case ingress.CodeRateLimited:
		a.Gate.stats.Slowed++
	default: // the key was not judged
		a.Gate.mu.Unlock()
		return
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
