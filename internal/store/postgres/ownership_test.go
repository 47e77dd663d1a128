package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
	"github.com/grapnelhq/grapnel/policy"
)

func acquire(t *testing.T, s *Store, node string, lease time.Duration, shards ...int) map[int]int64 {
	t.Helper()
	owned, err := s.Acquire(t.Context(), node, shards, lease)
	if err != nil {
		t.Fatal(err)
	}
	epochs := make(map[int]int64)
	for _, o := range owned {
		epochs[o.Shard] = o.Epoch
	}
	return epochs
}

func TestShards(t *testing.T) {
	all := nodes(t, 2)
	a, b := all[0], all[1]
	if got := acquire(t, a, "a", time.Minute, 1, 2, 255); len(got) != 3 || got[1] != 1 || got[255] != 1 {
		t.Fatalf("a has %v", got)
	}
	if got := acquire(t, b, "b", time.Minute, 2, 3); len(got) != 1 || got[3] != 1 {
		t.Fatalf("b has %v: 2 is a's", got)
	}
	if got := acquire(t, a, "a", time.Minute, 1); len(got) != 0 {
		t.Fatalf("a has %v once more", got)
	}
	kept, err := b.Renew(t.Context(), "b", []store.Owned{{Shard: 3, Epoch: 1}, {Shard: 2, Epoch: 1}, {Shard: 3, Epoch: 7}}, time.Minute)
	if err != nil || len(kept) != 1 || kept[0] != (store.Owned{Shard: 3, Epoch: 1}) {
		t.Fatalf("b keeps %v, %v", kept, err)
	}
	if err := a.Release(t.Context(), "a", []store.Owned{{Shard: 2, Epoch: 1}}); err != nil {
		t.Fatal(err)
	}
	if got := acquire(t, b, "b", time.Minute, 1, 2); len(got) != 1 || got[2] != 2 {
		t.Fatalf("b has %v: 2 was given back", got)
	}
	if kept, err = a.Renew(t.Context(), "a", []store.Owned{{Shard: 1, Epoch: 1}, {Shard: 2, Epoch: 1}}, -time.Second); err != nil ||
		len(kept) != 1 {
		t.Fatalf("a keeps %v, %v", kept, err)
	}
	if got := acquire(t, b, "b", time.Minute, 1); got[1] != 2 {
		t.Fatalf("b has %v: the lease of 1 was over", got)
	}
	list, err := a.ShardList(t.Context())
	if err != nil || len(list) != store.Shards {
		t.Fatalf("%d shards, %v", len(list), err)
	}
	for _, is := range list {
		owners := map[int]string{1: "b", 2: "b", 3: "b", 255: "a"}
		if is.Owner != owners[is.Number] || (is.Left > 0) != (is.Owner != "") || is.Left > time.Minute {
			t.Errorf("shard %+v", is)
		}
	}
	acting := func(want ...string) {
		t.Helper()
		nodes, err := a.Acting(t.Context(), time.Minute)
		got := rows.Column(nodes, func(n store.Node) string { return n.ID })
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q act, want %q, %v", got, want, err)
		}
	}
	acting("a", "b")
	if _, err = a.Renew(t.Context(), "a", []store.Owned{{Shard: 255, Epoch: 1}}, -time.Second); err != nil {
		t.Fatal(err)
	}
	acting("b") // a's lease has expired
	for _, n := range []store.Node{{ID: "b", Address: "http://b", Version: 7}, {ID: "c", Address: "http://c"}} {
		if _, err := a.Beat(t.Context(), n, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	acting("b", "c") // c owns no shard, but is live
	if acting, err := a.Acting(t.Context(), -time.Minute); err != nil || len(acting) != 1 ||
		acting[0] != (store.Node{ID: "b", Address: "http://b", Version: 7}) {
		t.Errorf("of nodes that were never there %+v act, %v", acting, err)
	}
}

func TestFresh(t *testing.T) {
	all := nodes(t, 2)
	a, b := all[0], all[1]
	_, err := a.Append(t.Context(), store.Batch{Config: version(t, a), Events: []store.Incoming{
		incomingTo("e1", "k", "ep_a", "ep_b"), incomingTo("e2", "k", "ep_a"), incomingTo("e3", "", "ep_a")}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := a.Heads(t.Context(), "ep_a", 10)
	if err != nil || len(want) != 2 || a.ShardOf("ep_a") == a.ShardOf("ep_b") {
		t.Fatal(want, err)
	}
	mine := []int{a.ShardOf("ep_a")}
	for _, c := range []struct {
		after int64
		limit int
		want  []store.Head
	}{{0, 10, want}, {0, 1, want[:1]}, {want[0].Delivery, 10, want[1:]}, {want[1].Delivery, 10, want[:0]}} {
		got, err := b.Fresh(t.Context(), mine, c.after, c.limit)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("after %d: %+v, %v, want %+v", c.after, got, err, c.want)
		}
	}
	if got, err := b.Fresh(t.Context(), nil, 0, 10); err != nil || len(got) != 0 {
		t.Errorf("of no shard: %+v, %v", got, err)
	}
}

func TestBeat(t *testing.T) {
	all := nodes(t, 2)
	if _, err := all[0].Beat(t.Context(), store.Node{ID: "a", Address: "http://a", Fingerprint: "af"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	there, err := all[1].Beat(t.Context(), store.Node{ID: "b", Address: "http://b", Draining: true}, time.Minute)
	if err != nil || len(there) != 2 || there[0].Address != "http://a" || there[0].Fingerprint != "af" || !there[1].Draining || there[1].Ago < 0 ||
		there[1].Ago > time.Minute {
		t.Fatalf("%+v, %v", there, err)
	}
	for range 2 { // a question changes nothing
		if there, err = all[0].Nodes(t.Context(), time.Minute); err != nil || len(there) != 2 || there[0].ID != "a" ||
			there[1].Address != "http://b" || !there[1].Draining {
			t.Fatalf("%+v, %v", there, err)
		}
	}
	if there, err = all[0].Nodes(t.Context(), -time.Second); err != nil || len(there) != 0 {
		t.Fatalf("within no time: %+v, %v", there, err)
	}
	if err := all[0].Leave(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if there, err = all[1].Beat(t.Context(), store.Node{ID: "b"}, time.Minute); err != nil || len(there) != 1 {
		t.Fatalf("%+v, %v", there, err)
	}
}

// TestKilledNodesAreForgotten: a row of a node that was killed does not stay until some node stops.
func TestKilledNodesAreForgotten(t *testing.T) {
	s := nodes(t, 1)[0]
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO node SELECT 'killed' || n, '', false, now() - interval '12 hours' * n
		FROM generate_series(1, 9) n`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beat(t.Context(), store.Node{ID: "a"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if there, err := s.Nodes(t.Context(), 100*24*time.Hour); err != nil || len(there) != 2 {
		t.Errorf("%+v, %v", there, err)
	}
}

// TestFence: no write of an epoch has an effect once a later epoch was given. Until then every
// write has.
func TestFence(t *testing.T) {
	all := nodes(t, 2)
	a, b := all[0], all[1]
	if _, err := a.PutEndpoint(t.Context(), store.Everyone(), endpoint(t, "ep_a"), store.With{}); err != nil {
		t.Fatal(err)
	}
	shard := a.ShardOf("ep_a")
	old := acquire(t, a, "a", -time.Second, shard)[shard] // its lease expires at once
	_, err := a.Append(t.Context(), store.Batch{Config: version(t, a), Events: []store.Incoming{
		incomingTo("e1", "k", "ep_a"), incomingTo("e2", "k", "ep_a"), incomingTo("e3", "", "ep_a")}})
	if err != nil {
		t.Fatal(err)
	}
	heads, err := a.Heads(t.Context(), "ep_a", 10)
	if err != nil || len(heads) != 2 {
		t.Fatal(heads, err)
	}
	first := deliver(heads[0])
	first.Epoch = old
	if is, err := a.Record(t.Context(), []store.Change{first}); err != nil || !is[0].Applied || is[0].Fenced {
		t.Fatalf("while the epoch lasts, even after the lease: %+v, %v", is, err)
	}

	fresh := acquire(t, b, "b", time.Minute, shard)[shard]
	if fresh != old+1 {
		t.Fatalf("epoch %d after %d", fresh, old)
	}
	late := deliver(heads[1])
	late.Epoch, late.Standing = old, &store.Standing{Endpoint: "ep_a", Number: 9, Standing: policy.Standing{}}
	late.Operational = &store.Batch{Config: version(t, a), Events: []store.Incoming{incomingTo("news", "", "ep_a")}}
	late.Audit = &grapnel.AuditEntry{At: at(1), Tenant: "acme", Actor: "key_1", Verb: grapnel.VerbSkip}
	is, err := a.Record(t.Context(), []store.Change{late})
	if err != nil || is[0] != (store.Changed{Fenced: true}) {
		t.Fatalf("after the epoch: %+v, %v", is, err)
	}
	if _, err := a.End(t.Context(), "ep_a", store.Ending{Status: grapnel.Dropped, At: at(9), Epoch: old}, 10); !errors.Is(err,
		store.ErrFenced) {
		t.Errorf("End: %v", err)
	}
	wide := deliver(heads[1])
	wide.Status, wide.Due, wide.EndpointWide, wide.Epoch = grapnel.Pending, at(60), true, fresh
	if is, err := b.Record(t.Context(), []store.Change{wide}); err != nil || !is[0].Applied {
		t.Fatalf("the new owner: %+v, %v", is, err)
	}
	if _, err := a.MakeDue(t.Context(), "ep_a", store.MakingDue{Before: at(50), At: at(20), Epoch: old}, 10); !errors.Is(err, store.ErrFenced) {
		t.Errorf("MakeDue: %v", err)
	}
	for what, count := range map[string]func() (int, error){
		"standings": func() (int, error) { all, err := b.Standings(t.Context()); return len(all), err },
		"entries": func() (int, error) {
			all, err := b.AuditList(t.Context(), store.Everyone(), store.AuditQuery{Limit: 9})
			return len(all), err
		},
		"news": func() (int, error) {
			all, err := b.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 9})
			return len(all) - 3, err
		},
	} {
		if n, err := count(); n != 0 || err != nil {
			t.Errorf("%d %s of an epoch that is over, %v", n, what, err)
		}
	}
	if n, err := b.MakeDue(t.Context(), "ep_a", store.MakingDue{Before: at(50), At: at(20), Epoch: fresh}, 10); n != 1 || err != nil {
		t.Errorf("the new owner makes due %d, %v", n, err)
	}
	if n, err := b.End(t.Context(), "ep_a", store.Ending{Status: grapnel.Dropped, At: at(9), Epoch: fresh}, 10); n != 2 || err != nil {
		t.Errorf("the new owner ends %d, %v", n, err)
	}
}

func endpoint(t *testing.T, id string) grapnel.Endpoint {
	t.Helper()
	standard, there := policy.Preset("standard")
	if !there {
		t.Fatal("there is no preset of this name")
	}
	return grapnel.Endpoint{ID: id, Tenant: "acme", Policy: standard}
}

// TestTakeover: nodes take a shard from each other while all write as if they owned it. Exactly one
// node records each retry of each delivery; the attempts name the epoch. Epochs never fall, and no
// write of an epoch follows the first read of the next epoch's owner.
func TestTakeover(t *testing.T) {
	t.Parallel()
	const rounds = 12
	all := nodes(t, 3)
	shard := all[0].ShardOf("ep_a")
	config := version(t, all[0])
	if _, err := all[0].Append(t.Context(), store.Batch{Config: config, Events: []store.Incoming{incomingTo("e", "k", "ep_a")}}); err != nil {
		t.Fatal(err)
	}
	heads, err := all[0].Heads(t.Context(), "ep_a", 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	var epochs [3]atomic.Int64 // the epoch that each node believes it has
	var fenced, applied atomic.Int64
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for n, s := range all {
		writing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				epoch := epochs[n].Load()
				if epoch == 0 {
					_, _, _ = s.Version(ctx) // takes a moment
					continue
				}
				c := deliver(heads[0])
				c.Expect, c.Status, c.Due, c.Epoch = store.AnyAttempts, grapnel.Pending, at(60), epoch
				c.Attempt.Number = int(epoch)
				is, err := s.Record(ctx, []store.Change{c})
				switch {
				case err != nil:
					t.Errorf("Record: %v", err)
					return
				case is[0].Fenced:
					fenced.Add(1)
				case is[0].Applied:
					applied.Add(1)
				}
			}
		})
	}
	seen := make(map[int64]int) // number of attempts at the beginning of an epoch
	for round := range rounds {
		n := round % len(all)
		owned, err := all[n].Acquire(ctx, fmt.Sprint("node", n), []int{shard}, -time.Second)
		if err != nil || len(owned) != 1 || owned[0].Epoch != int64(round+1) {
			t.Fatalf("round %d: %v, %v", round, owned, err)
		}
		d, err := all[n].Delivery(ctx, store.Everyone(), heads[0].Delivery)
		if err != nil {
			t.Fatal(err)
		}
		seen[owned[0].Epoch] = len(d.Attempts)
		before := applied.Load()
		epochs[n].Store(owned[0].Epoch)
		for tries := 0; applied.Load() < before+3 && tries < 10_000; tries++ {
			if _, _, err := all[n].Version(ctx); err != nil { // takes a moment
				t.Fatal(err)
			}
		}
	}
	close(stop)
	writing.Wait()
	d, err := all[0].Delivery(ctx, store.Everyone(), heads[0].Delivery)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for i, a := range d.Attempts {
		if a.Number < last {
			t.Fatalf("attempt %d was written in epoch %d, after one of epoch %d", i, a.Number, last)
		}
		last = a.Number
		if begun := seen[int64(a.Number)]; i < begun {
			t.Fatalf("attempt %d of epoch %d is older than that", i, a.Number)
		}
		if next, there := seen[int64(a.Number)+1]; there && i >= next {
			t.Fatalf("attempt %d of epoch %d was not there when the next epoch began", i, a.Number)
		}
	}
	if fenced.Load() == 0 || int(applied.Load()) != len(d.Attempts) || last != rounds {
		t.Errorf("%d fenced, %d applied, %d kept, last epoch %d", fenced.Load(), applied.Load(), len(d.Attempts), last)
	}
}

func TestSecret(t *testing.T) {
	all := nodes(t, 2)
	one, err := all[0].Secret(t.Context())
	other, again := all[1].Secret(t.Context())
	if err != nil || again != nil || one != other || len(one) < 64 {
		t.Errorf("%d and %d bytes, the same: %v; %v, %v", len(one), len(other), one == other, err, again)
	}
}

// TestStopped: a node freezes between the two round trips of a transaction, with its shard and a
// lane locked. Other nodes wait only until the server's limit. Then they can take its shard, its
// lane continues, and its pending write has no effect.
func TestStopped(t *testing.T) {
	t.Parallel()
	all := nodes(t, 2)
	a, b := all[0], all[1]
	shard := a.ShardOf("ep_a")
	old := acquire(t, a, "a", -time.Second, shard)[shard]
	if _, err := a.Append(t.Context(), store.Batch{Config: version(t, a),
		Events: []store.Incoming{incomingTo("e1", "k", "ep_a")}}); err != nil {
		t.Fatal(err)
	}
	heads, err := a.Heads(t.Context(), "ep_a", 1)
	if err != nil {
		t.Fatal(err)
	}
	c := deliver(heads[0])
	c.Epoch = old
	made, err := a.turn(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	o := &stopping{recording: recording{turns: []turn{made}}, stopped: make(chan struct{}), goOn: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- a.write(t.Context(), o) }()
	<-o.stopped
	began := time.Now()
	if _, err := b.Append(t.Context(), store.Batch{Config: version(t, b),
		Events: []store.Incoming{incomingTo("e2", "k", "ep_a")}}); err != nil {
		t.Error(err)
	}
	fresh := acquire(t, b, "b", time.Minute, shard)[shard]
	if waited := time.Since(began); fresh != old+1 || waited < time.Second {
		t.Errorf("epoch %d after %d, in %v: the node had not locked anything", fresh, old, waited)
	}
	close(o.goOn)
	if err := <-ended; err == nil {
		t.Error("what it did after all was committed")
	}
	is, err := a.Record(t.Context(), []store.Change{c})
	if err != nil || !is[0].Fenced {
		t.Errorf("repeated: %+v, %v", is, err)
	}
	if d, err := b.Delivery(t.Context(), store.Everyone(), heads[0].Delivery); err != nil || d.Status != grapnel.Pending {
		t.Errorf("%+v, %v", d, err)
	}
}

// stopping is a recording that stops once, when it holds all locks and has written nothing.
type stopping struct {
	recording
	once          sync.Once
	stopped, goOn chan struct{}
}

func (o *stopping) apply(t *tx) error {
	o.once.Do(func() {
		close(o.stopped)
		<-o.goOn
	})
	return o.recording.apply(t)
}
