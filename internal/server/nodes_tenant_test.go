//go:build prove

package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/seal"
)

// TestATenantEndsOnAllNodes: one node answers the order. From then on the other one refuses the
// tenant's key, and acknowledges no publish that begins later. When the job is done the tenant's
// data key is in neither node's memory, and a tenant of the same name begins.
func TestATenantEndsOnAllNodes(t *testing.T) {
	master, _ := masterFile(t, "a")
	nodes, _ := members(t, 2, patient, func(o *Options) {
		o.MasterKey, o.SealPayloads = master, true
		o.Bounds.Erase.Quiet = time.Second
	})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer receiver.Close()
	one, other := nodes[0], nodes[1]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := one.CreateKey(t.Context(), client.NewKey{Name: "k", Tenant: "acme", Scopes: []grapnel.Scope{grapnel.ScopeRead}})
	must(err)
	_, err = one.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL, Tenant: "acme"})
	must(err)
	publish := func(at member) error {
		_, err := at.Publish(t.Context(), client.NewEvent{Tenant: "acme", Type: "a.b", Data: []byte("1")})
		return err
	}
	for _, n := range nodes {
		must(publish(n))
	}
	place := seal.At{Tenant: "acme", Kind: "a test", ID: "1"}
	sealed, err := other.lives.now.Load().store.Sealer().Seal(t.Context(), place, []byte("x"))
	must(err)

	var ordered atomic.Pointer[client.Erasure]
	var done atomic.Bool
	var publishing sync.WaitGroup
	for range 4 {
		publishing.Go(func() {
			for !done.Load() {
				job := ordered.Load()
				var refused *client.Error
				switch err := publish(other); {
				case err == nil && job != nil:
					if is, err := other.Erasure(t.Context(), job.ID); err != nil || is.State == "running" {
						t.Errorf("a publish that began after the order was answered is acknowledged; %+v, %v", is, err)
					}
					return
				case err != nil && (!errors.As(err, &refused) || refused.Code != string(grapnel.CodeTenantEnds)):
					t.Error(err)
					return
				}
			}
		})
	}
	job, err := one.DeleteTenant(t.Context(), "acme", "a ticket")
	must(err)
	ordered.Store(job)
	if status := statusOf(second(other.client(t, key.Secret).WhoAmI(t.Context()))); status != http.StatusForbidden {
		t.Errorf("the other node answers the tenant's key with %d", status)
	}
	if again, err := other.DeleteTenant(t.Context(), "acme", "again"); err != nil || again.ID != job.ID {
		t.Errorf("ordered again: %+v, %v", again, err)
	}
	soon(t, func() bool {
		is, err := other.Erasure(t.Context(), job.ID)
		return err == nil && is.State == "done"
	})
	done.Store(true)
	publishing.Wait()
	for i, n := range nodes {
		if got, err := n.lives.now.Load().store.Sealer().Open(t.Context(), place, sealed); !errors.Is(err, seal.ErrNoKey) {
			t.Errorf("node %d opens what the tenant's data key has sealed: %q, %v", i, got, err)
		}
	}
	if list, err := other.Endpoints(t.Context(), client.EndpointFilter{Tenant: "acme"}); err != nil || len(list.Data) > 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
	must(publish(other))
}

func second[T any](_ T, err error) error { return err }
