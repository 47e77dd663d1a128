package engine

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
	s := &shards{cluster: Cluster{Node: store.Node{ID: "a"}, Lease: 15 * time.Second}}
	nodes := []store.Node{{ID: "a", Address: "http://a", Ago: time.Second}, {ID: "b", Ago: 2 * time.Second, Draining: true}, {ID: "c", Ago: 8 * time.Second}}
	there := []store.Shard{
		{Number: 0, Owner: "a", Left: 12 * time.Second},
		{Number: 1, Owner: "a", Left: 4 * time.Second}, // should have been renewed when ten were left
		{Number: 2, Owner: "b", Left: 6 * time.Second},
		{Number: 3, Owner: "c", Left: time.Second},
		{Number: 4, Owner: "c"}, // over, but nobody has taken it
		{Number: 5},
		{Number: 6, Owner: "long gone", Left: time.Second},
	}
	want := grapnel.Cluster{Asked: "a", Shared: true, Shards: 7, Free: []int{4, 5}, Nodes: []grapnel.Member{
		{ID: "a", Address: "http://a", Seen: time.Second, State: grapnel.MemberUp, Shards: 2, Lagging: 1, Intended: 7}, // who drains or is silent gets none
		{ID: "b", Seen: 2 * time.Second, State: grapnel.MemberDraining, Shards: 1},
		{ID: "c", Seen: 8 * time.Second, State: grapnel.MemberSilent, Shards: 1, Lagging: 1},
	}}
	if d := cmp.Diff(want, s.overview(nodes, there)); d != "" {
		t.Error(d)
	}
}

// watched is an Ownership that only tells.
type watched struct {
	store.Ownership
	err error
}

func (w watched) Nodes(context.Context, time.Duration) ([]store.Node, error) { return nil, w.err }
func (w watched) ShardList(context.Context) ([]store.Shard, error)           { return nil, w.err }

// TestClusterOnlyAsks: the answer comes from the store at once, and without it there is none.
func TestClusterOnlyAsks(t *testing.T) {
	away := errors.New("away")
	for _, err := range []error{nil, away} {
		e := &Engine{shards: &shards{cluster: Cluster{Ownership: watched{err: err}, Lease: time.Second}}}
		if c, got := e.Cluster(t.Context()); !errors.Is(got, err) || (err == nil) != c.Shared {
			t.Errorf("with %v: %+v, %v", err, c, got)
		}
	}
	if c, err := new(Engine).Cluster(t.Context()); c.Shared || err != nil {
		t.Errorf("alone: %+v, %v", c, err)
	}
}

func TestReaches(t *testing.T) {
	if err := new(Engine).Reaches(); err != nil {
		t.Errorf("alone: %v", err)
	}
	now := time.Now()
	e := &Engine{now: func() time.Time { return now }}
	s := &shards{e: e, cluster: Cluster{Lease: time.Minute, Steady: func() time.Duration { return time.Hour }}}
	e.shards = s
	if grapnel.CodeOf(e.Reaches()) != grapnel.CodeUnavailable {
		t.Error("it has not been at the store yet")
	}
	if s.reached, s.current = s.now(), s.now(); e.Reaches() != nil {
		t.Error("it has just been there")
	}
	if s.stalled = "recorder"; grapnel.CodeOf(e.Reaches()) != grapnel.CodeUnavailable {
		t.Error("a loop stands still")
	}
	s.stalled = ""
	if s.reached = s.now().add(-2 * time.Minute); grapnel.CodeOf(e.Reaches()) != grapnel.CodeUnavailable {
		t.Error("that is too long ago")
	}
}

// TestCurrent: what a node remembers counts from the beginning of the round that read it, until a margin before the end of a lease, by
// whichever clock says that more time has passed: one of them stands still while the process, or the machine, does.
func TestCurrent(t *testing.T) {
	if err := new(Engine).Current(); err != nil {
		t.Errorf("alone: %v", err)
	}
	wall, steady := time.Now(), time.Hour
	e := &Engine{now: func() time.Time { return wall }}
	s := &shards{e: e, cluster: Cluster{Lease: time.Minute, Steady: func() time.Duration { return steady }}, joined: make(chan struct{})}
	e.shards = s
	if grapnel.CodeOf(e.Current()) != grapnel.CodeUnavailable {
		t.Error("it has read nothing yet")
	}
	e.config.Store(&configuration{})
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
		if _, known, err := e.Caller([32]byte{}); known || (err == nil) != c.current {
			t.Errorf("%v, %v later: %v", c.wall, c.steady, err)
		}
		wall, steady = before, then
	}
}
