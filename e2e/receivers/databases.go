//go:build linux

package receivers

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// Databases are a private PostgreSQL and a private Redis.
type Databases struct {
	postgres *pgtest.Server
	redis    *process.Process
	address  string // of Redis
	made     atomic.Int64
}

// Open starts the servers. Redis stores nothing on a disk: only receivers are killed here.
func Open(ctx context.Context, dir string) (*Databases, error) {
	d := &Databases{}
	var err error
	if d.postgres, err = pgtest.Start(ctx, pgtest.Options{Settings: map[string]string{"max_connections": "1000"}}); err != nil {
		return nil, err
	}
	if d.address, err = process.UnusedAddress(); err != nil {
		return d, err
	}
	_, port, err := net.SplitHostPort(d.address)
	if err != nil {
		return d, err
	}
	//nolint:gosec // it runs a known program
	d.redis, err = process.Start(exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
		"--dir", dir, "--databases", "10000", "--logfile", filepath.Join(dir, "redis.log")))
	if err != nil {
		return d, err
	}
	return d, process.Until(ctx, 30*time.Second, func() (bool, error) {
		conn, err := net.Dial("tcp", d.address)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return true, conn.Close()
	})
}

// Close ends the servers.
func (d *Databases) Close() error {
	if d.redis != nil {
		d.redis.Stop()
	}
	return d.postgres.Stop()
}

// DSN makes an empty database of a store and says how to reach it.
func (d *Databases) DSN(ctx context.Context, store, dir string) (string, error) {
	n := d.made.Add(1)
	switch store {
	case "memory":
		return "", nil
	case "sqlite":
		return filepath.Join(dir, fmt.Sprintf("receiver%d.db", n)), nil
	case "redis":
		return fmt.Sprintf("redis://%s/%d", d.address, n), nil
	default: // the drivers of PostgreSQL
		return d.postgres.Create(ctx, fmt.Sprintf("receiver%d", n))
	}
}
