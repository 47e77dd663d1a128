package main

import (
	"context"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/cli"
	"github.com/grapnelhq/grapnel/internal/server"
)

func (s *session) serve() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use: "serve", Short: "Run the server", Args: takes(cobra.NoArgs),
		Long: "Run the server until it is told to stop (SIGTERM, SIGHUP or Ctrl-C), which drains it.\n\n" +
			"Every flag can also be given as a GRAPNEL_* variable (--drain-timeout is GRAPNEL_DRAIN_TIMEOUT) or in the config file " +
			"(drain_timeout: 30s). The first start makes an admin key and writes it to admin.key beside the database; " +
			"GRAPNEL_ADMIN_KEY sets it instead.",
		Example: "grapnel serve --store sqlite:/var/lib/grapnel/grapnel.db --listen 0.0.0.0:8420\n" +
			"grapnel serve --egress-allow 127.0.0.0/8",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(s)
			if err != nil {
				return err
			}
			return taken(cmd.Context(), o.Listen, s.run(cmd.Context(), o, s.announce))
		},
	}
	f.add(c.Flags(), server.DefaultListen, server.DefaultStore)
	return c
}

// run opens a server and runs it until ctx ends. started is called once it accepts requests.
func (s *session) run(ctx context.Context, o server.Options, started func(*server.Server) error) error {
	defer runtime.KeepAlive(settle())
	srv, err := server.Open(ctx, o)
	if err != nil {
		return err
	}
	var failed error
	running, stop := context.WithCancel(ctx)
	defer stop()
	err = srv.Run(running, func() {
		if failed = started(srv); failed != nil {
			stop()
		}
	})
	if failed != nil && ctx.Err() == nil { // being told to stop while starting is no failure
		return failed
	}
	return err
}

// announce prints the one line that says that requests are accepted, and where.
func (s *session) announce(srv *server.Server) error {
	if key := srv.AdminKey(); key.Made {
		s.Note("The admin key, which opens everything, is in %s. Commands find it by GRAPNEL_KEY_FILE.", key.Path)
	}
	p, err := s.NewPrinter(s.output, s.jq)
	if err != nil {
		return err
	}
	doc := cli.Encode(map[string]string{"url": srv.URL()})
	return p.Print(cli.View{
		JSON: doc, Items: []cli.Item{{Name: srv.URL(), JSON: doc}},
		Parts: []cli.Part{{Rows: [][]string{{"Grapnel accepts requests at " + srv.URL()}}}},
	})
}

// serveFlags are the settings of a server.
type serveFlags struct {
	config, listen, store, advertise, logFormat, logLevel, bounds string
	drain, retention, lease                                       time.Duration
	egress, proxies                                               cli.Networks
	public                                                        cli.Address
	httpsOnly, metricsOpen                                        bool
	maxEvent, maxBody                                             cli.Size
	maxInFlight, maxPerHost, maxEndpoints                         int
	maxPending                                                    int64
	rules                                                         keepRules
	cells                                                         moreCells
}

func (f *serveFlags) add(flags *pflag.FlagSet, listen, store string) {
	f.maxEvent, f.maxBody = server.DefaultMaxEvent, server.DefaultMaxBody
	flags.StringVar(&f.config, "config", "", "YAML file with settings")
	flags.StringVar(&f.listen, "listen", listen, "address to accept requests at; a port alone is that port of all the machine's addresses")
	flags.StringVar(&f.store, "store", store, "where data are kept")
	flags.Var(&f.cells, "cell", "another store that this server serves, under a name; tenants can be moved between --store, which is called home, and these")
	cli.DurationVar(flags, &f.lease, "lease", server.DefaultLease, "how long a node that is gone keeps its endpoints, where several use the same database")
	flags.StringVar(&f.advertise, "advertise", "", "HOST:PORT where other nodes on the same database reach this one; empty: as --listen says")
	cli.DurationVar(flags, &f.drain, "drain-timeout", server.DefaultDrainTimeout, "how long attempts in flight may take after being told to stop")
	flags.Var(&f.egress, "egress-allow", "addresses that deliveries may reach although they are not public")
	flags.Var(&f.public, "public-url", "where this server is reached, with a path if it is behind one: links in answers begin with it, and endpoints may not lead there")
	flags.Var(&f.proxies, "trusted-proxies", "address ranges of proxies whose X-Forwarded-Proto and X-Forwarded-Host are believed")
	flags.BoolVar(&f.httpsOnly, "https-only", false, "refuse endpoints with http:// URLs")
	flags.BoolVar(&f.metricsOpen, "metrics-open", false, "show /metrics without a key")
	flags.Var(&f.maxEvent, "max-event", "largest data of one event")
	flags.Var(&f.maxBody, "max-body", "largest body of a request to a source")
	flags.IntVar(&f.maxInFlight, "max-in-flight", server.DefaultMaxInFlight, "attempts at once, in each cell")
	flags.IntVar(&f.maxPerHost, "max-per-host", 0, "attempts of one tenant at once at one host and port; 0: half of --max-in-flight")
	flags.Int64Var(&f.maxPending, "max-pending", server.DefaultMaxPending, "deliveries of one tenant that may wait; 0: no limit")
	flags.IntVar(&f.maxEndpoints, "max-endpoints", server.DefaultMaxEndpoints, "endpoints and queues of one tenant; 0: no limit")
	cli.DurationVar(flags, &f.retention, "retention", server.DefaultRetention, "how long full records are kept once they are over")
	flags.Var(&f.rules, "retention-rule", "how long those of a tenant or type are kept instead: tenant=acme,type=invoice.*,for=90d; the first that matches")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.bounds, "bounds", "", "sizes and time limits inside the server, for tests: ROOM.NAME=VALUE,… or tiny:SEED")
	_ = flags.MarkHidden("bounds")
	settings := []string{"bounds", "listen", "store", "cell", "advertise", "lease", "drain-timeout", "egress-allow", "public-url", "trusted-proxies", "https-only", "metrics-open", "max-event", "max-body", "max-in-flight", "max-per-host",
		"max-pending", "max-endpoints", "retention", "retention-rule", "log-format", "log-level"}
	cli.FromVariables(flags, append(settings, "config")...)
	cli.FromFile(flags, settings...)
	cli.Secret(flags, "store", "cell") // a database's URL has a password in it
}

func (f *serveFlags) options(s *session) (server.Options, error) {
	log, err := s.Logger(f.logFormat, f.logLevel)
	if err != nil {
		return server.Options{}, err
	}
	switch {
	case f.drain <= 0:
		return server.Options{}, cli.Usagef("--drain-timeout %v: it must be longer than nothing", f.drain)
	case f.retention <= 0:
		return server.Options{}, cli.Usagef("--retention %v: it must be longer than nothing", f.retention)
	case f.maxInFlight < 1:
		return server.Options{}, cli.Usagef("--max-in-flight %d: it must be at least 1", f.maxInFlight)
	case f.maxPerHost < 0:
		return server.Options{}, cli.Usagef("--max-per-host %d: it must not be negative; 0 is half of --max-in-flight", f.maxPerHost)
	case f.maxPending < 0:
		return server.Options{}, cli.Usagef("--max-pending %d: it must not be negative; 0 is no limit", f.maxPending)
	case f.maxEndpoints < 0:
		return server.Options{}, cli.Usagef("--max-endpoints %d: it must not be negative; 0 is no limit", f.maxEndpoints)
	}
	if err := f.cells.check(); err != nil {
		return server.Options{}, err
	}
	limits, err := server.ParseBounds(f.bounds)
	if err != nil {
		return server.Options{}, err
	}
	key, err := s.SecretVariable("GRAPNEL_ADMIN_KEY")
	if err != nil {
		return server.Options{}, err
	}
	if key != "" && len(key) < server.MinAdminKeyLen {
		return server.Options{}, cli.Usagef("GRAPNEL_ADMIN_KEY has %d characters; it needs at least %d", len(key), server.MinAdminKeyLen)
	}
	return server.Options{
		Listen: cli.ListenAddress("", f.listen), Store: f.store, Cells: f.cells, Advertise: f.advertise, Lease: f.lease, AdminKey: key, DrainTimeout: f.drain, EgressAllow: f.egress,
		PublicURL: f.public.URL, Proxies: f.proxies, HTTPSOnly: f.httpsOnly, MetricsOpen: f.metricsOpen,
		MaxEvent: int64(f.maxEvent), MaxBody: int64(f.maxBody), MaxInFlight: f.maxInFlight, MaxPerHost: f.maxPerHost, MaxPending: f.maxPending,
		MaxEndpoints: f.maxEndpoints,
		Retention:    f.retention, Rules: f.rules, Bounds: limits, Log: log,
	}, nil
}
