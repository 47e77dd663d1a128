// Command grapnel is the whole of Grapnel in one binary: the server, and the commands that talk to one.
//
// Each command has a file here that says its flags, makes the call and prints the answer; nothing else. What commands share
// is in internal/cli, the calls are in client, and the server is put together in internal/server. It does not promise stable
// wording: programs read -o json and exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/grapnelhq/grapnel/internal/cli"
)

func main() {
	// The first signal ends ctx, and with it whatever runs, in good order. From then on signals have their default effect
	// again, so that a second one ends the process whatever it is doing.
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // it is under nohup, which means that the terminal may close
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, restore := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, restore)
	os.Exit(run(ctx, cli.Process()))
}
