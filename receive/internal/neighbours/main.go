// Command neighbours is the test receiver of the Go kit (sdk/README.md) with all its stores, also
// those in modules of their own. Its tests serve the kit with routers that the kit does not know.
//
// It is a module of its own, so that programs with the kit depend on none of these modules. It
// promises nothing to programs outside of this repository's tests.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/grapnelhq/grapnel/receive/internal/receiver/app"
	"github.com/grapnelhq/grapnel/receive/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	stores := maps.Clone(app.Stores)
	stores["redis"] = openRedis
	if err := app.Run(ctx, os.Getenv, os.Stdout, stores); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

// openRedis opens a store in Redis. The effects are in a file that the Redis names, so that the
// next process finds them.
func openRedis(ctx context.Context, dsn string) (_ *app.Backend, err error) {
	o, err := redis.ParseURL(dsn)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(o)
	defer func() {
		if err != nil {
			err = errors.Join(err, client.Close())
		}
	}()
	dir, err := os.MkdirTemp("", "effects")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "effects.db")
	if err := client.SetNX(ctx, "effects", file, 0).Err(); err != nil {
		return nil, err
	}
	if file, err = client.Get(ctx, "effects").Result(); err != nil {
		return nil, err
	}
	b, err := app.OpenLedger(ctx, file, redisstore.New(client))
	if err != nil {
		return nil, err
	}
	closeLedger := b.Close
	b.Close = func() error { return cmp.Or(closeLedger(), client.Close()) }
	return b, nil
}
