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
