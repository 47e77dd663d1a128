//go:build linux

package main

import (
	"context"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/e2e/process"
)

// adminKey is the key of both sides; only loopback sees it.
const adminKey = "grp_shots-only-on-loopback"

// start runs the binary on a database and waits until it is ready.
func (j *job) start(ctx context.Context, store string) (*process.Server, error) {
	return process.Serve(ctx, j.binary, adminKey, j.dir, "--store", store)
}

func newClient(g *process.Server) (*client.Client, error) {
	return client.New(client.Options{Server: g.URL(), Key: adminKey})
}
