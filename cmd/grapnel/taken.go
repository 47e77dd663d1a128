package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/server"
)

// taken names the flag of an address that is none, and adds the likely holder of the address, and
// the way out, to the error of a server that cannot listen.
func taken(ctx context.Context, address string, err error) error {
	if at, ok := errors.AsType[*server.ListenError](err); ok {
		address = at.Address
	}
	if invalid, ok := errors.AsType[*net.AddrError](err); ok {
		return cli.Usagef("--listen %s: %s; write HOST:PORT, such as 127.0.0.1:8420", address, invalid.Err)
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return &cli.Fault{Exit: cli.ExitFailure, Code: "in_use",
		Text: "cannot listen on " + address + ": it is in use; " + holder(ctx, address),
		Next: "Stop it, or choose another address with --listen, as in --listen 127.0.0.1:8421."}
}

// holder is the program that listens at an address. A Grapnel is known by its status page, which
// needs no key.
func holder(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(address)+"/status", nil)
	if err == nil {
		r.Close = true
		if resp, err := http.DefaultClient.Do(r); err == nil {
			text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
			_ = resp.Body.Close()
			if bytes.Contains(text, []byte("Grapnel")) {
				return "a Grapnel answers there (another serve, or dev)"
			}
		}
	}
	return "another program listens there; ss -ltnp shows which"
}
