package ownership

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestOverview puts nodes of every kind beside shards of every kind.
func TestOverview(t *testing.T) {
	s := &Shards{cluster: Options{Node: store.Node{ID: "a"}, Lease: 15 * time.Second}}
	nodes := []store.Node{
		{ID: "a", Address: "http://a", Ago: time.Second},
		{ID: "b", Ago: 2 * time.Second, Draining: true},
		{ID: "c", Ago: 8 * time.Second},
	}
	there := []store.Shard{
		{Number: 0, Owner: "a", Left: 12 * time.Second},
		// it should have been renewed at ten seconds left
		{Number: 1, Owner: "a", Left: 4 * time.Second},
		{Number: 2, Owner: "b", Left: 6 * time.Second},
		{Number: 3, Owner: "c", Left: time.Second},
		{Number: 4, Owner: "c"}, // expired, but no node has taken the shard
		{Number: 5},
		{Number: 6, Owner: "long gone", Left: time.Second},
	}
	want := grapnel.Cluster{Asked: "a", Shared: true, Shards: 7, Free: []int{4, 5}, Nodes: []grapnel.Member{
		// draining and silent nodes get no shard
		{ID: "a", Address: "http://a", Seen: time.Second, State: grapnel.MemberUp, Shards: 2, Lagging: 1, Intended: 7},
		{ID: "b", Seen: 2 * time.Second, State: grapnel.MemberDraining, Shards: 1},
		{ID: "c", Seen: 8 * time.Second, State: grapnel.MemberSilent, Shards: 1, Lagging: 1},
	}}
	if d := cmp.Diff(want, s.overview(nodes, there)); d != "" {
		t.Error(d)
	}
}

// watched is an Ownership that allows only reads.
type watched struct {
	store.Ownership
	err error
}

func (w watched) Nodes(context.Context, time.Duration) ([]store.Node, error) { return nil, w.err }
func (w watched) ShardList(context.Context) ([]store.Shard, error)           { return nil, w.err }

// TestClusterOnlyAsks: the answer comes from the store at once, and fails without the store.
func TestClusterOnlyAsks(t *testing.T) {
	away := errors.New("away")
	for _, err := range []error{nil, away} {
		s := &Shards{cluster: Options{Ownership: watched{err: err}, Lease: time.Second}}
		if c, got := s.Cluster(t.Context()); !errors.Is(got, err) || (err == nil) != c.Shared {
			t.Errorf("with %v: %+v, %v", err, c, got)
		}
	}
	if c, err := (*Shards)(nil).Cluster(t.Context()); c.Shared || err != nil {
		t.Errorf("alone: %+v, %v", c, err)
	}
}

func TestReaches(t *testing.T) {
	if err := (*Shards)(nil).Reaches(); err != nil {
		t.Errorf("alone: %v", err)
	}
	now := time.Now()
	s := &Shards{
		env:     Env{Now: func() time.Time { return now }},
		cluster: Options{Lease: time.Minute, Steady: func() time.Duration { return time.Hour }},
	}
	if grapnel.CodeOf(s.Reaches()) != grapnel.CodeUnavailable {
		t.Error("it has not been at the store yet")
	}
	if s.reached, s.current = s.now(), s.now(); s.Reaches() != nil {
		t.Error("it has just been there")
	}
	if s.stalled = "recorder"; grapnel.CodeOf(s.Reaches()) != grapnel.CodeUnavailable {
		t.Error("a loop stands still")
	}
	s.stalled = ""
	if s.reached = s.now().add(-2 * time.Minute); grapnel.CodeOf(s.Reaches()) != grapnel.CodeUnavailable {
		t.Error("that is too long ago")
	}
}

// TestCurrent: a node's memory counts from the beginning of the round that read it, until a margin
// before the end of a lease. Of the two clocks the one that shows more time counts: one of them
// stops while the process, or the machine, is suspended.
func TestCurrent(t *testing.T) {
	if err := (*Shards)(nil).Current(); err != nil {
		t.Errorf("alone: %v", err)
	}
	wall, steady := time.Now(), time.Hour
	s := &Shards{
		env:     Env{Now: func() time.Time { return wall }},
		cluster: Options{Lease: time.Minute, Steady: func() time.Duration { return steady }},
		joined:  make(chan struct{}),
	}
	if grapnel.CodeOf(s.Current()) != grapnel.CodeUnavailable {
		t.Error("it has read nothing yet")
	}
	s.caughtUp(s.now())
	<-s.joined
	s.caughtUp(s.now())
	most := time.Minute - leaseMargin
	for _, c := range []struct {
		wall, steady time.Duration
		current      bool
	}{{0, 0, true}, {most - 1, most - 1, true}, {most, 0, false}, {0, most, false}, {-time.Hour, most - 1, true}} {
		before, then := wall, steady
		wall, steady = wall.Add(c.wall), steady+c.steady
		if err := s.Current(); (err == nil) != c.current {
			t.Errorf("%v, %v later: %v", c.wall, c.steady, err)
		}
		wall, steady = before, then
	}
}
