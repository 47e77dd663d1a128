// Command receiver is the test receiver of the Go kit. Its interface is in sdk/README.md: the same
// for the kits of all languages, so that one program can kill, repeat, reorder and measure.
//
// It is no example of a receiver: it crashes and fails when it is told to.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/grapnelhq/grapnel/receive/internal/receiver/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := app.Run(ctx, os.Getenv, os.Stdout, app.Stores); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}
