package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Bodies that are sent halfway take at most the memory for their tenant: further requests of the
// tenant are refused, and other tenants are served. Announced bytes take no memory.
func TestStalledBodiesTakeTheirShare(t *testing.T) {
	gate := NewGate(Bounds{Bodies: 64 << 10, BodyFirst: 1 << 10})
	served(t, func(t *testing.T, w *world, dial func() net.Conn) {
		acme, other := scoped(grapnel.ScopePublish)+"_acme", scoped(grapnel.ScopePublish)
		post := func(key string) reply { return w.ask(key, "POST", "/v1/events", `{"type":"a.b","data":{}}`) }
		refused := make(chan *http.Response, 40)
		var all sync.WaitGroup
		defer all.Wait()
		stall := func(sent int) {
			conn := dial()
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				_, _ = fmt.Fprintf(conn, "POST /v1/events/batch HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\n%s",
					acme, strings.Repeat("x", sent))
				if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
					refused <- resp
				}
				_, _ = io.Copy(io.Discard, conn)
			})
		}
		for range 20 {
			stall(0)
		}
		synctest.Wait()
		if got := post(acme); gate.bytes != 20<<10 || got.StatusCode != 202 {
			t.Errorf("bodies that were only announced hold %d bytes, and another one is answered %d", gate.bytes, got.StatusCode)
		}
		for range 20 {
			stall(10_000)
		}
		synctest.Wait()
		if gate.bytes > 32<<10 || gate.bytes < 16<<10 || gate.shares["acme"] != gate.bytes {
			t.Errorf("stalled bodies hold %d bytes, %v", gate.bytes, gate.shares)
		}
		if got := post(other); got.StatusCode != 202 {
			t.Errorf("another tenant is answered %d %s", got.StatusCode, got.body)
		}
		time.Sleep(w.options.Bounds.DiscardTime + w.options.Bounds.Read) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		overloaded := 0
		for range len(refused) {
			if resp := <-refused; resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "1" {
				overloaded++
			}
		}
		if overloaded < 10 {
			t.Errorf("%d requests were refused", overloaded)
		}
		if got := post(acme); got.StatusCode != 202 || gate.bytes != 0 || len(gate.shares) != 0 {
			t.Errorf("afterwards bodies hold %d bytes, %v, and the tenant is answered %d", gate.bytes, gate.shares, got.StatusCode)
		}
	}, func(o *Options) {
		o.Gate = gate
		o.Bounds.Bodies, o.Bounds.BodyFirst = 64<<10, 1<<10
	})
}

// However many tenants take all that they may, another one has as much as each of them.
func TestShareOfEachTenant(t *testing.T) {
	g := NewGate(Bounds{Bodies: 1000})
	for n := range 20 {
		tenant, had := fmt.Sprint(n), int64(0)
		for g.hold(tenant, 1) == nil {
			had++
		}
		free := g.bounds.Bodies - g.bytes
		if had == 0 || had != free && had != free-1 {
			t.Fatalf("tenant %d has %d, and %d are left", n, had, free)
		}
		if free < 8 {
			return
		}
	}
}
