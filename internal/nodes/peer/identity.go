package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Protocol is the name (ALPN) with which one node begins TLS with another. A port that serves
// callers tells nodes from callers by it.
const Protocol = "grapnel-peer"

// Identity is what a process proves to other nodes that it is: a key that never leaves its memory,
// in a certificate that no authority signed. Its row in the database has the fingerprint.
type Identity struct {
	Fingerprint string
	certificate tls.Certificate
}

// NewIdentity draws the key of a process.
func NewIdentity() (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// The fingerprint counts alone: name and times are not checked.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(100, 0, 0)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Identity{fingerprint(raw), tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}}, nil
}

func fingerprint(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:])
}

// pins are the fingerprints of the nodes, as their rows say.
type pins struct {
	nodes  func(context.Context) ([]store.Node, error)
	bounds Bounds
	log    *slog.Logger

	known atomic.Pointer[known]
	mu    sync.Mutex
	began time.Time // of the last read
	told  time.Time // when a refusal was logged last
}

// known are the rows of a read that began at a time.
type known struct {
	nodes []store.Node
	at    time.Time
}

// check returns nil if a node's row has the fingerprint of the certificate that the other side of a
// connection has shown; with an address, the row of a node there.
//
// A node that has just started has a row that was not read yet, so a fingerprint that is not known
// waits for a read that began after it was shown. All that wait share that read, and reads are
// Bounds.Reread apart: strangers cannot make a node ask its database often, nor keep out a node.
func (p *pins) check(address string, shown tls.ConnectionState) error {
	seen, is := time.Now(), fingerprint(shown.PeerCertificates[0].Raw)
	if p.has(address, is, seen.Add(-p.bounds.Stale)) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.Before(seen) {
		ctx, cancel := context.WithTimeout(context.Background(), p.bounds.Within)
		defer cancel()
		backoff.Wait(ctx.Done(), time.Until(p.began.Add(p.bounds.Reread)))
		p.began = time.Now()
		nodes, err := p.nodes(ctx)
		if err != nil {
			return fmt.Errorf("peer: the rows of the nodes cannot be read, so no certificate can be compared: %w", err)
		}
		p.known.Store(&known{nodes, p.began})
	}
	if p.has(address, is, seen) {
		return nil
	}
	if address != "" {
		return fmt.Errorf("peer: the certificate shown at %s (SHA-256 %s) is not that of the node there, says its row", address, is)
	}
	if since := p.began.Sub(p.told); since >= p.bounds.Told {
		p.told = p.began
		p.log.Warn("connection refused: it claims to be a node, and no node's row has its certificate", "fingerprint", is)
	}
	return fmt.Errorf("peer: no node's row has the certificate shown (SHA-256 %s)", is)
}

// has says whether a row has the fingerprint, in a read that did not begin before a time.
func (p *pins) has(address, fingerprint string, since time.Time) bool {
	known := p.known.Load()
	return known != nil && !known.at.Before(since) && slices.ContainsFunc(known.nodes, func(n store.Node) bool {
		return n.Fingerprint == fingerprint && (address == "" || host(n.Address) == address)
	})
}

// host is HOST:PORT of a node's address, a URL.
func host(address string) string {
	_, at, _ := strings.Cut(address, "://")
	return at
}
