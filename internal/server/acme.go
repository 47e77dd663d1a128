package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store"
)

// issued are certificates that an authority issues by ACME. It proves a domain on the port of TLS
// (TLS-ALPN-01), or on that of --http-redirect (HTTP-01). Renewal begins 30 days before the end.
type issued struct {
	manager *autocert.Manager
	domains []string
	bounds  CertificateBounds
	log     *slog.Logger
	alive   context.Context // of requests to the authority
	end     context.CancelFunc
	leads   func() bool // false: another node of the database asks the authority
	ready   sync.Map    // domains whose certificate this process has had
}

// errAnotherAsks is why there is no certificate yet.
var errAnotherAsks = errors.New("the leading node has not got the certificate yet")

// acmeDirectory is the directory of the cache beside a database of SQLite. The files have mode
// 0600.
const acmeDirectory = "acme"

// newIssued is called before the store opens: docs returns that of now.
func newIssued(o TLS, place Place, docs func() store.Documents, sealer func() *pass.Sealer, leads func() bool,
	b CertificateBounds, log *slog.Logger) *issued {
	i := &issued{domains: o.Domains, bounds: b, log: log, leads: leads}
	i.alive, i.end = context.WithCancel(context.Background())
	i.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, HostPolicy: autocert.HostWhitelist(o.Domains...), Email: o.Email,
		Client: &acme.Client{DirectoryURL: o.Directory, UserAgent: "grapnel/" + grapnel.Version, HTTPClient: &http.Client{Transport: i}},
	}
	if i.manager.Cache = autocert.DirCache(filepath.Join(place.dir(), acmeDirectory)); place.url != "" {
		i.manager.Cache = &sharedCache{docs, sealer}
	}
	return i
}

// RoundTrip sends a request to the authority; autocert's requests know no end of the server.
func (i *issued) RoundTrip(r *http.Request) (*http.Response, error) {
	if i.alive.Err() != nil {
		return nil, i.alive.Err()
	}
	ctx, cancel := context.WithCancel(r.Context())
	context.AfterFunc(i.alive, cancel)
	return http.DefaultTransport.RoundTrip(r.WithContext(ctx))
}

// get returns the certificate for a name. A caller who names none, as for an address, gets that of
// the first domain.
//
// Of several nodes the leading one asks for a new certificate. The proof for TLS-ALPN-01 is stored
// by its domain, so nodes that ask at once would replace each other's.
func (i *issued) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		named := *hello
		named.ServerName = i.domains[0]
		hello = &named
	}
	_, had := i.ready.Load(hello.ServerName)
	if had || slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) { // the latter is the authority, which wants a proof
		return i.manager.GetCertificate(hello)
	}
	if slices.Contains(i.domains, hello.ServerName) && !i.leads() {
		if _, err := i.manager.Cache.Get(i.alive, hello.ServerName); err != nil {
			return nil, errors.Join(errAnotherAsks, err)
		}
	}
	got, err := i.manager.GetCertificate(hello)
	if err == nil {
		i.ready.Store(hello.ServerName, nil)
	}
	return got, err
}

// run has each certificate issued at the start, so that no caller waits for it.
func (i *issued) run(ctx context.Context) {
	defer i.end()
	defer context.AfterFunc(ctx, i.end)()
	for _, domain := range i.domains {
		for failures := 1; ; failures++ {
			got, err := i.get(&tls.ClientHelloInfo{ServerName: domain, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
			if err == nil {
				i.log.Info("certificate ready", "domain", domain, "until", got.Leaf.NotAfter)
				break
			}
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, errAnotherAsks) {
				if failures = 0; !backoff.Wait(ctx.Done(), i.bounds.Turn) {
					return
				}
				continue
			}
			after := backoff.Steps{First: i.bounds.Again, Longest: i.bounds.Pause}.After(failures)
			i.log.Warn("certificate not issued; retrying", "domain", domain, "err", err, "after", after.String())
			if !backoff.Wait(ctx.Done(), after) {
				return
			}
		}
	}
	<-ctx.Done()
}

// sharedCache has certificates, their keys, the account's key and the answers to challenges in the
// database of several nodes, sealed with their session key: any node answers the authority for the
// one that asked, and one certificate serves all. Nodes with another session key find none.
type sharedCache struct {
	docs   func() store.Documents
	sealer func() *pass.Sealer
}

const cacheKind = "acme"

// Get returns what Put has stored.
func (c *sharedCache) Get(ctx context.Context, key string) ([]byte, error) {
	doc, err := c.docs().Document(ctx, store.Everyone(), "", cacheKind, key)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return nil, autocert.ErrCacheMiss
	} else if err != nil {
		return nil, err
	}
	data, err := c.sealer().OpenBytes(cacheKind+" "+key, string(doc.Body))
	if errors.Is(err, pass.ErrInvalid) {
		return nil, autocert.ErrCacheMiss
	}
	return data, err
}

// Put stores data under a key. If another node writes it too, the later one stays.
func (c *sharedCache) Put(ctx context.Context, key string, data []byte) error {
	sealed, err := c.sealer().SealBytes(cacheKind+" "+key, data)
	if err != nil {
		return err
	}
	return c.write(ctx, key, []byte(sealed))
}

// Delete removes a key; it succeeds if there is none.
func (c *sharedCache) Delete(ctx context.Context, key string) error { return c.write(ctx, key, nil) }

func (c *sharedCache) write(ctx context.Context, key string, body []byte) error {
	for {
		was, err := c.docs().Document(ctx, store.Everyone(), "", cacheKind, key)
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
			return err
		}
		if err != nil && body == nil {
			return nil
		}
		w := store.DocumentWrite{Delete: body == nil,
			Document: store.Document{Kind: cacheKind, ID: key, Revision: was.Revision, At: time.Now(), Body: body}}
		_, err = c.docs().PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{w}, store.With{})
		if grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
}
