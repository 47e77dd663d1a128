package client_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/server"
)

// here reaches the server that the examples talk to.
var here client.Options

// TestMain starts that server.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		stop, err := serve()
		if err != nil {
			fmt.Fprintln(os.Stderr, "the examples' server:", err)
			return 1
		}
		code := m.Run()
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "the examples' server:", err)
			return 1
		}
		return code
	}())
}

func serve() (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "grapnel-client-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := server.Open(ctx, server.Options{Listen: "127.0.0.1:0", Store: "sqlite:" + filepath.Join(dir, "data", "grapnel.db"),
		EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		cancel()
		return nil, err
	}
	accepts, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func() { close(accepts) }) }()
	<-accepts
	key, err := os.ReadFile(s.AdminKey().Path)
	here = client.Options{Server: s.URL(), Key: strings.TrimSpace(string(key))}
	return func() error {
		cancel()
		err := <-ended
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
		return err
	}, err
}
