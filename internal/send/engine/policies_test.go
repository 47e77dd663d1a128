package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestPoliciesAreFollowed: endpoints that name a policy follow its changes at once, and keep it
// from being deleted.
func TestPoliciesAreFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		p := grapnel.NamedPolicy{
			ID:     "pol_1",
			Tenant: "default",
			Name:   "mine",
			Policy: parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s","10s"],"tail":"repeat"},"jitter":0,"timeout":"3s"}`),
		}
		if _, err := b.engine.PutPolicy(ctx, all, p, store.With{}); err != nil {
			t.Fatal(err)
		}
		r := &receiver{then: status(500)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = "mine" })
		b.endpoint("other", &receiver{}, nil)
		b.publish("k", 1)
		time.Sleep(25 * time.Second)
		p.Policy = parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s","60s"],"tail":"repeat"},"jitter":0,"timeout":"3s"}`)
		p.Revision = 1
		if _, err := b.engine.PutPolicy(ctx, all, p, store.With{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		var gaps []string
		log := r.log()
		for i := range log[1:] {
			gaps = append(gaps, log[i+1].at.Sub(log[i].at).Round(time.Second).String())
		}
		if !slices.Equal(gaps, []string{"10s", "10s", "10s", "1m0s"}) {
			t.Errorf("waits: %v", gaps)
		}
		if err := b.engine.DeletePolicy(ctx, all, "pol_1", store.With{}); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("deleting a policy in use: %v", err)
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.PolicyName = "standard" })
		if err := b.engine.DeletePolicy(ctx, all, "pol_1", store.With{}); err != nil || len(b.engine.Policies(all)) != 0 {
			t.Errorf("deleting it: %v, left %d", err, len(b.engine.Policies(all)))
		}
	})
}

// TestEndpointsNameWhatExists: a policy or a source is deleted after a request has found it, and
// before its endpoint is stored. The endpoint would follow another policy, or get no event.
func TestEndpointsNameWhatExists(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		p := grapnel.NamedPolicy{ID: "pol_1", Tenant: "default", Name: "mine", Policy: parsed(t, `{"timeout":"3s"}`)}
		src := grapnel.Source{ID: "src_1", Tenant: "default", Name: "shop"}
		put := func(change func(*grapnel.Endpoint)) error {
			t.Helper()
			if _, err := b.engine.PutPolicy(ctx, all, p, store.With{}); err != nil {
				t.Fatal(err)
			}
			if _, err := b.engine.PutSource(ctx, all, src, store.With{}); err != nil {
				t.Fatal(err)
			}
			ep, _ := b.engine.Endpoint(all, "ep")
			if change(&ep); b.engine.DeletePolicy(ctx, all, p.ID, store.With{}) != nil {
				t.Fatal("the policy is in use")
			}
			if _, err := b.engine.DeleteSource(ctx, all, src.ID, store.With{}); err != nil {
				t.Fatal(err)
			}
			_, err := b.engine.PutEndpoint(ctx, all, ep, store.With{})
			return err
		}
		b.endpoint("ep", &receiver{}, nil)
		for what, change := range map[string]func(*grapnel.Endpoint){
			"a changed one of the policy": func(ep *grapnel.Endpoint) { ep.PolicyName = "mine" },
			"a changed one of the source": func(ep *grapnel.Endpoint) { ep.Source = src.ID },
			"a new one of the policy":     func(ep *grapnel.Endpoint) { ep.ID, ep.Revision, ep.PolicyName = "new", 0, "mine" },
			"a new one of the source":     func(ep *grapnel.Endpoint) { ep.ID, ep.Revision, ep.Source = "new", 0, src.ID },
		} {
			if err := put(change); grapnel.CodeOf(err) != grapnel.CodeConflict {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := put(func(ep *grapnel.Endpoint) { ep.URL = "http://other.test/" }); err != nil {
			t.Error(err)
		}
	})
}

func parsed(t *testing.T, json string) policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// contents are what a book has, for comparison with another's.
func contents(b *configuration.Book) (all []any) {
	c := b.Snapshot()
	for _, ep := range c.Endpoints() {
		is := ep.Endpoint
		if is.Queue != nil {
			all = append(all, *is.Queue)
			is.Queue = nil
		}
		all = append(all, is, ep.Target)
		for _, kind := range []string{grapnel.EventDeliveryFailed, grapnel.EventEndpointFailing, grapnel.EventEndpointRecovered} {
			all = append(all, c.Wanted(&ep.Endpoint, slices.Values([]string{kind})))
		}
	}
	everyone := store.Everyone()
	return append(all, b.Policies(everyone), b.Keys(everyone), b.Sources(everyone), c.Pulling(), c.Version, c.Newest)
}

// readAnew is a book that has read the store.
func readAnew(t *testing.T, s store.Configuration) *configuration.Book {
	t.Helper()
	b := configuration.NewBook(configuration.Options{Store: s, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestConfigurationIsWhatTheStoreHas: what changes are applied to in memory never differs from what
// a restart would read.
func TestConfigurationIsWhatTheStoreHas(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		same := func(what string) {
			t.Helper()
			if has, have := fmt.Sprint(contents(readAnew(t, b.store))), fmt.Sprint(contents(b.engine.Book)); has != have {
				t.Errorf("after %s the engine has\n%s\nand the store\n%s", what, have, has)
			}
		}
		for _, id := range []string{"c", "a", "b"} {
			b.endpoint(id, &receiver{}, nil)
			same("creating " + id)
		}
		b.update("b", func(ep *grapnel.Endpoint) { ep.Status, ep.EventTypes = grapnel.EndpointPaused, []string{"a.*"} })
		same("changing")
		b.publish("k", 1)
		k := grapnel.Key{ID: "key_1", Hash: [32]byte{1}, Scopes: []grapnel.Scope{grapnel.ScopeRead}}
		if _, err := b.engine.PutKey(ctx, all, k, store.With{}); err != nil {
			t.Fatal(err)
		}
		same("a key")
		if _, ok := b.engine.KeyByHash(k.Hash); !ok {
			t.Error("the key is not found")
		}
		if err := b.engine.DeleteKey(ctx, all, "key_1", store.With{}); err != nil {
			t.Fatal(err)
		}
		same("deleting the key")
		if err := b.engine.DeleteEndpoint(ctx, all, "a", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // until it is forgotten
		same("deleting an endpoint")
		if n := len(b.engine.Snapshot().Endpoints()); n != 2 {
			t.Errorf("%d endpoints are left", n)
		}
	})
}
