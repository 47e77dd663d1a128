package api

import (
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestKeysAndLinksCarryTheName: a proxy finds the installation by what a key or the id of a portal
// link begins with. Without a name they are as ever.
func TestKeysAndLinksCarryTheName(t *testing.T) {
	for name, want := range map[string][2]string{"eu1": {"grp_eu1_", "lnk_eu1_"}, "": {"grp_", "lnk_"}} {
		w := newWorld(t, func(o *Options) { o.Name = name })
		key := w.must(201, "POST", "/v1/keys", `{"name":"k","scopes":["read"],"tenant":"acme"}`)["key"].(string)
		link := w.must(201, "POST", "/v1/tenants/acme/portal-links", "")["id"].(string)
		if secret, is := strings.CutPrefix(key, want[0]); !is || len(secret) != 43 {
			t.Errorf("named %q: the key is %s", name, key)
		}
		if id, is := strings.CutPrefix(link, want[1]); !is || len(id) != 26 || !grapnel.ValidID(link) {
			t.Errorf("named %q: the link is %s", name, link)
		}
		w.as(key, 200, "GET", "/v1/endpoints", "")
		w.must(204, "DELETE", "/v1/tenants/acme/portal-links?link="+link, "")
	}
}
