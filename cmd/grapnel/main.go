// Command grapnel is all of Grapnel in one binary: the server, and the commands that talk to one.
//
// Each command has a file here: its flags, its call, its output. Endpoints, queues, sources,
// policies and keys are descriptions, from which resource.go makes their commands; call.go does so
// for a command that sends one request. Settings, output and exit codes are in internal/face/cli,
// the calls in client, and internal/server assembles the server. It does not promise stable wording:
// programs read -o json and exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // quiet hours name time zones, and a container may have none

	_ "golang.org/x/crypto/x509roots/fallback" // authorities that endpoints' certificates are verified by, likewise

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func main() {
	// The first signal ends ctx, and commands stop in good order. From then on signals have their
	// default effect, so that a second one ends the process at once.
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore)
	ctx, end := context.WithCancel(ctx)
	w := cli.Process()
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it, so that the terminal may close
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		go endUnless(hangups, w.HungUp, end) // for the life of the process
	}
	code := runProgram(ctx, w)
	end()
	os.Exit(code)
}

// endUnless ends the program at the first hangup that its command does not take.
func endUnless(hangups chan os.Signal, taken func() bool, end func()) {
	for range hangups {
		if !taken() {
			signal.Stop(hangups)
			end()
			return
		}
	}
}
