package core

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// slowest is the longest time from an event to its receiver's answer, of one event a second for
// each of the endpoints.
func (s *shop) slowest(seconds int, ids ...string) (worst time.Duration) {
	for range seconds {
		for _, id := range ids {
			before, since := s.got[id], s.now
			s.arrive(id, 1)
			for s.got[id] == before && s.now.Sub(since) < 10*time.Second {
				s.run(time.Millisecond)
			}
			worst = max(worst, s.now.Sub(since)+s.takes[id])
		}
		s.run(time.Second)
	}
	return worst
}

// attacks are ways in which one tenant can hold slots, and slots of a host, for ten minutes.
var attacks = map[string]func(s *shop){
	"new endpoints at the host": func(s *shop) {
		for i := range 40 {
			s.at(fmt.Sprint("http://127.0.0.1:19201/", i), fmt.Sprint("a", i), "a", 10*time.Minute)
			s.arrive(fmt.Sprint("a", i), 100)
		}
	},
	"new endpoints at ports of the host": func(s *shop) {
		for i := range 1000 {
			s.at(fmt.Sprintf("http://127.0.0.1:%d/", 20000+i), fmt.Sprint("a", i), "a", 10*time.Minute)
			s.arrive(fmt.Sprint("a", i), 10)
		}
	},
	"endpoints at the host that have answered": func(s *shop) {
		s.answeredOnce(40, func(int) int { return 19201 })
		for i := range 40 {
			s.arrive(fmt.Sprint("a", i), 100)
		}
	},
	"endpoints at ports of the host that have answered": func(s *shop) {
		s.answeredOnce(1000, func(i int) int { return 20000 + i })
		for i := range 1000 {
			s.arrive(fmt.Sprint("a", i), 10)
		}
	},
	"retries": func(s *shop) {
		s.answeredOnce(40, func(i int) int { return 20000 + i })
		for i := range 40 {
			s.again(fmt.Sprint("a", i), 100)
		}
	},
}

// answeredOnce makes endpoints of tenant a that answer at once, once; from then on they hang.
func (s *shop) answeredOnce(n int, port func(i int) int) {
	for i := range n {
		id := fmt.Sprint("a", i)
		s.at(fmt.Sprintf("http://127.0.0.1:%d/", port(i)), id, "a", time.Millisecond)
		s.arrive(id, 1)
	}
	s.run(time.Second)
	for i := range n {
		s.takes[fmt.Sprint("a", i)] = 10 * time.Minute
	}
}

// TestOneTenantDoesNotStallAnother: while any attempts of one tenant hang, another tenant's events
// arrive as soon as without them: at the same host and port, and at a new endpoint at another port.
func TestOneTenantDoesNotStallAnother(t *testing.T) {
	play := func(attack func(s *shop)) time.Duration {
		s := newShop(Options{})
		s.at("http://127.0.0.1:19201/b", "same", "b", 10*time.Millisecond)
		s.at("http://127.0.0.1:19100/b", "port", "b", 10*time.Millisecond)
		s.arrive("same", 1)
		s.run(time.Second)
		attack(s)
		s.run(time.Second)
		worst := s.slowest(5, "same", "port")
		for again := range 3 { // A makes its endpoints anew
			for _, id := range slices.Sorted(maps.Keys(s.core.endpoints)) {
				if ep := s.core.endpoints[id]; ep.config.Tenant == "a" {
					gone := *ep.config
					gone.DeletedAt, gone.Revision = s.now, 2
					s.step(Configured{Endpoint: &gone})
				}
			}
			for i := range 40 {
				id := fmt.Sprint("again", again, "-", i)
				s.at("http://127.0.0.1:19201/"+id, id, "a", 10*time.Minute)
				s.arrive(id, 100)
			}
			worst = max(worst, s.slowest(5, "same", "port"))
		}
		return worst
	}
	none := play(func(*shop) {})
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			if worst := play(attack); worst > none*12/10 {
				t.Errorf("the slowest event took %v, and %v without", worst, none)
			}
		})
	}
}

// TestRetriesBesideAnotherTenants: one tenant's retries hang; another one's are attempted.
func TestRetriesBesideAnotherTenants(t *testing.T) {
	s := newShop(Options{})
	s.endpoint("b", "b", 10*time.Millisecond, 32)
	attacks["retries"](s)
	s.again("b", 100)
	s.run(time.Second)
	if got := s.got["b"]; got != 100 {
		t.Errorf("%d of 100 retries were attempted while another tenant's hang", got)
	}
}

// TestUnprovenEndpoints: until an attempt has finished an endpoint has few in flight, and all such
// endpoints of a tenant leave half of the slots to other tenants.
func TestUnprovenEndpoints(t *testing.T) {
	s := newShop(Options{Slots: 64})
	s.endpoint("other", "b", time.Millisecond, 32)
	s.endpoint("first", "a", time.Minute, 32)
	s.arrive("first", 100)
	if s.run(time.Second); s.got["first"] != 8 {
		t.Errorf("a new endpoint has %d in flight, want 8", s.got["first"])
	}
	s.run(time.Minute)
	if n := s.core.endpoints["first"].gate.running; n <= 8 {
		t.Errorf("one that has answered has %d in flight", n)
	}
	s.run(10 * time.Minute)
	for i := range 100 {
		s.endpoint(fmt.Sprint("new", i), "a", 10*time.Second, 32)
		s.arrive(fmt.Sprint("new", i), 3)
	}
	if s.run(time.Second); s.core.running != 32 {
		t.Errorf("a tenant's new endpoints have %d of 64 slots", s.core.running)
	}
	if s.run(5 * time.Minute); s.core.running != 0 || s.got["new99"] != 3 {
		t.Errorf("%d are in flight, the last one has made %d of 3 attempts", s.core.running, s.got["new99"])
	}
}
