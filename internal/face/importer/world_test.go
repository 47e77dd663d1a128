package importer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/importer"
	"github.com/grapnelhq/grapnel/internal/server"
	"github.com/grapnelhq/grapnel/wire"
)

// here is a Grapnel server of one test.
type here struct {
	*testing.T
	*client.Client
	options client.Options
}

func newHere(t *testing.T) *here {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := server.Open(ctx, server.Options{Listen: "127.0.0.1:0", Store: "sqlite:" + filepath.Join(t.TempDir(), "data", "grapnel.db"),
		SvixAPI: true, EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	accepts, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func() { close(accepts) }) }()
	<-accepts
	t.Cleanup(func() { cancel(); <-ended })
	key, err := os.ReadFile(s.AdminKey().Path)
	if err != nil {
		t.Fatal(err)
	}
	h := &here{T: t, options: client.Options{Server: s.URL(), Key: strings.TrimSpace(string(key))}}
	if h.Client, err = client.New(h.options); err != nil {
		t.Fatal(err)
	}
	return h
}

// plan compares, and is checked for secrets: none may be in a plan.
func (h *here) plan(found *importer.Found, overwrite bool) *importer.Plan {
	h.Helper()
	look, err := importer.Look(h.Context(), h.Client, found)
	if err != nil {
		h.Fatal(err)
	}
	plan := importer.Compare(found, look, overwrite)
	text := string(cli.Encode(plan))
	for i := range found.Wants {
		if secret := found.Wants[i].Secret; secret != "" && strings.Contains(text, strings.TrimPrefix(secret, "whsec_")) {
			h.Errorf("the plan has a secret: %s", text)
		}
	}
	return plan
}

// apply carries a plan out, and wants no failure.
func (h *here) apply(plan *importer.Plan) {
	h.Helper()
	if err := importer.Apply(h.Context(), h.Client, plan, func(int) {}); err != nil {
		h.Fatal(err)
	}
	for i := range plan.Items {
		if it := &plan.Items[i]; it.Failure != "" {
			h.Errorf("%s %s: %s", it.Kind, it.ID, it.Failure)
		}
	}
}

// imports makes a plan and carries it out.
func (h *here) imports(found *importer.Found) *importer.Plan {
	h.Helper()
	plan := h.plan(found, false)
	h.apply(plan)
	return plan
}

// wants compares the actions of a plan: "create a, same b because …" by id.
func (h *here) wants(plan *importer.Plan, want ...string) {
	h.Helper()
	var got []string
	for i := range plan.Items {
		it := &plan.Items[i]
		line := string(it.Action) + " " + it.ID
		if len(it.Changes) > 0 {
			line += " " + strings.Join(it.Changes, ",")
		}
		if it.Why != "" {
			line += ": " + it.Why
		}
		got = append(got, line)
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		h.Errorf("the plan is\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// endpoint finds the endpoint that was imported from one of the other system.
func (h *here) endpoint(label string) *wire.Endpoint {
	h.Helper()
	page, err := h.Endpoints(h.Context(), client.EndpointFilter{Label: label})
	if err != nil || len(page.Data) != 1 {
		h.Fatalf("%d endpoints have the label %s: %v", len(page.Data), label, err)
	}
	return &page.Data[0]
}

func (h *here) secretOf(e *wire.Endpoint) string {
	h.Helper()
	var is wire.RevealedSecret
	if err := h.Do(h.Context(), http.MethodPost, "/v1/endpoints/"+e.ID+"/reveal-secret", nil, nil, &is); err != nil {
		h.Fatal(err)
	}
	return is.Secret
}

// there is a fake of another system, with answers of a handler. It answers each request with 429
// first.
type there struct {
	*httptest.Server
	mu      sync.Mutex
	waits   map[string]bool // paths that have answered 429
	fails   string          // requests whose URI contains it get 500; empty: none
	patient bool            // no request is asked to wait
	asked   int
	token   string
}

func newThere(t *testing.T, answer http.HandlerFunc) *there {
	t.Helper()
	f := &there{waits: map[string]bool{}, token: "token-of-the-other-side"}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		first := !f.waits[r.URL.RequestURI()] && !f.patient
		f.waits[r.URL.RequestURI()] = true
		fails := f.fails != "" && strings.Contains(r.URL.RequestURI(), f.fails)
		f.asked++
		f.mu.Unlock()
		switch {
		case r.Header.Get("Authorization") != "Bearer "+f.token:
			w.WriteHeader(http.StatusUnauthorized)
		case fails:
			http.Error(w, "the token was "+f.token, http.StatusInternalServerError)
		case first:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			answer(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// quick are the bounds of tests: pages of two, and pauses that a test does not notice.
func quick() importer.Bounds {
	b := bounds.Fill(importer.Bounds{Page: 2})
	tiny := bounds.Tiny[importer.Bounds](1)
	b.Pause, b.Wait = tiny.Pause, tiny.Wait
	return b
}

func (f *there) remote() importer.Remote {
	return importer.Remote{URL: f.URL, Token: f.token, Bounds: quick()}
}

// secret is a valid secret that differs by its number.
func secret(n int) string { return fmt.Sprintf("whsec_%032d", n) }
