package main

import (
	"strings"
	"testing"
)

// TestClusterStatus of several nodes, of which one is gone.
func TestClusterStatus(t *testing.T) {
	f := newFake(t, always(200, `{"node":"node_a","shared":true,"shards":256,"unowned":2,"unowned_shards":[3,7],"nodes":[`+
		`{"id":"node_a","address":"http://a:1","state":"up","seen_seconds_ago":0.25,"draining":false,"shards":180,"shards_intended":256,"shards_lagging":0},`+
		`{"id":"node_b","address":"http://b:1","state":"silent","seen_seconds_ago":11.04,"draining":false,"shards":74,"shards_intended":0,"shards_lagging":74}]}`))
	got := invoke(t, f.env(), "", "cluster", "status")
	if got.code != 0 || len(f.seen) != 1 || f.seen[0].Target != "/v1/cluster" {
		t.Fatalf("%+v, asked %+v", got, f.seen)
	}
	want := `1 of 2 nodes are up, 2 of 256 shards have no owner: no attempts are made for their endpoints; 74 are about to be lost
NODE    ADDRESS     STATE   SEEN   SHARDS  SETTLED  LAGGING
node_a  http://a:1  up      300ms  180     256      0
node_b  http://b:1  silent  11s    74      0        74
`
	if got.out != want {
		t.Errorf("it prints\n%s", got.out)
	}
	if got = invoke(t, f.env(), "", "cluster", "status", "-o", "name"); got.out != "node_a\nnode_b\n" {
		t.Errorf("names: %+v", got)
	}
	if got = invoke(t, f.env(), "", "cluster", "status", "--jq", ".nodes[] | select(.state == \"silent\").id"); got.out != "node_b\n" {
		t.Errorf("with jq: %+v", got)
	}
}

// TestClusterStatusOfOne asks a server whose store is its own.
func TestClusterStatusOfOne(t *testing.T) {
	p, env := serve(t)
	got := invoke(t, env, "", "cluster", "status")
	if got.code != 0 || !strings.HasPrefix(got.out, "single node\n") || !strings.Contains(got.out, p.url+"  up") {
		t.Errorf("%+v", got)
	}
	if got := invoke(t, env, "", "cluster", "status", "--jq", ".shared, (.nodes | length)"); got.out != "false\n1\n" {
		t.Errorf("%+v", got)
	}
}
