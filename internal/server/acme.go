package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
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
	shared  *sharedCache // the manager's cache, if the database may have several nodes
	domains []string
	bounds  CertificateBounds
	log     *slog.Logger
	alive   context.Context // of requests to the authority
	end     context.CancelFunc
	leads   func() bool // false: another node of the database asks the authority
	ready   sync.Map    // domains whose certificate this process has had
}

// errAnotherAsks is why there is no certificate yet.
var errAnotherAsks = errors.New("another node, or another caller, has not got the certificate yet")

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
		i.shared = &sharedCache{docs, sealer}
		i.manager.Cache = i.shared
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
// by its domain, so nodes that ask at once would replace each other's. The lead may move during an
// order, so a leader claims the order first. The next holder of the claim finds the certificate of
// the one before, because the manager looks in the cache first, and stores before it returns. It
// finds none if the store fails just then: the manager ignores that.
func (i *issued) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if name := strings.ToLower(cmp.Or(hello.ServerName, i.domains[0])); name != hello.ServerName {
		named := *hello
		named.ServerName = name
		hello = &named
	}
	_, had := i.ready.Load(hello.ServerName)
	if had || slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) { // the latter is the authority, which wants a proof
		return i.manager.GetCertificate(hello)
	}
	var stored []byte
	if i.shared != nil && slices.Contains(i.domains, hello.ServerName) {
		var err error
		if stored, err = i.shared.Get(i.alive, hello.ServerName); err != nil {
			if !i.leads() {
				return nil, errors.Join(errAnotherAsks, err)
			}
			release, err := i.shared.claim(i.alive, hello.ServerName, i.bounds.Order)
			if err != nil {
				return nil, err
			}
			defer release()
		}
	}
	got, err := i.manager.GetCertificate(hello)
	if err == nil {
		i.ready.Store(hello.ServerName, nil)
	} else if other, bad := tls.X509KeyPair(stored, stored); bad == nil && time.Now().Before(other.Leaf.NotAfter) {
		return &other, nil // after its own order has failed, the manager has no certificate for a minute
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
	doc, err := c.read(ctx, key)
	if err != nil {
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
		was, err := c.read(ctx, key)
		if err != nil || was.Revision == 0 && body == nil {
			return err
		}
		if _, err = c.replace(ctx, was, body); grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
}

// claim lets one caller at a time, of all nodes, order a domain's certificate; the others get
// errAnotherAsks. Its holder releases it. The claim of a holder that died ends after its life, which
// must be longer than any order by more than the nodes' clocks differ: else two callers order at
// once.
func (c *sharedCache) claim(ctx context.Context, domain string, life time.Duration) (release func(), err error) {
	is, err := c.read(ctx, domain+" claim")
	if err != nil {
		return nil, err
	}
	if is.Revision > 0 && time.Since(is.At).Abs() < life {
		return nil, errAnotherAsks
	}
	if is.Revision, err = c.replace(ctx, is, []byte{}); grapnel.CodeOf(err) == grapnel.CodeConflict {
		return nil, errAnotherAsks
	}
	// A server that ends gives up its order, and its next start need not wait. If the store fails, the
	// claim ends after its life.
	return func() { _, _ = c.replace(context.WithoutCancel(ctx), is, nil) }, err
}

// read returns a document to replace, with revision 0 if there is none.
func (c *sharedCache) read(ctx context.Context, key string) (store.Document, error) {
	doc, err := c.docs().Document(ctx, store.Everyone(), "", cacheKind, key)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return store.Document{Kind: cacheKind, ID: key}, nil
	}
	return doc, err
}

// replace stores a body in place of a document, or deletes that if the body is nil. It fails with
// grapnel.CodeConflict if the document has changed since.
func (c *sharedCache) replace(ctx context.Context, doc store.Document, body []byte) (revision int64, err error) {
	doc.At, doc.Body = time.Now(), body
	put, err := c.docs().PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{{Document: doc, Delete: body == nil}}, store.With{})
	return put.Revision, err
}
