package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/nodes/peer"
	"github.com/grapnelhq/grapnel/internal/send/consent"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store"
)

// join prepares to share the store with other nodes; nil: this server has the store alone.
func (l *life) join(ctx context.Context, s *Server) (*ownership.Options, error) {
	shared, ok := l.store.(store.Ownership)
	if !ok {
		return nil, nil
	}
	if l := s.options.Lease; l != 0 && l < LeastLease {
		return nil, grapnel.Errorf(
			grapnel.CodeInvalid,
			"--lease: at least %s, because a node stops a second before the end of its lease",
			LeastLease,
		)
	}
	var err error
	if l.secret, err = shared.Secret(ctx); err != nil {
		return nil, fmt.Errorf("reading the secret of the nodes failed: %w", err)
	}
	address, err := s.advertised()
	if err != nil {
		return nil, err
	}
	s.log.Info("other nodes may use the same database", "node", s.node, "address", address)
	remember := bounds.Fill(s.options.Bounds.Ownership).Remember
	nodes := func(ctx context.Context) ([]store.Node, error) { return shared.Nodes(ctx, remember) }
	l.peers = peer.New(peer.Options{Bounds: s.options.Bounds.Peer, Secret: l.secret, Identity: s.identity, Nodes: nodes, Log: s.log})
	is := store.Node{ID: s.node, Address: address, Fingerprint: s.identity.Fingerprint}
	return &ownership.Options{Ownership: shared, Node: is, Lease: s.options.Lease, Peers: l.peers, Bounds: s.options.Bounds.Ownership}, nil
}

// answering carries out other nodes' requests.
type answering struct {
	*engine.Engine
	consents *consent.Keeper
}

func (a answering) Spend(tenant string, hosts []string, back bool) error {
	return a.consents.Spend(tenant, hosts, back)
}

// leader has the leading node count a challenge for consent. A node that cannot be reached may be
// counting for others, so nothing is sent without its answer.
func (l *life) leader(within time.Duration) func(ctx context.Context, tenant string, hosts []string, back bool) error {
	return func(ctx context.Context, tenant string, hosts []string, back bool) error {
		var err error
		address := l.engine.Shards().Leader()
		if address != "" {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			err = l.peers.Spend(ctx, address, tenant, hosts, back)
		}
		if address == "" || err != nil && grapnel.CodeOf(err) == "" {
			return &grapnel.Error{Code: grapnel.CodeUnavailable, RetryAfter: time.Second,
				Detail: "The node that counts challenges cannot be reached: try again.", Err: err}
		}
		return err
	}
}

// advertised is the address for other nodes. A server that listens on all interfaces is reached by
// its machine's name.
func (s *Server) advertised() (string, error) {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if given := s.options.Advertise; given != "" {
		if host, port, err = net.SplitHostPort(given); err != nil || host == "" || port == "" {
			return "", grapnel.Errorf(grapnel.CodeInvalid, "--advertise takes HOST:PORT")
		}
	}
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("the machine has no host name for other nodes; set --advertise HOST:PORT: %w", err)
		}
	}
	return s.scheme() + "://" + net.JoinHostPort(host, port), nil
}

// cluster returns the nodes that share the store. A server that is alone owns everything.
func (l *life) cluster(s *Server) func(context.Context) (grapnel.Cluster, error) {
	if l.peers != nil {
		return l.engine.Shards().Cluster
	}
	return func(context.Context) (grapnel.Cluster, error) {
		is := grapnel.Member{ID: s.node, Address: s.URL(), State: grapnel.MemberUp}
		if s.stopping.Load() {
			is.State = grapnel.MemberDraining
		}
		return grapnel.Cluster{Asked: s.node, Nodes: []grapnel.Member{is}}, nil
	}
}

// URL is the server's own address.
func (s *Server) URL() string { return s.scheme() + "://" + s.listener.Addr().String() }
