package ownership

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// spread is an Ownership whose shards are the endpoints "0", "1", ….
type spread struct{ store.Ownership }

func (spread) ShardOf(endpoint string) int { return int(endpoint[0] - '0') }

// frozen are nodes of which "0" stands still: it accepts questions and never answers.
type frozen struct{ Peers }

func (frozen) ask(ctx context.Context, address string) error {
	if address == "0" {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (f frozen) Healths(ctx context.Context, address string, ids []string) ([]grapnel.Health, error) {
	return []grapnel.Health{{State: grapnel.HealthHealthy}}[:len(ids)], f.ask(ctx, address)
}

func (f frozen) Open(ctx context.Context, address string) ([]string, error) {
	if err := f.ask(ctx, address); err != nil {
		return nil, err
	}
	return []string{address}, nil
}

func (f frozen) Consumers(ctx context.Context, address, queue string) ([]grapnel.Consumer, error) {
	return []grapnel.Consumer{{Name: address}}, f.ask(ctx, address)
}

func (f frozen) Order(ctx context.Context, address string, _ store.Order) error {
	return f.ask(ctx, address)
}

// TestAnOrderToAFrozenNode: an order waits for the owner of its endpoint, however long that takes,
// and no longer than that node is the owner.
func TestAnOrderToAFrozenNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Shards{nodes: []store.Node{{ID: "you", Address: "0"}}, there: []store.Shard{{Owner: "you"}},
			cluster: Options{Ownership: spread{}, Peers: frozen{}, Lease: lease, Node: store.Node{ID: "me"}}}
		ctx, giveUp := context.WithTimeout(t.Context(), time.Hour)
		defer giveUp()
		answer := make(chan error, 1)
		go func() { answer <- s.Order(ctx, store.Order{Endpoint: "0"}) }()
		time.Sleep(10 * lease)
		if len(answer) > 0 {
			t.Errorf("answered while the node is the owner: %v", <-answer)
		}
		s.mu.Lock()
		s.nodes = nil // it has not been seen for a while
		s.mu.Unlock()
		time.Sleep(lease)
		select {
		case err := <-answer:
			if grapnel.CodeOf(err) != grapnel.CodeUnavailable {
				t.Errorf("answered %v", err)
			}
		default:
			t.Error("no answer although the node is not the owner any more")
		}
	})
}

// leaving are nodes of which "0" is releasing all shards.
type leaving struct{ Peers }

var errMoving = grapnel.Errorf(grapnel.CodeUnavailable, "the endpoint is moving")

func (leaving) Order(_ context.Context, address string, _ store.Order) error {
	if address == "0" {
		return errMoving
	}
	return nil
}

// TestAnOrderWhileItsEndpointMoves: an order about an endpoint that one node releases waits until
// another one owns it, for a moment only.
func TestAnOrderWhileItsEndpointMoves(t *testing.T) {
	for name, owners := range map[string][]string{"at the node that releases it": {"me", "", "1"}, "at another node": {"0", "", "1"},
		"at the node that takes it": {"0", "", "me"}, "without a new owner": {"0", "", ""}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Shards{bounds: bounds.Fill(Bounds{}), there: []store.Shard{{Owner: owners[0]}}, held: map[int]*holding{},
					nodes:   []store.Node{{ID: "0", Address: "0"}, {ID: "1", Address: "1"}, {ID: "me", Address: "me"}},
					cluster: Options{Ownership: spread{}, Peers: leaving{}, Lease: lease, Node: store.Node{ID: "me"}}}
				s.env.Operate = func(context.Context, store.Order) error {
					if s.Has("0") {
						return nil
					}
					return errMoving
				}
				var moves sync.WaitGroup
				defer moves.Wait()
				moves.Go(func() {
					for _, owner := range owners[1:] {
						time.Sleep(time.Second)
						s.mu.Lock()
						if s.there = []store.Shard{{Owner: owner}}; owner == "me" {
							s.there[0].Owner, s.held[0] = "0", &holding{} // as of the last look
						}
						s.mu.Unlock()
					}
				})
				began := time.Now()
				err := s.Order(t.Context(), store.Order{Endpoint: "0"})
				if took := time.Since(began); (err == nil) != (owners[2] != "") || took < 2*time.Second || took > s.bounds.Move {
					t.Errorf("answered %v after %s", err, took)
				}
			})
		})
	}
}

// TestAFrozenNodeHidesNoOther: questions to several nodes share one time limit. A node that uses it
// up leaves the endpoints of the others known, and only that node is logged.
func TestAFrozenNodeHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 8
		var log bytes.Buffer
		s := &Shards{log: slog.New(slog.NewTextHandler(&log, nil)), env: Env{Sending: t.Context()}, bounds: bounds.Fill(Bounds{}),
			cluster: Options{Ownership: spread{}, Peers: frozen{}, Node: store.Node{ID: "me"}}}
		var ids []string
		for i := range nodes {
			id := fmt.Sprint(i)
			ids = append(ids, id)
			s.nodes = append(s.nodes, store.Node{ID: id, Address: id})
			s.there = append(s.there, store.Shard{Number: i, Owner: id})
		}
		all := make([]grapnel.Health, nodes)
		s.Healths(ids, all)
		for i := range all {
			if known := all[i].State != ""; known != (i > 0) {
				t.Errorf("the state of an endpoint of node %d is %q", i, all[i].State)
			}
		}
		if open := s.Open(); len(open) != nodes-1 {
			t.Errorf("%v are open", open)
		}
		if lines := strings.Count(log.String(), "another node failed"); lines != 2 {
			t.Errorf("the log is %s", log.String())
		}
	})
}
