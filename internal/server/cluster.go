package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/engine"
	"github.com/grapnelhq/grapnel/internal/peer"
	"github.com/grapnelhq/grapnel/internal/store"
)

// join prepares to share the store with other nodes; nil: it is this server's alone.
func (s *Server) join(ctx context.Context, node string) (*engine.Cluster, string, error) {
	ownership, ok := s.store.(store.Ownership)
	if !ok {
		return nil, "", nil
	}
	if l := s.options.Lease; l != 0 && l < LeastLease {
		return nil, "", grapnel.Errorf(grapnel.CodeInvalid, "--lease: at least %s, because a node stops a second before the end of its lease", LeastLease)
	}
	secret, err := ownership.Secret(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("the store does not say how nodes know each other: %w", err)
	}
	address, err := s.advertised()
	if err != nil {
		return nil, "", err
	}
	s.log.Info("other nodes may use the same database", "node", node, "address", address)
	s.peers = peer.New(peer.Options{Secret: secret, Log: s.log})
	return &engine.Cluster{Ownership: ownership, Node: store.Node{ID: node, Address: address}, Lease: s.options.Lease, Peers: s.peers}, secret, nil
}

// advertised is where other nodes reach this one. A server that listens everywhere is reached by its machine's name.
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
			return "", fmt.Errorf("the machine has no name by which other nodes could reach it; --advertise says one: %w", err)
		}
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// cluster says who shares the store. A server whose store is its own is alone and has everything.
func (s *Server) cluster(node string) func(context.Context) (grapnel.Cluster, error) {
	if s.peers != nil {
		return s.engine.Cluster
	}
	return func(context.Context) (grapnel.Cluster, error) {
		is := grapnel.Member{ID: node, Address: s.URL(), State: grapnel.MemberUp}
		if s.ready() != nil {
			is.State = grapnel.MemberDraining
		}
		return grapnel.Cluster{Asked: node, Nodes: []grapnel.Member{is}}, nil
	}
}

// besides puts what other nodes ask beside the API.
func (s *Server) besides(secret string, api http.Handler) http.Handler {
	if s.peers == nil {
		return api
	}
	peers := peer.Handler(s.engine, secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == peer.Path {
			peers.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
