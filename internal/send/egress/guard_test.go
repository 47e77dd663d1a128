package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/policy"
)

// hostile are addresses that a delivery must not reach: those of this machine and its network,
// unassigned ones, and every IPv6 form that leads to one of them.
func hostile() []string {
	return []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
		"224.0.0.1", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "240.0.0.1", "255.255.255.255",
		"192.88.99.1", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:0:7f00:1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:7f00:1::", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1",
		"ff02::1", "100::1", "2001:db8::1", "5f00::1",
	}
}

// public are addresses that a guard must allow.
func public() []string {
	return []string{"1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "192.167.1.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"}
}

func TestGuardJudgesAddresses(t *testing.T) {
	g := newGuard(nil)
	if n := len(hostile()); n != 36 {
		t.Fatalf("the table has %d addresses", n)
	}
	for _, text := range hostile() {
		if !errors.Is(g.check(netip.AddrPortFrom(netip.MustParseAddr(text), 443)), errBlocked) {
			t.Errorf("%s is let through", text)
		}
		if !errors.Is(g.control(context.Background(), "tcp6", net.JoinHostPort(text, "443"), nil), errBlocked) {
			t.Errorf("%s is let through at the socket", text)
		}
	}
	for _, text := range public() {
		if err := g.check(netip.AddrPortFrom(netip.MustParseAddr(text), 443)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1", "localhost:80", "[fe80::1%eth0]:80", "[2606:4700::1111%eth0]:80", ":80", "/run/socket"} {
		if !errors.Is(g.control(context.Background(), "tcp4", bad, nil), errBlocked) {
			t.Errorf("%q is let through at the socket", bad)
		}
	}
	for _, network := range []string{"unix", "udp4", "tcp", "ip4"} {
		if !errors.Is(g.control(context.Background(), network, "1.1.1.1:443", nil), errBlocked) {
			t.Errorf("network %s is let through", network)
		}
	}
}

func TestGuardPorts(t *testing.T) {
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	for port, allowed := range map[uint16]bool{0: false, 22: false, 25: false, 53: false, 80: true, 443: true, 587: false, 1023: false,
		1024: true, 8443: true, 65535: true} {
		if got := g.check(netip.AddrPortFrom(netip.MustParseAddr("1.1.1.1"), port)) == nil; got != allowed {
			t.Errorf("port %d: %v", port, got)
		}
		if g.check(netip.AddrPortFrom(netip.MustParseAddr("10.1.2.3"), port)) != nil {
			t.Errorf("port %d of an address that the operator allows is refused", port)
		}
	}
}

func TestAllowLiftsTheGuardForItsAddressesOnly(t *testing.T) {
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")})
	for text, allowed := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "fd00:ec2::254": true, "128.0.0.1": true,
		"::1": false, "10.0.0.1": false, "::ffff:127.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false, "::7f00:1": false,
		"169.254.169.254": false, "fe80::1": false,
	} {
		if got := g.check(netip.AddrPortFrom(netip.MustParseAddr(text), 443)) == nil; got != allowed {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestGuardProperties: an IPv4 address is judged the same behind NAT64, and no other IPv6 form
// leads to IPv4 at all.
func TestGuardProperties(t *testing.T) {
	g := newGuard(nil)
	blocked := func(b [16]byte) bool { return g.check(netip.AddrPortFrom(netip.AddrFrom16(b), 443)) != nil }
	rapidtest.Check(t, func(t *rapid.T) {
		v4 := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4"))
		rest := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "rest"))
		plain := g.check(netip.AddrPortFrom(netip.AddrFrom4(v4), 443)) != nil
		behind := [16]byte{0, 0x64, 0xff, 0x9b, 12: v4[0], 13: v4[1], 14: v4[2], 15: v4[3]}
		if blocked(behind) != plain {
			t.Fatalf("%v is judged differently behind NAT64", v4)
		}
		mapped := netip.AddrFrom4(v4).As16()
		sixToFour, teredo, low := rest, rest, rest
		sixToFour[0], sixToFour[1] = 0x20, 0x02
		copy(teredo[:], []byte{0x20, 0x01, 0, 0})
		low[0] = 0
		if !blocked(mapped) || !blocked(sixToFour) || !blocked(teredo) || !blocked(low) && !nat64.Contains(netip.AddrFrom16(low)) {
			t.Fatalf("a form that leads to IPv4 is let through: %v %v", v4, rest)
		}
		if rest[0]>>5 != 1 && rest[0] != 0 && !blocked(rest) {
			t.Fatalf("%v is outside of 2000::/3", rest)
		}
	})
}

// answers is a resolver that returns its lists in turn, the last one for ever.
type answers struct {
	lists [][]netip.Addr
	asked atomic.Int32
}

func (a *answers) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n := int(a.asked.Add(1))
	return a.lists[min(n, len(a.lists))-1], nil
}

func answer(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// trap counts connections to a port of this machine, on every loopback address.
type trap struct {
	port string
	hits atomic.Int32
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	trap := &trap{port: port}
	listeners := []net.Listener{l}
	if l6, err := net.Listen("tcp", "[::1]:"+port); err == nil {
		listeners = append(listeners, l6)
	}
	for _, l := range listeners {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				trap.hits.Add(1)
				_ = c.Close()
			}
		}()
		t.Cleanup(func() {
			_ = l.Close()
			<-done
		})
	}
	return trap
}

func TestHostileAddressesAreNeverReached(t *testing.T) {
	trap := newTrap(t)
	for _, text := range hostile() {
		t.Run(text, func(t *testing.T) {
			addr := netip.MustParseAddr(text)
			literal := text
			if addr.Is6() {
				literal = "[" + text + "]"
			}
			for form, c := range map[string]struct {
				host  string
				lists [][]netip.Addr
			}{
				"literal":                {literal, [][]netip.Addr{answer(text)}},
				"answer":                 {"hooks.example", [][]netip.Addr{answer(text)}},
				"mixed answers":          {"hooks.example", [][]netip.Addr{answer("10.0.0.1", text, "::1")}},
				"as resolvers give IPv4": {"hooks.example", [][]netip.Addr{{netip.AddrFrom16(addr.As16())}}},
			} {
				s := sender(t, Options{Resolver: &answers{lists: c.lists}})
				r := send(s, delivery(endpoint("http://"+c.host+":"+trap.port+"/")))
				if r.Outcome.Class != policy.ClassBlocked || s.Stats().Dialed != 0 || s.Stats().Blocked != 1 {
					t.Errorf("%s: %+v, %+v", form, r.Outcome, s.Stats())
				}
				if form != "literal" && strings.Contains(r.Error, text) {
					t.Errorf("%s: the error tells the address: %s", form, r.Error)
				}
			}
		})
	}
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestEveryLayerRefuses: names and literals are judged before a connection is tried, and the socket
// judges again by itself.
func TestEveryLayerRefuses(t *testing.T) {
	trap := newTrap(t)
	port, err := strconv.ParseUint(trap.port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile() {
		s := sender(t, Options{Resolver: &answers{lists: [][]netip.Addr{answer(text)}}})
		a := &attempt{sender: s, deadline: time.Now().Add(10 * time.Second)}
		for _, host := range []string{text, "hooks.example"} {
			if _, err := s.addresses(t.Context(), net.JoinHostPort(host, trap.port), s.rules.Load().guard, a); !errors.Is(err, errBlocked) {
				t.Errorf("%s by the name %s: %v", text, host, err)
			}
		}
	}
	// Connections are tried only to addresses of this machine: a broken guard must not reach other
	// machines.
	s := sender(t, Options{})
	for _, text := range []string{"127.0.0.1", "127.255.255.254", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"} {
		target := netip.AddrPortFrom(netip.MustParseAddr(text), uint16(port))
		if target.Addr().Is6() && !haveIPv6() {
			// no socket exists that could ask; TestGuardJudgesAddresses covers this case
			continue
		}
		if _, err := s.connectAny(t.Context(), []netip.AddrPort{target}, s.rules.Load().guard, time.Now().Add(10*time.Second)); !errors.Is(err, errBlocked) {
			t.Errorf("%s at the socket: %v", text, err)
		}
	}
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func haveIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}

// spellings are ways to write 127.0.0.1 and similar addresses that some parser understands.
func spellings() []string {
	return []string{
		"127.0.0.1",
		"127.0.0.1.",
		"127.1",
		"127.0.1",
		"2130706433",
		"0x7f000001",
		"0x7F.1",
		"0x7f.0x0.0x0.0x1",
		"0177.0.0.1",
		"0177.1",
		"017700000001",
		"127.000.000.001",
		"127.0.0.01",
		"00000127.0.0.1",
		"0",
		"0.0",
		"0.0.0.0",
		"0x0",
		"127.0.0.1..",
		"4294967297",
		"[::1]",
		"[0:0:0:0:0:0:0:1]",
		"[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]",
		"[::FFFF:7F00:0001]",
		"[::127.0.0.1]",
		"[64:ff9b::127.0.0.1]",
		"[2002:7f00:1::]",
		"[::1%25lo]",
		"[::1%25]",
		"[fe80::1%25eth0]",
		"[127.0.0.1]",
		"[localhost]",
		"[::1].",
		"[::1",
		"user@127.0.0.1",
		"user:pw@127.0.0.1",
		"example.com@127.0.0.1",
		"example.com%40127.0.0.1",
		"127.0.0.1%00.example.com",
		"127.0.0.1%2eexample",
		"%31%32%37.0.0.1",
		"\uff11\uff12\uff17.0.0.1",
		"127\u30020\uff0e0\uff611",
		"\u2460\u2461\u2466.0.0.1",
		"\uff10\uff58\uff17\uff46.1",
		"localhost",
		"LocalHost",
		"localhost.",
		"a.localhost",
		"\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54",
		"lo\u00adcalhost",
		"127.0.0.1\t",
		" 127.0.0.1",
		"127.0.0.1\n",
		"127.0.0.1\\",
		"\\127.0.0.1",
		"",
		"[]",
		"-",
		"a..b",
	}
}

func TestOtherSpellingsOfAnAddressAreNeverReached(t *testing.T) {
	trap := newTrap(t)
	for _, host := range spellings() {
		raw := "http://" + host + ":" + trap.port + "/"
		if CheckURL(raw, URLRules{}) == nil {
			t.Errorf("%q can be saved", raw)
		}
		// This resolver understands every spelling, as a C library might.
		s := sender(t, Options{Resolver: &answers{lists: [][]netip.Addr{answer("127.0.0.1", "::1")}}})
		if r := send(s, delivery(endpoint(raw))); r.Outcome.Class != policy.ClassBlocked {
			t.Errorf("%q: %+v", raw, r.Outcome)
		}
	}
	for _, raw := range []string{
		"http://example.com#@127.0.0.1:" + trap.port, "http://127.0.0.1:" + trap.port + "#@example.com", "http:127.0.0.1:" + trap.port,
		"//127.0.0.1:" + trap.port, "gopher://127.0.0.1:" + trap.port, "file:///etc/passwd", "http:///127.0.0.1",
		"http://example.com\\@127.0.0.1:" + trap.port,
	} {
		s := sender(t, Options{Resolver: &answers{lists: [][]netip.Addr{answer("127.0.0.1", "::1")}}})
		if r := send(s, delivery(endpoint(raw))); r.Outcome.Class != policy.ClassBlocked || CheckURL(raw, URLRules{}) == nil {
			t.Errorf("%q: %+v", raw, r.Outcome)
		}
	}
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestTheTrapWorks: the same exchange reaches the listener once the operator allows it. Otherwise
// zero connections prove nothing.
func TestTheTrapWorks(t *testing.T) {
	trap := newTrap(t)
	s := sender(t, Options{Allow: loopback(), Resolver: &answers{lists: [][]netip.Addr{answer("127.0.0.1")}}})
	for i, host := range []string{"127.0.0.1", "hooks.example"} {
		e := endpoint("http://" + host + ":" + trap.port + "/")
		e.ID += strconv.Itoa(i)
		if r := send(s, delivery(e)); r.Outcome.Class != policy.ClassReset {
			t.Errorf("%+v", r)
		}
	}
	if trap.hits.Load() != 2 {
		t.Errorf("%d connections", trap.hits.Load())
	}
}

// second listens at the trap's port on another loopback address. Linux has all of 127.0.0.0/8.
func second(t *testing.T, trap *trap) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:"+trap.port)
	if err != nil {
		t.Fatal("this test needs a second loopback address: ", err)
	}
	return l
}

// TestForbiddenAnswersAreDropped: of mixed answers only the allowed one is dialled. 127.0.0.2 plays
// the public address.
func TestForbiddenAnswersAreDropped(t *testing.T) {
	trap := newTrap(t)
	srv := serveOn(t, second(t, trap), ok)
	s := sender(t, Options{
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		Resolver: &answers{lists: [][]netip.Addr{answer("127.0.0.1", "::1", "127.0.0.2", "10.0.0.1")}},
	})
	if r := send(s, delivery(endpoint("http://hooks.example:"+trap.port+"/"))); r.Outcome.Status != 200 {
		t.Errorf("%+v", r)
	}
	srv.Close()
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("%d connections were made to an address that is not allowed", n)
	}
}

// TestRebinding: a name resolves to a harmless address first and to an internal one later. Every
// connection is judged by the address it uses.
func TestRebinding(t *testing.T) {
	trap := newTrap(t)
	serveOn(t, second(t, trap), closing)
	names := &answers{lists: [][]netip.Addr{answer("127.0.0.2"), answer("127.0.0.1")}}
	s := sender(t, Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Resolver: names})
	d := delivery(endpoint("http://hooks.example:" + trap.port + "/"))
	if r := send(s, d); r.Outcome.Status != 200 {
		t.Fatalf("%+v", r)
	}
	for range 3 {
		if r := send(s, d); r.Outcome.Class != policy.ClassBlocked {
			t.Errorf("%+v", r)
		}
	}
	if names.asked.Load() != 4 {
		t.Errorf("the name was resolved %d times for 4 connections", names.asked.Load())
	}
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestProxiesOfTheEnvironmentAreIgnored: TestMain names a proxy that refuses, before anything can
// read the environment.
func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	if proxy, err := http.ProxyFromEnvironment(
		httptest.NewRequest(http.MethodPost, "http://hooks.example/", nil),
	); err != nil ||
		proxy == nil {
		t.Fatalf("the environment has no proxy (%v); this test would prove nothing", err)
	}
	srv := server(t, ok)
	s := sender(t, Options{Allow: loopback(), Resolver: &answers{lists: [][]netip.Addr{answer("127.0.0.1")}}})
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	if r := send(s, delivery(endpoint("http://hooks.example:"+port+"/"))); r.Outcome.Status != 200 {
		t.Errorf("%+v", r)
	}
}
