package main

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) healthCommand() *cobra.Command {
	var live bool
	c := &cobra.Command{
		Use: "health", Short: "Ask whether a server accepts events",
		Long: "Ask a server's /readyz once, for health checks of containers and for scripts: exit code 0 if it accepts events, 6 if " +
			"it does not or cannot be reached. It needs no key. Without --server it asks the server of this machine, at the address " +
			"in GRAPNEL_LISTEN if that is set.",
		Example: "grapnel health\n" +
			"grapnel health --live --server http://10.1.0.11:8420",
		RunE: s.withPrinter(func(ctx context.Context, p *cli.Printer, _ []string) error {
			// The client is made without Connect, which fails if it cannot read the key of a server here.
			http, err := cli.Trusting(s.ca)
			if err != nil {
				return err
			}
			c, err := client.New(client.Options{Server: s.nearest(), HTTP: http, Timeout: s.timeout})
			if err != nil {
				return cli.Usagef("--server: %v", err)
			}
			doc, err := c.Probe(ctx, live)
			if err != nil {
				return err
			}
			var is struct{ Status, Version string }
			if err := json.Unmarshal(doc, &is); err != nil {
				return cli.Findings("the answer of %s is not that of a Grapnel: %v", c.Server(), err)
			}
			return p.Print(object(is.Status, doc, [][]string{{"status", is.Status}, {"version", is.Version}}))
		}),
	}
	c.Flags().BoolVar(&live, "live", false, "ask /livez instead: whether the process answers at all")
	return c
}

// nearest is the server that health asks: that of --server, else the one that listens as
// GRAPNEL_LISTEN says, as in a container. A server that speaks HTTPS answers probes in the clear
// too.
func (s *session) nearest() string {
	listen, _ := s.Lookup("GRAPNEL_LISTEN")
	if s.command.Flags().Changed("server") || listen == "" {
		return s.server
	}
	return "http://" + reachable(cli.ListenAddress("", listen))
}

// reachable is the address at which this machine reaches a listener: one at all of its addresses is
// at loopback too.
func reachable(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
