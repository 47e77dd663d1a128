package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/ownership"
	"github.com/grapnelhq/grapnel/internal/peer"
	"github.com/grapnelhq/grapnel/internal/store"
)

// join prepares to share the store with other nodes; nil: this server has the store alone.
func (c *cell) join(ctx context.Context, s *Server) (*ownership.Options, error) {
	shared, ok := c.store.(store.Ownership)
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
	if c.secret, err = shared.Secret(ctx); err != nil {
		return nil, fmt.Errorf("reading the secret of the nodes failed: %w", err)
	}
	address, err := s.advertised()
	if err != nil {
		return nil, err
	}
	address += c.prefix()
	s.log.Info("other nodes may use the same database", "node", s.node, "address", address)
	c.peers = peer.New(peer.Options{Bounds: s.options.Bounds.Peer, Secret: c.secret, Log: s.log})
	return &ownership.Options{Ownership: shared, Node: store.Node{ID: s.node, Address: address}, Lease: s.options.Lease, Peers: c.peers,
		Bounds: s.options.Bounds.Ownership}, nil
}

// prefix is the path prefix under which the other nodes of a cell reach this one. It is part of the
// advertised address, so each node may name its cells differently.
func (c *cell) prefix() string {
	if c.name == grapnel.DefaultCell {
		return ""
	}
	return "/cells/" + c.name
}

// twin is another cell with the same database; nil: none.
func (c *cell) twin(others []*cell) *cell {
	if i := slices.IndexFunc(others, func(other *cell) bool { return c.secret != "" && other.secret == c.secret }); i >= 0 {
		return others[i]
	}
	return nil
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
	return "http://" + net.JoinHostPort(host, port), nil
}

// cluster returns the nodes that share the cell's store. A server that is alone owns everything.
func (c *cell) cluster(s *Server) func(context.Context) (grapnel.Cluster, error) {
	if c.peers != nil {
		return c.engine.Shards().Cluster
	}
	return func(context.Context) (grapnel.Cluster, error) {
		is := grapnel.Member{ID: s.node, Address: s.URL(), State: grapnel.MemberUp}
		if s.stopping.Load() {
			is.State = grapnel.MemberDraining
		}
		return grapnel.Cluster{Asked: s.node, Nodes: []grapnel.Member{is}}, nil
	}
}

// besides adds the routes for other nodes to those of the API.
func (s *Server) besides(api http.Handler) http.Handler {
	peers := map[string]http.Handler{}
	for _, c := range s.cells {
		if c.peers != nil {
			peers[c.prefix()+peer.Path] = c.guarded(s, peer.Handler(c.engine, peer.Options{Bounds: s.options.Bounds.Peer, Secret: c.secret}))
		}
	}
	if len(peers) == 0 {
		return api
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if node, asks := peers[r.URL.Path]; asks {
			node.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
