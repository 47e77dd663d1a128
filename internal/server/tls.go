package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"

	"github.com/grapnelhq/grapnel/internal/nodes/peer"
)

// handshake makes TLS of a connection: with another node if that is what the other side asks for,
// else with a caller.
func (s *Server) handshake(ctx context.Context, c net.Conn) (*tls.Conn, error) {
	secure := tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: s.configFor})
	return secure, secure.HandshakeContext(ctx)
}

func (s *Server) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if peers := s.lives.now.Load().peers; peers != nil && slices.Contains(hello.SupportedProtos, peer.Protocol) {
		return peers.Server(), nil
	}
	return nil, errors.New("this server speaks TLS with other nodes only")
}
