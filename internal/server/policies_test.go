package server

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// TestPatchesOfAPolicyDoNotUndoEachOther: requests that change different fields at the same time.
func TestPatchesOfAPolicyDoNotUndoEachOther(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	c := start(t, o).consumer(t)
	at := "/v1/policies/" + c.must(http.StatusCreated, "POST", "/v1/policies", `{"name":"ours"}`)["id"].(string)
	for i := range 10 {
		n := i + 2
		var all sync.WaitGroup
		for _, patch := range []string{`{"timeout":"%ds"}`, `{"max_attempts":%d}`} {
			all.Go(func() {
				if status, _, body := c.ask("PATCH", at, fmt.Sprintf(patch, n)); status != http.StatusOK {
					t.Errorf("%s: answered %d %s", patch, status, body)
				}
			})
		}
		all.Wait()
		is := c.must(http.StatusOK, "GET", at, "")
		if is["timeout"] != fmt.Sprintf("%ds", n) || is["max_attempts"] != float64(n) {
			t.Fatalf("after both were changed to %d, the policy is %v", n, is)
		}
	}
}

// TestPatchesOfAPortalDoNotUndoEachOther: the same of how a tenant's portal looks.
func TestPatchesOfAPortalDoNotUndoEachOther(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	c := start(t, o).consumer(t)
	const at = "/v1/tenants/acme/portal"
	for n := range 10 {
		name, accent := fmt.Sprintf("Acme %d", n), fmt.Sprintf("#00000%d", n)
		var all sync.WaitGroup
		for _, patch := range []string{`{"name":"` + name + `"}`, `{"accent":"` + accent + `"}`} {
			all.Go(func() {
				if status, _, body := c.ask("PATCH", at, patch); status != http.StatusOK {
					t.Errorf("%s: answered %d %s", patch, status, body)
				}
			})
		}
		all.Wait()
		if is := c.must(http.StatusOK, "GET", at, ""); is["name"] != name || is["accent"] != accent {
			t.Fatalf("after it was named %s and coloured %s, the portal is %v", name, accent, is)
		}
	}
}
