package server

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"testing"

	"github.com/grapnelhq/grapnel/client"
)

// TestChange: the options that a running server can change take effect while it runs, for URLs that
// are saved and for connections that are made, in both directions.
func TestChange(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.EgressAllow, o.MaxEndpoints = testKey, nil, 1
	arrived := make(chan string, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.URL.Path }))
	defer receiver.Close()
	s := start(t, o)
	c := s.client(t, testKey)
	create := func(path string) error {
		_, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL + path})
		return err
	}
	if err := create("/a"); err == nil {
		t.Fatal("loopback is allowed without --egress-allow")
	}
	o.EgressAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s.Change(o)
	if err := create("/a"); err != nil {
		t.Fatal(err)
	}
	send := func() {
		t.Helper()
		if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	send()
	<-arrived
	if err := create("/b"); err == nil {
		t.Error("a second endpoint under MaxEndpoints 1")
	}
	o.MaxEndpoints, o.Proxies = 2, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	s.Change(o)
	if err := create("/b"); err != nil {
		t.Error(err)
	}
	if got := s.proxies(); len(got) != 1 {
		t.Errorf("proxies: %v", got)
	}
	o.EgressAllow = nil
	s.Change(o)
	blocked := s.sender.Stats().Blocked
	send()
	for s.sender.Stats().Blocked < blocked+2 { // both endpoints
		select {
		case path := <-arrived:
			t.Fatalf("%s was reached after loopback was closed", path)
		default:
			runtime.Gosched()
		}
	}
}
