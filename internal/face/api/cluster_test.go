package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

func TestCluster(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Cluster = func(context.Context) (grapnel.Cluster, error) {
			return grapnel.Cluster{Asked: "node_a", Shared: true, Shards: 256, Free: []int{3, 7}, Nodes: []grapnel.Member{
				{ID: "node_a", Address: "http://a:1", State: grapnel.MemberUp, Seen: 1500 * time.Millisecond, Shards: 250, Intended: 256, Lagging: 1},
				{ID: "node_b", Address: "http://b:1", State: grapnel.MemberDraining, Shards: 4},
			}}, nil
		}
	})
	ask := func(key string) reply {
		r := httptest.NewRequest(http.MethodGet, "/v1/cluster", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		return w.send(r)
	}
	want := `{"node":"node_a","shared":true,"shards":256,"unowned":2,"unowned_shards":[3,7],"nodes":[` +
		`{"id":"node_a","address":"http://a:1","state":"up","seen_seconds_ago":1.5,"draining":false,"shards":250,"shards_intended":256,"shards_lagging":1},` +
		`{"id":"node_b","address":"http://b:1","state":"draining","seen_seconds_ago":0,"draining":true,"shards":4,"shards_intended":0,"shards_lagging":0}]}`
	if r := ask(admin); r.StatusCode != 200 || strings.TrimSpace(string(r.body)) != want {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
	if r := ask(acmeAdmin); r.StatusCode != 403 {
		t.Errorf("a key of one tenant: answered %d %s", r.StatusCode, r.body)
	}
}

// TestSettings: an admin of all tenants sees what the server was started with.
func TestSettings(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Settings = func() []wire.Setting { return []wire.Setting{{Name: "retention", Value: "30d", Doc: "x"}} }
	})
	for key, want := range map[string]int{admin: 200, acmeAdmin: 403} {
		r := httptest.NewRequest(http.MethodGet, "/v1/settings", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		got := w.send(r)
		if got.StatusCode != want || want == 200 && !strings.Contains(string(got.body), `{"name":"retention","value":"30d","doc":"x"}`) {
			t.Errorf("answered %d %s", got.StatusCode, got.body)
		}
	}
}
