package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// pair is a certificate from two files, which are read again from time to time: no handshake fails
// while they change. If the new pair is not a valid one (one file is written before the other), the
// one before stays, and the log says so once for each content.
type pair struct {
	cert, key string
	every     time.Duration
	log       *slog.Logger
	now       atomic.Pointer[tls.Certificate]
	read      [sha256.Size]byte // of both files as they were read last
}

func openPair(o TLS, b CertificateBounds, log *slog.Logger) (*pair, error) {
	p := &pair{cert: o.Cert, key: o.Key, every: b.Every, log: log}
	if _, err := p.load(); err != nil {
		return nil, grapnel.Errorf(grapnel.CodeInvalid, "--tls-cert, --tls-key: %v", err)
	}
	if end := p.now.Load().Leaf.NotAfter; time.Now().After(end) {
		log.Error("the certificate has ended; callers refuse it until the files have a new one", "file", o.Cert, "ended", end)
	}
	return p, nil
}

// load reads the files, and takes over the pair if it has changed.
func (p *pair) load() (changed bool, err error) {
	cert, failed := os.ReadFile(p.cert)
	key, err := os.ReadFile(p.key)
	if err = errors.Join(failed, err); err != nil {
		cert, key = []byte(err.Error()), nil
	}
	is := sha256.Sum256(bytes.Join([][]byte{cert, key}, []byte{0}))
	if is == p.read {
		return false, nil
	}
	p.read = is
	if err != nil {
		return true, err
	}
	next, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return true, err
	}
	if end := next.Leaf.NotAfter; time.Now().After(end) && p.now.Load() != nil {
		return true, fmt.Errorf("the certificate in %s ended at %s", p.cert, end.Format(time.RFC3339))
	}
	p.now.Store(&next)
	return true, nil
}

func (p *pair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.now.Load(), nil }

func (p *pair) run(ctx context.Context) {
	for backoff.Wait(ctx.Done(), p.every) {
		switch changed, err := p.load(); {
		case err != nil:
			p.log.Error("new certificate not usable; the one before stays", "err", err, "until", p.now.Load().Leaf.NotAfter)
		case changed:
			p.log.Info("certificate read again", "file", p.cert, "until", p.now.Load().Leaf.NotAfter)
		}
	}
}
