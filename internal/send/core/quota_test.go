package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestManySlowEndpoints: more endpoints hang than there are slots, each with more deliveries than
// its limit. A healthy endpoint is served nevertheless, both before and after the core has learnt
// that they hang.
func TestManySlowEndpoints(t *testing.T) {
	const hanging = 150
	s := newShop(Options{Slots: 512})
	for i := range hanging {
		s.endpoint(fmt.Sprint("hang", i), "a", 10*time.Second, 32)
		s.arrive(fmt.Sprint("hang", i), 100)
	}
	s.endpoint("quick", "a", time.Millisecond, 32)
	s.run(time.Second)
	for _, wait := range []time.Duration{0, 5 * time.Second, 10 * time.Second, 20 * time.Second} {
		s.run(wait)
		before := s.got["quick"]
		s.arrive("quick", 50)
		s.run(200 * time.Millisecond)
		if got := s.got["quick"] - before; got != 50 {
			t.Errorf("after %v: %d of 50 were attempted within 200 ms", wait, got)
		}
	}
	slow := 0
	for i := range hanging {
		slow += s.core.endpoints[fmt.Sprint("hang", i)].gate.running
	}
	// The hanging endpoints may hold half of the slots while those are free. After that they share
	// a quarter, and each may hold one more.
	if slow > 256+hanging {
		t.Errorf("the slow ones have %d of 512 slots", slow)
	}
	if n := s.core.quotas.slow.used; n != slow {
		t.Errorf("%d are counted as slow, %d are in flight", n, slow)
	}
}

// TestRetriesLeaveHalfOfTheSlots: new events find slots, however many retries are due.
func TestRetriesLeaveHalfOfTheSlots(t *testing.T) {
	s := newShop(Options{Slots: 16, PerHost: 100})
	for i := range 4 {
		s.endpoint(fmt.Sprint("ep", i), "a", time.Hour, 100)
	}
	for i := range 4 {
		s.again(fmt.Sprint("ep", i), 100)
	}
	s.run(time.Second)
	if n := s.core.running; n != 8 {
		t.Errorf("%d of 16 slots are taken by retries", n)
	}
	s.endpoint("new", "b", 10*time.Millisecond, 100)
	s.arrive("new", 100)
	s.run(time.Second)
	if got := s.got["new"]; got != 100 {
		t.Errorf("%d of 100 new events of another endpoint found a slot", got)
	}
}

// TestReplaysLeaveHalfOfTheSlots: replayed deliveries count like retries, also at the endpoint that
// the replay is for.
func TestReplaysLeaveHalfOfTheSlots(t *testing.T) {
	s := newShop(Options{Slots: 16, PerHost: 100})
	for i := range 4 {
		s.endpoint(fmt.Sprint("ep", i), "a", time.Hour, 100)
		s.replay(fmt.Sprint("ep", i), 100)
	}
	s.run(time.Second)
	if n := s.core.running; n != 8 {
		t.Errorf("%d of 16 slots are taken by replays", n)
	}
	s.endpoint("new", "b", 10*time.Millisecond, 100)
	s.replay("new", 100)
	s.arrive("new", 100)
	s.run(time.Second)
	if got := s.got["new"]; got != 100 {
		t.Errorf("%d attempts of an endpoint with 100 new events, behind 100 that are replayed, found a slot", got)
	}
}

// TestHostLimit: a tenant's endpoints at one host share its limit, however their URLs spell the
// host, and none of them takes it all. Another tenant has its own limit there.
func TestHostLimit(t *testing.T) {
	s := newShop(Options{Slots: 64, PerHost: 6})
	s.at("https://shared.test/", "other", "another", 100*time.Millisecond)
	s.arrive("other", 30)
	for i, url := range []string{"https://shared.test/", "https://SHARED.test:443/1", "https://shared.test./2", "https://shared.test/3"} {
		s.at(url, fmt.Sprint("ep", i), "b", 100*time.Millisecond)
		s.arrive(fmt.Sprint("ep", i), 30)
	}
	s.at("https://shared.test:8443/", "elsewhere", "b", 100*time.Millisecond)
	s.arrive("elsewhere", 30)
	most := 0
	for range 200 {
		s.run(10 * time.Millisecond)
		at := 0
		for i := range 4 {
			at += s.core.endpoints[fmt.Sprint("ep", i)].gate.running
		}
		most = max(most, at)
	}
	if most != 6 {
		t.Errorf("%d requests at once at a host with a limit of 6", most)
	}
	for i := range 4 {
		if got := s.got[fmt.Sprint("ep", i)]; got < 20 {
			t.Errorf("endpoint %d of 4 got %d of 30 attempts in the time for %d", i, got, 20*6/4)
		}
	}
	for _, id := range []string{"elsewhere", "other"} {
		if got := s.got[id]; got != 30 {
			t.Errorf("%s %d of 30", id, got)
		}
	}
	s.run(time.Minute)
	if len(s.core.quotas.perHost) > 0 {
		t.Errorf("%d hosts are remembered with nothing in flight", len(s.core.quotas.perHost))
	}
}

// TestLateGivesWay: a thousand endpoints have a backlog each, and one has a delivery now and then.
// Deliveries on time are attempted at once. While commits are slow, late deliveries get few slots;
// without deliveries on time they get all.
func TestLateGivesWay(t *testing.T) {
	s := newShop(Options{Slots: 512, PerHost: 512})
	for i := range 100 {
		s.endpoint(fmt.Sprint("old", i), "a", 5*time.Millisecond, 32)
		s.arrive(fmt.Sprint("old", i), 1) // so that the endpoint is no longer unproven
	}
	s.endpoint("new", "b", 5*time.Millisecond, 32)
	s.arrive("new", 1)
	s.run(time.Second)
	s.commit = func(waiting int) time.Duration { return time.Duration(1+waiting) * time.Millisecond }
	for i := range 100 {
		s.late(fmt.Sprint("old", i), 200, 5*time.Second)
	}
	most := 0
	for range 200 {
		before := s.got["new"]
		s.arrive("new", 1)
		if s.got["new"] == before {
			t.Fatal("what is on time is not attempted at once")
		}
		s.run(20 * time.Millisecond)
		_, recording := s.core.Busy()
		most = max(most, recording)
	}
	if most > 200 {
		t.Errorf("%d outcomes waited to become durable at once", most)
	}
	before := 0
	for i := range 100 {
		before += s.got[fmt.Sprint("old", i)]
	}
	s.run(2 * time.Minute)
	for i := range 100 {
		if got := s.got[fmt.Sprint("old", i)]; got != 201 {
			t.Errorf("endpoint %d got %d of 201", i, got)
		}
	}
	if l := &s.core.late; l.places.used != 0 || l.prompts != 0 {
		t.Errorf("%d places are still taken, %d attempts on time still counted", l.places.used, l.prompts)
	}
	if before < 500 {
		t.Errorf("only %d late ones were attempted beside what was on time", before)
	}
}

// TestOutcomesThatComeTogetherWakeAFewEndpoints: many outcomes in one input free as many slots for
// late deliveries. As many endpoints that wait for one are looked at, not as many for each outcome.
func TestOutcomesThatComeTogetherWakeAFewEndpoints(t *testing.T) {
	const places, together = 40, 30
	s := newShop(Options{Slots: 512, PerHost: 512})
	for i := range 500 {
		s.endpoint(fmt.Sprint("old", i), "a", time.Millisecond, 32)
		s.arrive(fmt.Sprint("old", i), 1)
	}
	s.endpoint("new", "b", time.Millisecond, 32)
	s.run(time.Second)
	s.arrive("new", 1)
	s.commit = func(int) time.Duration { return time.Hour }
	s.core.late.limit = places
	for i := range 500 {
		s.late(fmt.Sprint("old", i), 5, time.Minute)
	}
	s.run(10 * time.Millisecond)
	var all Recorded
	for _, j := range s.agenda {
		if in, is := j.in.(Recorded); is && in.Changes[0].Endpoint != "new" && len(all.Changes) < together {
			all.Changes, all.Results = append(all.Changes, in.Changes...), append(all.Results, in.Results...)
		}
	}
	s.now = s.now.Add(time.Millisecond)
	s.core.late.judged = s.now // the limit stays
	before := s.core.running
	s.step(all)
	refused := 0
	for _, ep := range s.core.endpoints {
		if ep.refusedAt.Equal(s.now) {
			refused++
		}
	}
	if begun := s.core.running - before; len(all.Changes) != together || begun != together || refused > 2*together {
		t.Errorf("%d outcomes let %d attempts begin, and %d endpoints were refused again", len(all.Changes), begun, refused)
	}
}

// TestASlowStoreIsNoReasonToBeLate: commits of a shared store are slow and vary, for every endpoint
// alike. Endpoints with a backlog progress beside one that is on time.
func TestASlowStoreIsNoReasonToBeLate(t *testing.T) {
	s := newShop(Options{Slots: 512, PerHost: 512, Shared: true})
	dice := rand.New(rand.NewPCG(1, 2))
	s.commit = func(waiting int) time.Duration {
		return time.Duration(2000+dice.IntN(4000)+20*waiting) * time.Microsecond
	}
	for i := range 100 {
		s.endpoint(fmt.Sprint("old", i), "a", time.Millisecond, 32)
		s.arrive(fmt.Sprint("old", i), 1)
	}
	s.endpoint("new", "b", time.Millisecond, 32)
	s.arrive("new", 1)
	s.run(2 * time.Second)
	for i := range 100 {
		s.late(fmt.Sprint("old", i), 200, time.Minute)
	}
	for range 1000 { // 10 s
		s.arrive("new", 1)
		s.run(10 * time.Millisecond)
	}
	got := 0
	for i := range 100 {
		got += s.got[fmt.Sprint("old", i)] - 1
	}
	if got < 10_000 {
		t.Errorf("%d of 20000 late deliveries were attempted in ten seconds", got)
	}
}

// TestRefusedOnesGetTheirTurn: with quotas of one each, every endpoint is served in the end.
func TestRefusedOnesGetTheirTurn(t *testing.T) {
	for slots := 1; slots <= 9; slots++ {
		for perHost := 1; perHost <= 4; perHost++ {
			s := newShop(Options{Slots: slots, PerHost: perHost})
			for i := range 6 {
				s.at(fmt.Sprintf("https://host%d.test/", i%2), fmt.Sprint("ep", i), "a", time.Duration(1+i*700)*time.Millisecond)
				s.arrive(fmt.Sprint("ep", i), 7)
				s.again(fmt.Sprint("ep", i), 7)
			}
			s.run(10 * time.Minute)
			for i := range 6 {
				if got := s.got[fmt.Sprint("ep", i)]; got != 14 {
					t.Errorf("%d slots, %d for each host: endpoint %d got %d of 14 attempts", slots, perHost, i, got)
				}
			}
		}
	}
}

// TestPlacesAreNotLost: an endpoint that holds its half of a host is listed before others that wait
// for the host. Each free slot still starts one of the others.
func TestPlacesAreNotLost(t *testing.T) {
	s := newShop(Options{PerHost: 8})
	at := func(id string, takes time.Duration, n int) {
		s.at("https://shared.test/"+id, id, "a", takes)
		s.arrive(id, n)
	}
	at("greedy", time.Hour, 9)
	at("short", 100*time.Millisecond, 4)
	for i := range 4 {
		at(fmt.Sprint("patient", i), time.Hour, 1)
	}
	s.run(200 * time.Millisecond)
	if n := s.core.quotas.host(destination{"a", "shared.test:443"}).used; n != 8 {
		t.Errorf("%d of the host's 8 places are in use: %v", n, s.got)
	}
}
